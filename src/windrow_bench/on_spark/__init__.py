"""The Spark side of benchmarks: each side runs as a process of its own and prints its figures."""
