"""History: commits, refs, ancestry, and what a person types to name them. Knows no working file."""
