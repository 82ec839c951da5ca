"""Policies as frozen descriptions: what to evict under a memory limit, how to do less under a deadline."""
