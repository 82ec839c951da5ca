"""A hash index over one or several join columns of a window: chains of positions, newest first.

Expiry needs no work here: positions ascend in order of arrival, and a chain is followed only down to the
window's first live position. One index spans all segments of its window, so a probe is one lookup however
many segments there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from windrow.kernels import hashing, probe_index

Array = np.ndarray
_SMALLEST = 64


class HashIndex:
    def __init__(self, names: tuple[str, ...], buckets: int | None) -> None:
        self.names = names
        self.fixed_buckets = buckets
        self.head: Array = np.full(buckets or _SMALLEST, -1, np.int32)
        self.back: Array = np.empty(0, np.int32)
        self._mixed: Array | None = None if len(names) == 1 else np.empty(0, np.int64)
        self._single: Array = np.empty(0, np.int64)

    @property
    def keys(self) -> Array:
        """The key of each row by position: the column itself, or a mix of several (to be verified)."""
        return self._single if self._mixed is None else self._mixed

    @property
    def nbytes(self) -> int:
        mixed = 0 if self._mixed is None else self._mixed.nbytes
        return int(self.head.nbytes + self.back.nbytes + mixed)

    @property
    def row_bytes(self) -> int:
        """Bytes per position, without the heads of the chains."""
        return int(self.back.itemsize) + (0 if self._mixed is None else int(self._mixed.itemsize))

    def build(self, columns: Mapping[str, Array], first: int, end: int) -> None:
        """Rebuilds the index with these rows only."""
        capacity = len(columns[self.names[0]])
        if len(self.back) != capacity:
            self.back = np.empty(capacity, np.int32)
            if self._mixed is not None:
                self._mixed = np.empty(capacity, np.int64)
        buckets = self.fixed_buckets or max(_SMALLEST, _next_power(end - first))
        if len(self.head) == buckets:
            self.head.fill(-1)
        else:
            self.head = np.full(buckets, -1, np.int32)
        self._index(columns, first, first, end)

    def append(self, columns: Mapping[str, Array], first: int, start: int, end: int) -> None:
        self._index(columns, first, start, end)

    def move(self, columns: Mapping[str, Array], shift: int, live: int, capacity: int) -> None:
        """Adapts the index after the window's arrays were moved down by `shift`."""
        if self._mixed is None:
            self._single = columns[self.names[0]].view(np.int64)
        fresh = np.empty(capacity, np.int32)
        fresh[:live] = self.back[shift : shift + live]
        self.back = fresh
        if self._mixed is not None:
            mixed = np.empty(capacity, np.int64)
            mixed[:live] = self._mixed[shift : shift + live]
            self._mixed = mixed
        if shift:
            probe_index.shift_chains(self.head, self.back, shift, live)

    def _index(self, columns: Mapping[str, Array], first: int, start: int, end: int) -> None:
        if self._mixed is None:
            self._single = columns[self.names[0]].view(np.int64)
        else:
            self._mixed[start:end] = mix_columns([columns[name][start:end] for name in self.names])
        wanted = end - first
        if self.fixed_buckets is None and wanted > len(self.head):
            self.head = np.full(_next_power(wanted), -1, np.int32)
            start = first
        elif self.fixed_buckets is None and len(self.head) > _SMALLEST and wanted * 8 < len(self.head):
            self.head = np.full(max(_SMALLEST, _next_power(wanted)), -1, np.int32)
            start = first
        probe_index.link(self.head, self.back, self.keys, start, end)


def mix_columns(words: Sequence[Array]) -> Array:
    """One key for several columns; a single one is its own key."""
    key = words[0].view(np.int64)
    for word in words[1:]:
        key = hashing.combine(key, word.view(np.int64))
    return key


def _next_power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
