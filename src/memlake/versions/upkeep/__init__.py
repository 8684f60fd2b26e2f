"""Keeping a repo sound and small: gc, fsck, doctor, backup, purge, rescue."""
