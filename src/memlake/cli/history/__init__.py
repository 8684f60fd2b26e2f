"""Verbs over commits: commit, log, show, diff, reflog, tag."""
