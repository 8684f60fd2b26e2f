"""Where a chain begins: storages, CSV, JSON and Parquet files as sources of rows."""
