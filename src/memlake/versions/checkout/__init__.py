"""A checkout: the working files, the stage and HEAD, and bringing them to what a commit says."""
