"""The models of the Memory paper: results by age and by frequency, and memory allocation."""
