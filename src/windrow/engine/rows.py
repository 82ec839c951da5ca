"""Turns an input table into rows for a window: times, join columns and payload, sorted by time.

Rows that no result can contain are left out and counted: rows without a time, late rows, rows that fail a
single-stream condition, rows with null where an atom needs a value, or with NaN where a band does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from windrow.engine.key_numbers import NO_KEY, KeyNumbers
from windrow.engine.outer.row_flags import RowFlags
from windrow.errors import DataError, Option, unknown
from windrow.expr.evaluate import can_fail, evaluate
from windrow.expr.failures import Failure, error, failed_rows, undecided
from windrow.expr.join_columns import column_sets, column_values, encoded_column
from windrow.expr.parse import Reference, references
from windrow.expr.values import as_mask
from windrow.kernels import window_arrays
from windrow.model.predicate import JoinColumn
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


def as_batch(alias: str, data: object, known: pa.Schema | None = None) -> pa.RecordBatch:
    """One contiguous batch in the types that windows store; `known` is a schema of such types."""
    if isinstance(data, pa.RecordBatch):
        batch = data
    elif isinstance(data, pa.Table):
        batches = data.to_batches()
        if len(batches) > 1:
            batches = data.combine_chunks().to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=data.schema)
        if len(batches) > 1:
            batch = pa.concat_batches(batches)
    else:
        raise DataError(
            f"expected a pyarrow Table or RecordBatch, got {type(data).__name__}; convert it with "
            "pyarrow.Table.from_pandas(frame), or frame.to_arrow() in polars",
            Option(stream=alias),
        )
    # The usual case, recognised without a look at any column.
    if known is not None and batch.schema.equals(known, check_metadata=True):
        return batch
    columns = [_plain(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=plain_schema(batch.schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that windows store: without metadata, dictionaries and views."""
    return pa.schema(
        [(name, _plain_type(kind)) for name, kind in zip(schema.names, schema.types, strict=True)]
    )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pat.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pat.is_string_view(kind):
        return pa.string()
    return pa.binary() if pat.is_binary_view(kind) else kind


def _plain(column: pa.Array) -> pa.Array:
    if pat.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = _plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def check_time_column(alias: str, schema: pa.Schema, name: str) -> None:
    if name not in schema.names:
        raise DataError(unknown("column", name, schema.names), Option("time", stream=alias))
    if schema.names.count(name) > 1:
        raise DataError(f"column '{name}' appears {schema.names.count(name)} times", Option(stream=alias))
    kind = schema.field(name).type
    if not pat.is_timestamp(kind):
        raise DataError(
            f"time column '{name}' must be a timestamp, got {kind}; "
            "cast it, with to_timestamp in Spark, or with pyarrow.compute.cast(column, 'timestamp[us]')",
            Option(stream=alias),
        )


def event_times(column: pa.Array) -> Array:
    """Microseconds since 1970; nulls become 0 and must be filtered by the caller."""
    unit = column.type.unit
    counts = column.view(pa.int64())
    if counts.null_count:
        counts = counts.fill_null(0)
    raw = counts.to_numpy()
    # Nanoseconds are rounded down, before 1970 as well, so that order is kept.
    return raw // 1_000 if unit == "ns" else raw * _PER_UNIT[unit] if unit != "us" else raw


@dataclass(frozen=True)
class Rows:
    """Rows of one stream in time order."""

    ts: Array
    columns: Mapping[str, Array]
    """Join columns by name."""
    payload: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.ts)

    def slice(self, start: int, end: int) -> Rows:
        if start == 0 and end == len(self.ts):
            return self
        return Rows(
            self.ts[start:end],
            {name: column[start:end] for name, column in self.columns.items()},
            self.payload.slice(start, end - start),
        )

    def where(self, mask: Array) -> Rows:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, positions: Array) -> Rows:
        if len(positions) == 0:
            return self.slice(0, 0)
        columns = {name: column[positions] for name, column in self.columns.items()}
        payload = pc.take(self.payload, pa.array(positions), boundscheck=False)
        return Rows(self.ts[positions], columns, payload)


@dataclass(frozen=True)
class LeftOut:
    """Rows left out, by reason."""

    null_times: int = 0
    late: pa.RecordBatch | None = None
    ahead: pa.RecordBatch | None = None


