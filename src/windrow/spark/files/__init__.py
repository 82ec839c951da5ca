"""Streams of files that stay in columns on their way through Spark.

Spark lists the files, so offsets, exactly once and distribution are Spark's. A first `mapInArrow` reads them
with pyarrow, orders the rows by partition, and sends one Arrow blob per partition through the shuffle. The
join's own task unpacks them beside the rows of DataFrames.
"""
