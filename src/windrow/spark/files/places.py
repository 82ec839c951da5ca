"""A layout applied to Arrow batches: the partitions of each row, as `spark/routing.py` computes them.

Both must agree on every value, because rows of files are joined with rows of DataFrames.
`tests/test_files_places.py` compares the two value by value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.expr.encoding import encode, frozen, raw_values, text_buffers
from windrow.expr.join_columns import column_values, encoded_column
from windrow.expr.parse import references
from windrow.kernels.partition_rows import cell_places, cross_places, near_places
from windrow.kernels.spark_hash import SEED, fold_bytes, fold_ints, fold_longs, fold_wide
from windrow.model.predicate import JoinColumn
from windrow.model.query import Function
from windrow.spark.grid import ROUNDING, GridDimension, GridPlacement

Array = np.ndarray
_NONE = np.empty(0, np.bool_)
_FURTHEST = 1e300


@dataclass(frozen=True)
class Places:
    """Places of rows on a dimension, or partitions: one per row, or those of row i in
    values[starts[i]:starts[i + 1]]."""

    values: Array
    starts: Array | None = None

    @property
    def listed(self) -> tuple[Array, Array]:
        starts = np.arange(len(self.values) + 1) if self.starts is None else self.starts
        return starts, self.values

    def times(self, other: Places, parts: int) -> Places:
        """Combine every place with every place on another dimension of `parts` places."""
        if self.starts is None and other.starts is None:
            return Places(self.values * parts + other.values)
        (ls, left), (rs, right) = self.listed, other.listed
        starts = np.empty(len(ls), np.int64)
        values = np.empty(int((np.diff(ls) * np.diff(rs)).sum()), np.int64)
        cross_places(ls, left, rs, right, parts, starts, values)
        return Places(values, starts)


@dataclass(frozen=True)
class PlaceFinder:
    """Finds the partitions of one stream's rows.

    Parameters
    ----------
    hashable
        The columns of the content hash.
    """

    dimensions: tuple[GridDimension, ...]
    stream: int
    hashable: tuple[str, ...]
    functions: Mapping[str, Function]

    def partitions(self, rows: pa.RecordBatch) -> Places:
        batch = _Rows(self, rows)
        found = Places(np.zeros(rows.num_rows, np.int64))
        for cut in self.dimensions:
            found = found.times(batch.places(cut), cut.parts)
        return found

    def copies(self, rows: pa.RecordBatch, partition: int) -> Places:
        """The partitions in which copies of these rows lie, given that they were found in this one. Unlike
        `partitions`, it does not depend on what all values of a row were when it arrived."""
        found = Places(np.zeros(rows.num_rows, np.int64))
        sizes = [cut.parts for cut in self.dimensions]
        for k, cut in enumerate(self.dimensions):
            at = partition // math.prod(sizes[k + 1 :]) % cut.parts
            found = found.times(_Rows(self, rows, at).places(cut), cut.parts)
        return found

    def content(self, rows: pa.RecordBatch) -> Array:
        """A hash of each row, equal to Spark's `xxhash64` of its columns."""
        return spark_hash([rows.column(name) for name in self.hashable], rows.num_rows)


