"""Datasets: typed rows, versioned, explained, and cheaper to recall than to recompute."""
