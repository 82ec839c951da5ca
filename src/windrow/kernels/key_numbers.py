"""Numbers keys in order of appearance, with an open-addressing hash table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.probe_index import bucket_of


@njit(cache=True)
def number_keys(table_keys: Any, table_numbers: Any, keys: Any, known: int, out: Any) -> int:
    """Writes the number of each key to `out` and numbers new keys from `known` on; returns the new `known`.

    Invariant: the table is at most half full, so the search for a free slot (-1) ends.
    """
    size = len(table_keys)
    for r in range(len(keys)):
        key = keys[r]
        slot = bucket_of(key, size)
        while table_numbers[slot] >= 0 and table_keys[slot] != key:
            slot += 1
            if slot == size:
                slot = 0
        if table_numbers[slot] < 0:
            table_keys[slot] = key
            table_numbers[slot] = known
            known += 1
        out[r] = table_numbers[slot]
    return known


@njit(cache=True)
def rank_within(numbers: Any, counts: Any, out: Any) -> None:
    """Writes how many rows of the same number precede each row to `out`, and updates `counts`."""
    for r in range(len(numbers)):
        out[r] = counts[numbers[r]]
        counts[numbers[r]] += np.int64(1)
