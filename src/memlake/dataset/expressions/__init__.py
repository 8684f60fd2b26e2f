"""Columns, operators and functions as a chain writes them, and the SQL they become."""
