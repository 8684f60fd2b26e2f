"""Verbs over files and the stage: init, add, rm, mv, restore, cat, ls, blame, status."""
