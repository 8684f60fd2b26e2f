"""The verbs that change a checkout or a branch, one file each."""
