"""Row windows: when later rows displace a row.

All rows of all streams are in one order, (time, arrival); `seq` is a row's number in it. A row of a stream
with window `n rows` is displaced by the n-th later row of its stream (or key), and does not join from that
row's `seq` on. A combination is a result if its newest row precedes the displacement of each of its rows:
max(seq) < out(u)  for each u from a row window.

Rows that are never stored (a filter fails, a key is null) displace others all the same.
"""

from __future__ import annotations

import numpy as np

from windrow.engine.key_numbers import NO_KEY, KeyNumbers
from windrow.model.stateful import Stateful
from windrow.window.window_store import WindowStore

Array = np.ndarray
NEVER = int(np.iinfo(np.int64).max)
"""In place of a number or a time that does not come, or that is not known."""
FEW_KEYS = 1024
SEQ, OUT, RANK, KEY = "seq", "out", "rank", "key"
"""Columns of windows in a join with row windows: `seq`; and for row windows the `seq` of the displacing row,
the number of earlier rows of the stream (or key), and the key number."""


class RowWindow(Stateful):
    """Computes when the rows of one stream are displaced from a window of `size` rows, or of `size` rows of
    each of its `keys`."""

    saved = ("total", "displaced_early", "keys")

    def __init__(self, size: int, keys: KeyNumbers | None) -> None:
        self.size = size
        self.keys = keys
        self.total = 0
        """Rows of the stream so far."""
        self.displaced_early = 0
        """Displaced rows that were evicted for lack of memory before `expire` could count them."""

    def admit(self, window: WindowStore, seq: Array, keys: Array | None) -> dict[str, Array]:
        """Columns OUT, RANK and KEY of a sub-batch's rows; sets OUT of the rows it displaces.

        `keys` holds the rows' key numbers, NO_KEY for rows without a key.
        """
        if self.keys is not None and keys is not None:
            return self._admit_per_key(self.keys, window, seq, keys)
        rank = self.total + np.arange(len(seq))
        out = np.full(len(seq), NEVER)
        # A row is displaced by the one `size` places later, which may be in the same sub-batch.
        out[: max(0, len(seq) - self.size)] = seq[self.size :]
        held = window.column(RANK)[window.first : window.end]
        # Ranks ascend, so the rows that the sub-batch displaces are next to each other.
        a, b = np.searchsorted(held, (self.total - self.size, self.total - self.size + len(seq)))
        by = held[a:b] + self.size - self.total
        window.column(OUT)[window.first + a : window.first + b] = seq[by]
        self.total += len(seq)
        return {OUT: out, RANK: rank, KEY: np.zeros(len(seq), np.int64)}

    def _admit_per_key(
        self, known: KeyNumbers, window: WindowStore, seq: Array, keys: Array
    ) -> dict[str, Array]:
        who = np.flatnonzero(keys != NO_KEY)
        numbers = keys[who]
        before = known.counts.copy()
        ranks = known.rank(numbers)
        order = np.argsort(numbers, kind="stable")
        by_key = seq[who][order]
        starts = np.searchsorted(numbers[order], np.arange(len(before) + 1))

        def displacing(key: Array, rank: Array) -> Array:
            """The `seq` of the row `size` ranks later in the key, if it is in this sub-batch."""
            place = rank + self.size - before[key]
            arrived = (place >= 0) & (place < starts[key + 1] - starts[key])
            found = np.full(len(key), NEVER)
            found[arrived] = by_key[(starts[key] + place)[arrived]]
            return found

        live = slice(window.first, window.end)
        held = window.column(OUT)
        displaced_by = displacing(window.column(KEY)[live], window.column(RANK)[live])
        held[live] = np.minimum(held[live], displaced_by)
        out, rank, key = np.full(len(seq), NEVER), np.zeros(len(seq), np.int64), np.zeros(len(seq), np.int64)
        out[who], rank[who], key[who] = displacing(numbers, ranks), ranks, numbers
        return {OUT: out, RANK: rank, KEY: key}

    def displaced(self, window: WindowStore) -> Array | None:
        """Mask of the rows that join no more once this sub-batch is evaluated; None if there are none."""
        mask: Array = window.column(OUT)[window.first : window.end] < NEVER
        return mask if mask.any() else None

    def forget(self, window: WindowStore) -> None:
        """Remove keys without stored rows once they are many. Later rows displace only stored rows, so such a
        key can restart from any number. Without a memory limit every key has rows."""
        if self.keys is None or len(self.keys.counts) <= max(FEW_KEYS, 2 * len(window)):
            return
        held = window.column(KEY)[window.first : window.end]
        kept, numbers = np.unique(held, return_inverse=True)
        held[:] = numbers
        self.keys.keep(kept)

    def expire(self, window: WindowStore, seq: int) -> int:
        """Remove rows displaced up to `seq`; return how many."""
        alive = window.column(OUT)[window.first : window.end] > seq
        gone = len(alive) - int(alive.sum())
        before, self.displaced_early = self.displaced_early, 0
        if self.keys is None:
            window.drop_front(gone)
            return before + gone
        if 2 * gone > len(alive) and gone > 64:
            window.keep(alive)
            return before + gone
        return before
