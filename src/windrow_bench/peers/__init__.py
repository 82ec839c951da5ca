"""`windrow bench peers`: the same joins of the same files by Windrow, Spark, Flink and DuckDB."""