class _Rows:
    """The rows of a batch, and the values that their places are computed from.

    Parameters
    ----------
    at
        The place at which the rows were found, if only their copies are wanted: where a place follows from
        the content of a row, it is this one.
    """

    def __init__(self, finder: PlaceFinder, rows: pa.RecordBatch, at: int | None = None) -> None:
        self._finder = finder
        self._rows = rows
        self._count = rows.num_rows
        self._at = at

    @cached_property
    def _content(self) -> Array:
        return self._finder.content(self._rows) if self._at is None else np.full(self._count, self._at)

    def places(self, cut: GridDimension) -> Places:
        place = cut.placements[self._finder.stream]
        if place.how == "everywhere":
            starts = np.arange(self._count + 1) * cut.parts
            return Places(np.tile(np.arange(cut.parts), self._count), starts)
        if place.how == "content":
            return Places(self._content % cut.parts)
        assert place.column is not None
        if place.how == "value":
            return self._by_value(cut, place.column)
        return self._by_cell(cut, place)

    def _by_value(self, cut: GridDimension, column: JoinColumn) -> Places:
        values = self._values(column) if cut.native else self._numbers(column)
        home = spark_hash([values], self._count)
        if values.null_count:
            home = np.where(values.is_null().to_numpy(zero_copy_only=False), self._content, home)
        home = home % cut.parts
        if cut.skewed is None:
            return Places(home)
        named = pa.array(cut.skewed.values, column.type)
        known = named if cut.native else pa.array(encode(named, column.kind == "ordered")[0])
        spread = pc.is_in(values, known).to_numpy(zero_copy_only=False)
        strips = cut.strips(self._finder.stream)
        starts = np.concatenate([[0], np.cumsum(np.where(spread, strips.copies, 1))])
        found = np.empty(starts[-1], np.int64)
        found[starts[:-1]] = home
        hot = np.flatnonzero(spread)
        first = home[hot]
        if strips.step and len(hot):
            if self._at is None:
                strip = self._content[hot] % strips.count
            else:
                strip = (self._at - first) % cut.parts // strips.step % strips.count
            first = first + strip * strips.step
        for k in range(strips.copies):
            found[starts[hot] + k] = (first + k * strips.copy_step) % cut.parts
        return Places(found, starts)

    def _by_cell(self, cut: GridDimension, place: GridPlacement) -> Places:
        assert place.column is not None
        encoded, valid = self._encoded(place.column)
        numbers = np.clip(encoded.astype(np.float64), -_FURTHEST, _FURTHEST)
        if valid is not None:
            numbers = np.where(valid, numbers, np.nan)
        whole = valid is None
        lost = np.zeros(self._count, np.int64) if whole else self._content % cut.parts
        if place.how == "cell":
            cell_places(numbers, cut.width, cut.parts, lost)
            return Places(lost)
        starts = np.zeros(self._count + 1, np.int64)
        values = np.empty(2 * self._count + cut.parts, np.int64)
        reach, done = place.reach * (1 + 1e-9), 0
        while True:
            done = near_places(numbers, done, cut.width, reach, ROUNDING, lost, starts, values, cut.parts)
            if done == self._count:
                return Places(values[: starts[-1]], starts)
            values = np.concatenate([values, np.empty_like(values)])

    def _values(self, column: JoinColumn) -> pa.Array:
        """Values in the type in which both sides are compared. Those that Spark hashes as equal are equal."""
        return column_values(column, self._columns(column), self._count, self._finder.functions)

    def _encoded(self, column: JoinColumn) -> tuple[Array, Array | None]:
        return encoded_column(column, self._columns(column), self._count, self._finder.functions)

    def _numbers(self, column: JoinColumn) -> pa.Array:
        """The encoded values; null for null."""
        numbers, valid = self._encoded(column)
        return pa.array(numbers, mask=None if valid is None else ~valid)

    def _columns(self, column: JoinColumn) -> dict[tuple[str, str], pa.Array]:
        return {key: self._rows.column(key[1]) for key in references(column.node)}


def spark_hash(columns: Sequence[pa.Array], count: int) -> Array:
    """Spark's `xxhash64` of the columns, as int64."""
    h = np.full(count, SEED)
    for column in columns:
        _fold(column, h)
    return h.view(np.int64)


def _fold(column: pa.Array, h: Array) -> None:
    kind = column.type
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else _NONE
    if pt.is_floating(kind):
        wide = pt.is_float64(kind)
        numbers = raw_values(column, np.float64 if wide else np.float32) + 0.0  # -0.0 + 0.0 is 0.0
        numbers[np.isnan(numbers)] = np.nan  # Java's NaN is the positive quiet one
        if wide:
            fold_longs(frozen(numbers.view(np.int64)), valid, h)
        else:
            fold_ints(frozen(numbers.astype(np.float32).view(np.int32)), valid, h)
    elif pt.is_decimal128(kind):
        words = raw_values(column, np.int64, 2)
        if kind.precision <= 18:
            fold_longs(frozen(np.ascontiguousarray(words[::2])), valid, h)
        else:
            fold_wide(frozen(words.view(np.uint8)), valid, h)
    elif pt.is_int64(kind) or pt.is_timestamp(kind) or pt.is_duration(kind):
        fold_longs(frozen(raw_values(column, np.int64)), valid, h)
    elif pt.is_date32(kind) or pt.is_int32(kind):
        fold_ints(frozen(raw_values(column, np.int32)), valid, h)
    elif pt.is_boolean(kind) or pt.is_integer(kind):
        fold_ints(frozen(raw_values(column.cast(pa.int32()), np.int32)), valid, h)
    else:
        fold_bytes(*text_buffers(column.cast(pa.large_binary())), valid, h)
