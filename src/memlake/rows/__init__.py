"""Rows of tables, whoever holds them: the SQL and the engine that compare them. Knows no dataset and no file type."""
