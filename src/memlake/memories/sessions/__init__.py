"""What happens in a session of a coding agent: what it is told, and what is kept of what was said in it.

Hooks load this room at every prompt, so nothing in it loads numpy or a model.
"""
