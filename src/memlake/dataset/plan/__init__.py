"""Plans: the frozen steps beneath a chain, checked when they are written. Runs nothing."""
