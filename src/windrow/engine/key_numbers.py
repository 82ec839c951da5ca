"""Numbers the keys of a stream: each new key gets the next number and keeps it.

A kernel numbers keys that are one exact join column. All others (text, several columns) are compared by
value, not by hash: in Python, once per distinct key of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from windrow.expr.encoding import encode
from windrow.kernels import key_numbers
from windrow.model.stateful import Stateful

Array = np.ndarray
NO_KEY = -1


class KeyNumbers(Stateful):
    """Maps keys to numbers, and counts rows per key. A key is `exact` if it is a single join column that is
    never a hash."""

    saved = ("counts", "_keys", "_values")

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.counts: Array = np.zeros(0, np.int64)
        """Rows seen per number."""
        self._keys: Array = np.empty(0, np.int64)
        self._table_keys: Array = np.empty(0, np.int64)
        self._table: Array = np.empty(0, np.int64)
        self._numbers: dict[tuple[object, ...], int] = {}
        self._values: list[pa.RecordBatch] = []
        """Keys that are not exact, in number order."""

    def number_exact(self, keys: Array) -> Array:
        """Numbers of keys that are exact join columns."""
        known = len(self._keys)
        if 2 * (known + len(keys)) > len(self._table):
            size = 4 * (known + len(keys)) + 64
            self._table_keys, self._table = np.empty(size, np.int64), np.full(size, -1, np.int64)
            key_numbers.number_keys(self._table_keys, self._table, self._keys, 0, np.empty(known, np.int64))
        numbers = np.empty(len(keys), np.int64)
        now = key_numbers.number_keys(self._table_keys, self._table, keys, known, numbers)
        if now > known:
            keys_by_number = np.empty(now, np.int64)
            keys_by_number[:known] = self._keys
            # Repeated keys write the same value to the same place.
            keys_by_number[numbers] = keys
            self._keys = keys_by_number
            self._grow(now)
        return numbers

    def number_values(self, columns: Sequence[pa.Array]) -> Array:
        """Numbers of keys that are the values of one or more columns."""
        codes = np.zeros(len(columns[0]), np.int64)
        # Floats by their place in order: -0.0 and 0.0 are one key, and so are all NaN.
        columns = [pa.array(encode(c, ordered=True)[0]) if pat.is_floating(c.type) else c for c in columns]
        for column in columns:
            encoded = column.dictionary_encode()
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            # Renumbered after each column, so that products of many columns do not overflow.
            codes = np.unique(codes, return_inverse=True)[1]
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        different = pa.record_batch(
            [c.take(pa.array(first)) for c in columns], [str(k) for k in range(len(columns))]
        )
        known = len(self._numbers)
        found = [self._numbers.setdefault(row, len(self._numbers)) for row in _rows(different)]
        numbers = np.array(found, np.int64)
        if len(self._numbers) > known:
            new = np.flatnonzero(numbers >= known)
            self._values.append(different.take(pa.array(new[np.argsort(numbers[new])])))
            self._grow(len(self._numbers))
        return numbers[which]

    def rank(self, numbers: Array) -> Array:
        """Number of earlier rows of the same key, per row."""
        ranks = np.empty(len(numbers), np.int64)
        key_numbers.rank_within(numbers, self.counts, ranks)
        return ranks

    def keep(self, numbers: Array) -> None:
        """Keep only these keys and renumber them 0, 1, 2, ... in this order."""
        values = [pa.concat_batches(self._values).take(pa.array(numbers))] if self._values else []
        keys = self._keys[numbers] if len(self._keys) else self._keys
        self.restore({"counts": self.counts[numbers], "_keys": keys, "_values": values})

    def append(self, others: KeyNumbers) -> None:
        """Number other keys after these."""
        keys = np.concatenate([self._keys, others._keys])
        counts = np.concatenate([self.counts, others.counts])
        self.restore({"counts": counts, "_keys": keys, "_values": self._values + others._values})

    def dump(self) -> dict[str, Any]:
        # As one batch: each call with new keys has added one.
        self._values = [pa.concat_batches(self._values)] if self._values else []
        return super().dump()

    def restore(self, values: dict[str, Any]) -> None:
        super().restore(values)
        self._table = np.empty(0, np.int64)  # filled with the next keys
        rows = (row for batch in self._values for row in _rows(batch))
        self._numbers = {row: number for number, row in enumerate(rows)}

    def _grow(self, known: int) -> None:
        self.counts = np.concatenate([self.counts, np.zeros(known - len(self.counts), np.int64)])


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[object, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)
