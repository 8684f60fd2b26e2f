"""Commands that share a repo: clone, push, pull, fetch, remote."""