def timed(
    batch: pa.RecordBatch, time: str, earliest: int | None, latest: int | None
) -> tuple[Array, pa.RecordBatch, LeftOut]:
    """Times and rows from `earliest` to `latest`, in time order; rows of equal time keep their order."""
    column = batch.column(time)
    ts = event_times(column)
    null_times = column.null_count
    if null_times:
        valid = column.is_valid()
        ts, batch = ts[valid.to_numpy(zero_copy_only=False)], batch.filter(valid)
    ahead = late = None
    oldest, newest, ascending = window_arrays.time_bounds(ts)
    if latest is not None and newest > latest:
        in_time = ts <= latest
        ahead = batch.filter(pa.array(~in_time))
        ts, batch = ts[in_time], batch.filter(pa.array(in_time))
    if earliest is not None and oldest < earliest:
        in_time = ts >= earliest
        late = batch.filter(pa.array(~in_time))
        ts, batch = ts[in_time], batch.filter(pa.array(in_time))
    if not ascending:
        order = np.argsort(ts, kind="stable")
        ts, batch = ts[order], batch.take(pa.array(order))
    return ts, batch, LeftOut(null_times, late, ahead)


@dataclass(frozen=True)
class ArrivingRows:
    """Rows of one stream in a sub-batch."""

    rows: Rows
    joinable: Array | None
    """Mask of the rows that can be in a result; None for all."""
    keys: Array | None = None
    """Key number of each row. Only for windows counted per key."""
    seq: Array | None = None
    """Place of each row in the order of all streams. Only in joins with row windows."""

    def slice(self, start: int, end: int) -> ArrivingRows:
        parts = (None if a is None else a[start:end] for a in (self.joinable, self.keys, self.seq))
        return ArrivingRows(self.rows.slice(start, end), *parts)

    def admitted_at(self, positions: Array, in_place: bool) -> ArrivingRows:
        """Only the rows at these positions, all of which can be in a result; `in_place` if the others keep
        their place in the order of all streams."""
        if not in_place:
            return ArrivingRows(self.rows.take(positions), None)
        # Rows that are dropped still count in row windows, so they stay, and join nothing.
        mask = np.zeros(len(self.rows), bool)
        mask[positions] = True
        return replace(self, joinable=all_of(self.joinable, mask))

    def compact(self) -> ArrivingRows:
        """Only the rows that can be in a result. For joins in which the others displace none."""
        return self if self.joinable is None else ArrivingRows(self.rows.where(self.joinable), None)


