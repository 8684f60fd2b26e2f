"""Verbs over lines of work: branch, switch, merge, cherry-pick, revert, stash."""
