"""Pipelines of `windrow run`. A TOML file describes the streams, their join, an aggregation and a sink."""
