"""What agents remember: store, search, merge decisions, state, embedding. Knows records and the index, no door."""
