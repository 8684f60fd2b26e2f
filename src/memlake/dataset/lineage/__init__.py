"""Where rows come from: what a run says of itself, and the graph drawn from what many have said."""
