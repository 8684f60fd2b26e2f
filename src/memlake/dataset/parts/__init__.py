"""Rows at rest: Parquet parts, the frames they make up, their marks, and the record of a version."""
