"""Eviction: memory policies at run time."""
