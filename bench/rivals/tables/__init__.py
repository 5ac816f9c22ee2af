"""Libraries that sort tables: pandas, NumPy, polars, DuckDB, pyarrow."""
