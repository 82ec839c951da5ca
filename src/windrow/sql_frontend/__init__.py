"""SQL over streams: text in, frozen statements with a `Query` inside out. Knows nothing of Spark."""
