"""Windows counted in rows: when a row is pushed out by later ones.

All rows of all streams stand in one order, (time, arrival), and have a number in it, `seq`. A row of a
stream with window `n rows` is pushed out by the n-th later row of its stream (or of its key): from that
row's `seq` on it joins no more. So a combination is a result if its newest row comes before each of its
rows is pushed out:  max(seq) < out(u)  for each u from a counted window.

Rows that are never stored (a filter fails, a key is null) push out others all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windrow.engine.partials import Partials
from windrow.kernels import counting
from windrow.window.hash_index import mix_words
from windrow.window.window import Window

Array = np.ndarray
NEVER = np.iinfo(np.int64).max
EXTRA_COLUMNS = ("seq", "out", "rank", "key")


class KeyNumbers:
    """Numbers the keys of one stream and counts the rows of each."""

    def __init__(self, keys: Array | None = None, counts: Array | None = None) -> None:
        self._keys = np.empty(0, np.int64) if keys is None else keys
        self.counts = np.zeros(0, np.int64) if counts is None else counts
        self._table_keys = np.empty(0, np.int64)
        self._table = np.empty(0, np.int64)

    @property
    def keys(self) -> Array:
        """The key of each number."""
        return self._keys

    def rank(self, keys: Array) -> tuple[Array, Array]:
        """Number of each key, and how many rows of that key came before."""
        known = len(self._keys)
        if 2 * (known + len(keys)) > len(self._table):
            size = 4 * (known + len(keys)) + 64
            self._table_keys, self._table = np.empty(size, np.int64), np.full(size, -1, np.int64)
            counting.number_keys(self._table_keys, self._table, self._keys, 0, np.empty(known, np.int64))
        numbers = np.empty(len(keys), np.int64)
        now = counting.number_keys(self._table_keys, self._table, keys, known, numbers)
        if now > known:
            fresh = np.empty(now, np.int64)
            fresh[:known] = self._keys
            fresh[numbers] = keys
            self._keys = fresh
            self.counts = np.concatenate([self.counts, np.zeros(now - known, np.int64)])
        ranks = np.empty(len(keys), np.int64)
        counting.rank_within(numbers, self.counts, ranks)
        return numbers, ranks


class CountedWindow:
    """Knows for the rows of one stream when they are pushed out.

    Parameters
    ----------
    size
        Rows the window holds.
    key_words
        Numbers of the words that make up the key, for windows counted per key; else empty.
    at
        Number of the first extra column in the stream's window.
    """

    def __init__(self, size: int, key_words: Sequence[int], at: int) -> None:
        self.size = size
        self.key_words = tuple(key_words)
        self.total = 0
        self.keys = KeyNumbers()
        self._out, self._rank, self._key = at + 1, at + 2, at + 3

    def admit(
        self, window: Window, seq: Array, words: Sequence[Array], valid: Array | None
    ) -> tuple[Array, Array, Array]:
        """Columns `out`, `rank`, `key` of a quantum's rows; rows already in the window learn theirs.

        `valid` masks the rows whose key has a value; all others belong to no key.
        """
        if self.key_words:
            return self._admit_per_key(window, seq, words, valid)
        rank = self.total + np.arange(len(seq))
        out = np.full(len(seq), NEVER)
        out[: max(0, len(seq) - self.size)] = seq[self.size :]
        held = window.column(self._rank)[window.first : window.end]
        a, b = np.searchsorted(held, (self.total - self.size, self.total - self.size + len(seq)))
        pushed = held[a:b] + self.size - self.total
        window.column(self._out)[window.first + a : window.first + b] = seq[pushed]
        self.total += len(seq)
        return out, rank, np.zeros(len(seq), np.int64)

    def _admit_per_key(
        self, window: Window, seq: Array, words: Sequence[Array], valid: Array | None
    ) -> tuple[Array, Array, Array]:
        who = np.arange(len(seq)) if valid is None else np.flatnonzero(valid)
        before = self.keys.counts.copy()
        numbers, ranks = self.keys.rank(mix_words([words[w][who] for w in self.key_words]))
        before = np.concatenate([before, np.zeros(len(self.keys.counts) - len(before), np.int64)])
        order = np.argsort(numbers, kind="stable")
        by_key = seq[who][order]
        starts = np.searchsorted(numbers[order], np.arange(len(self.keys.counts) + 1))

        def pushed_out(key: Array, rank: Array) -> Array:
            """The seq of the row `size` ranks later within the key, where this quantum brings it."""
            place = rank + self.size - before[key]
            coming = (place >= 0) & (place < starts[key + 1] - starts[key])
            found = np.full(len(key), NEVER)
            found[coming] = by_key[(starts[key] + place)[coming]]
            return found

        live = slice(window.first, window.end)
        held = window.column(self._out)
        held[live] = np.minimum(
            held[live], pushed_out(window.column(self._key)[live], window.column(self._rank)[live])
        )
        out, rank, key = np.full(len(seq), NEVER), np.zeros(len(seq), np.int64), np.zeros(len(seq), np.int64)
        out[who], rank[who], key[who] = pushed_out(numbers, ranks), ranks, numbers
        self.total += len(seq)
        return out, rank, key

    def to_json(self) -> dict[str, Any]:
        return {"total": self.total, "keys": self.keys.keys.tolist(), "counts": self.keys.counts.tolist()}

    def load(self, saved: dict[str, Any]) -> None:
        """Goes on from the counts of a stored state."""
        self.total = saved["total"]
        self.keys = KeyNumbers(np.array(saved["keys"], np.int64), np.array(saved["counts"], np.int64))

    def expire(self, window: Window, seq: int) -> int:
        """Lets go of rows that were pushed out before `seq`; returns how many."""
        alive = window.column(self._out)[window.first : window.end] > seq
        gone = len(alive) - int(alive.sum())
        if not self.key_words:
            window.drop_front(gone)
            return gone
        if 2 * gone > len(alive) and gone > 64:
            window.keep(alive)
            return gone
        return 0


def in_windows(
    partials: Partials,
    windows: Sequence[Window],
    counted: Sequence[CountedWindow | None],
    seq_at: Sequence[int],
) -> Array:
    """Mask of the combinations whose rows were all in their windows when the newest came."""
    newest = np.max([windows[s].column(seq_at[s])[rows] for s, rows in partials.rows.items()], axis=0)
    mask = np.ones(len(newest), bool)
    for stream, rows in partials.rows.items():
        if counted[stream] is not None:
            mask &= newest < windows[stream].column(seq_at[stream] + 1)[rows]
    return mask