class RowReader:
    """Computes the join columns of a stream's rows, and which rows can be in a result. `keys` numbers the
    join keys, for windows counted per key."""

    def __init__(self, bound: BoundQuery, stream: int, keys: KeyNumbers | None = None) -> None:
        self._alias, self._raises = bound.query.aliases[stream], bound.query.raises
        self._flags = RowFlags(bound, stream) if bound.shapes else None
        self._functions = bound.functions
        filters = (f.node for f in bound.predicate.filters if f.stream == stream)
        self._filters = [(node, references(node)) for node in filters]
        self._join_columns = [(column, references(column.node)) for column in bound.join_columns[stream]]
        sets = (column.node for column in bound.sets[stream] if can_fail(column.node))
        self._sets = [(node, references(node)) for node in sets]
        """Lists that are compared as sets are computed when they are stored; here only to see whether they
        fail."""
        expressions = [node for node, _ in self._filters] + [column.node for column, _ in self._join_columns]
        self.may_fail = bool(self._sets) or any(can_fail(node) for node in expressions)
        self._equal = [(x.name, y.name) for x, y in bound.equal_columns(stream)]
        self._keys, self._key_columns = keys, bound.key_columns(stream)

    def read_new(self, ts: Array, batch: pa.RecordBatch) -> tuple[ArrivingRows, int]:
        """Rows that have just arrived, and how many fail; raises a DataError instead if the query wants that.
        A row fails if an expression over its columns alone does, and no other condition on it alone excludes
        it."""
        failures: list[Failure] = []
        arrived = self.read(ts, batch, failures)
        if not failures:
            return arrived, 0
        failed = failed_rows(failures, len(ts))
        if self._raises:
            raise error(
                failures,
                {(self._alias, n): batch.column(n) for n in batch.schema.names},
                int(failed.argmax()),
            )
        return arrived, int(np.count_nonzero(failed))

    def failed(self, batch: pa.RecordBatch) -> int:
        """How many rows fail."""
        if not self.may_fail:
            return 0
        failures: list[Failure] = []
        self.read(np.zeros(batch.num_rows, np.int64), batch, failures)
        return int(np.count_nonzero(failed_rows(failures, batch.num_rows)))

    def read(self, ts: Array, batch: pa.RecordBatch, failures: list[Failure] | None = None) -> ArrivingRows:
        """Join columns of rows, and which rows can be in a result. Rows that fail are added to `failures`."""
        passed: Array | None = None
        of_filters: list[tuple[Array, list[Failure]]] = []
        for node, needed in self._filters:
            own: list[Failure] = []
            mask = as_mask(evaluate(node, _columns(needed, batch), len(ts), self._functions, own))
            passed = mask if passed is None else passed & mask
            of_filters.append((mask, own))
        values: dict[str, Array] = {}
        valid: dict[str, Array | None] = {}
        found: list[Failure] = []
        for column, needed in self._join_columns:
            encoded = encoded_column(column, _columns(needed, batch), len(ts), self._functions, found)
            values[column.name], valid[column.name] = encoded
        if failures is not None:
            failures += self._failures(of_filters, found, batch)
        rows = Rows(ts, values, batch)
        # Two columns of this stream in one class of equal columns: no plan compares them with each other.
        equal = [values[x] == values[y] for x, y in self._equal]
        if self._flags is not None:
            whole = all_of(passed, *valid.values(), *equal)
            columns, stored = self._flags.read(values, len(ts), passed, valid, whole)
            return ArrivingRows(Rows(ts, columns, batch), stored)
        keys = None if self._keys is None else self._numbered(self._keys, rows, valid)
        return ArrivingRows(rows, all_of(passed, *valid.values(), *equal), keys)

    def _failures(
        self, of_filters: list[tuple[Array, list[Failure]]], found: list[Failure], batch: pa.RecordBatch
    ) -> list[Failure]:
        for node, needed in self._sets:
            evaluate(node, _columns(needed, batch), batch.num_rows, self._functions, found)
        return undecided(of_filters, found)

    def _numbered(self, known: KeyNumbers, rows: Rows, valid: Mapping[str, Array | None]) -> Array:
        """Key number of each row."""
        whole = all_of(*(valid[w.name] for w in self._key_columns))
        # A row without a key displaces no other and has no number.
        who = np.arange(len(rows)) if whole is None else np.flatnonzero(whole)
        keys = np.full(len(rows), NO_KEY)
        if known.exact:
            keys[who] = known.number_exact(rows.columns[self._key_columns[0].name][who].view(np.int64))
        elif len(who):
            batch = rows.payload.take(pa.array(who))
            keys[who] = known.number_values([self._values(w, batch) for w in self._key_columns])
        return keys

    def _values(self, column: JoinColumn, batch: pa.RecordBatch) -> pa.Array:
        """The values that a join column encodes."""
        return column_values(
            column, _columns(references(column.node), batch), batch.num_rows, self._functions
        )

    def sets(self, column: JoinColumn, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Sizes and elements of the rows' sets."""
        return column_sets(column, _columns(references(column.node), batch), batch.num_rows, self._functions)


def all_of(*masks: Array | None) -> Array | None:
    """Conjunction of masks; None means all rows."""
    given = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(given) if given else None


def _columns(needed: Iterable[Reference], batch: pa.RecordBatch) -> dict[Reference, pa.Array]:
    return {key: batch.column(key[1]) for key in needed}


def same_schema(alias: str, expected: pa.Schema, got: pa.Schema) -> None:
    """Refuse rows whose schema differs from the one before, and name the difference."""
    if expected.equals(got):
        return
    got = plain_schema(got)
    if expected.equals(got):
        return
    missing = [n for n in expected.names if n not in got.names]
    extra = [n for n in got.names if n not in expected.names]
    changed = [
        f"'{n}' was {expected.field(n).type}, now {got.field(n).type}"
        for n in expected.names
        if n in got.names and expected.field(n).type != got.field(n).type
    ]
    differences = [f"missing {missing}"] * bool(missing) + [f"new {extra}"] * bool(extra) + changed
    raise DataError(
        f"columns differ from the first batch ({'; '.join(differences) or 'another order'}); "
        "bring every batch of a stream to one schema",
        Option(stream=alias),
    )
