"""The graph of what was made from what: nodes, edges, the walk over them, what commits record, and drawing."""
