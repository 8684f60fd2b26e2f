"""L2: history. Tree, commits, refs, stage, diff, merge, checkout. Knows paths and oids, not what they hold."""
