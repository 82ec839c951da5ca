"""Joins on Spark. Only this package imports pyspark."""
