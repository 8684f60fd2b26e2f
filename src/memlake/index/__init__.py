"""L2: finding things. Derived files that follow the history; deleting them loses nothing."""
