"""The sets of a segment's rows, from rows to tokens and from tokens to rows.

Tokens are numbered in ascending order, so each direction takes four bytes per token of a row, and the tokens
themselves are stored once. Like sorted runs, postings are built with a segment and dropped with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from windrow.kernels import inverted_index
from windrow.kernels.inverted_index import InvertedIndex
from windrow.window.gather import RowLocations
from windrow.window.mapped_arrays import values_of

Array = np.ndarray


class Postings(InvertedIndex):
    """A tuple of arrays, so that kernels take it as it is."""

    @classmethod
    def of(cls, sizes: Array, elements: Array) -> Postings:
        """From sets that are packed one after another."""
        tokens, numbers = np.unique(elements, return_inverse=True)
        return cls._of_numbers(tokens, _bounds(sizes), numbers.astype(np.int32))

    @classmethod
    def _of_numbers(cls, tokens: Array, bounds: Array, numbers: Array) -> Postings:
        return cls(tokens, bounds, numbers, *inverted_index.invert(bounds, numbers, len(tokens)))

    def joined(self, newer: Postings) -> Postings:
        """These rows followed by those of another, without sorting again."""
        tokens, mine, others = inverted_index.merge_tokens(self.tokens, newer.tokens)
        numbers = np.concatenate([mine[self.numbers], others[newer.numbers]])
        bounds = np.concatenate([self.bounds, newer.bounds[1:] + self.bounds[-1]])
        return self._of_numbers(tokens, bounds, numbers)

    def after(self, gone: int) -> Postings:
        """Without the first `gone` rows."""
        numbers = self.numbers[self.bounds[gone] :]
        return self.of(self.sizes[gone:], self.tokens[numbers]) if gone else self

    @property
    def sizes(self) -> Array:
        return np.diff(self.bounds)

    @property
    def nbytes(self) -> int:
        return int(sum(array.nbytes for array in self))

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The postings as a part of a state: one row of lists."""
        return pa.record_batch(
            {
                name: pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), pa.array(array))
                for name, array in self._asdict().items()
            }
        )

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Postings:
        found = cls(*(values_of(column.values) for column in batch.columns))
        found.__dict__["batch"] = batch  # recognised by identity when it is stored again
        return found


def unpack_sets(postings: Sequence[Postings], rows: RowLocations) -> tuple[Array, Array, Array]:
    """(starts, sizes, elements) of the sets of these rows; `postings` has one entry per segment."""
    inside = [
        (postings[s], which, rows.row[which])
        for s in np.unique(rows.seg)
        for which in [np.flatnonzero(rows.seg == s)]
    ]
    sizes = np.empty(len(rows.seg), np.int64)
    for found, which, own in inside:
        sizes[which] = found.bounds[own + 1] - found.bounds[own]
    starts = np.cumsum(sizes) - sizes
    elements = np.empty(int(sizes.sum()), np.int64)
    for found, which, own in inside:
        inverted_index.copy_sets(which, own, found, starts, elements)
    return starts, sizes, elements


def _bounds(sizes: Array) -> Array:
    bounds = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    return bounds
