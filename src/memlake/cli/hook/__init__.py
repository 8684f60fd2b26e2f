"""`memlake hook ...`: what a coding agent calls."""
