"""Numba functions: arrays in, arrays out. They know nothing of queries or policies.

Compiled code is cached on disk beside this package (or in NUMBA_CACHE_DIR), once per machine.
"""
