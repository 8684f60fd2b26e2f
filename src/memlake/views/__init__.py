"""L4: how records look to people and programs: patches, tables, JSON, words. Knows no command."""
