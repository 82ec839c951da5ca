"""`windrow run`: a pipeline described in a TOML file: streams, their join, an aggregation, a sink."""
