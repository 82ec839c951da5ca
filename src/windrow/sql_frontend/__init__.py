"""SQL over streams: parses text into frozen statements, each with its `Query`. Independent of Spark."""
