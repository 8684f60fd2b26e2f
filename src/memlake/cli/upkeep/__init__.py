"""Verbs that keep a repo in order: undo, gc, fsck, backup, purge, config, trust."""
