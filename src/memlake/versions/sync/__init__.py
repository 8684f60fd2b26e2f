"""Sync: history that travels. Batches, remotes, push, fetch, bundles. Knows no door and no working file."""
