"""`memlake remember`, `recall`, `memory ...` and `state ...`."""
