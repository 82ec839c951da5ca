"""On Spark: the only package that imports pyspark."""
