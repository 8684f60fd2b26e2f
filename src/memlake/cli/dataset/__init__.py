"""`memlake dataset ...`, and running scripts."""
