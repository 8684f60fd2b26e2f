"""Whether work is the same work (fingerprints), and what is remembered of it."""
