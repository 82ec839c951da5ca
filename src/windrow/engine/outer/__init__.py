"""Outer, semi, anti and as-of joins."""
