"""Tasks for the simulator: the real one, and one whose operator is a few lines of Python.

What is simulated is the protocol around the operator, so most schedules use a small operator. It has all
that the protocol rests on: event times shared between partitions, late rows, rows held back until their time
has come, results deferred at a speed that each attempt measures anew, expiry, and state in parts that later
versions name again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from results import ids
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import State
from windrow.model.limits import Deadline
from windrow.model.query import Query
from windrow.spark.metrics import COLUMN
from windrow.spark.task import JoinTask
from windrow.spark.task_input import TaskInput

SECOND = 1_000_000
SMALL = pa.schema([("numbers", pa.int64())])
"""Three numbers a row, one after the other: what Arrow takes for so few rows goes by columns."""
WHOLE = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
REPORT = pa.record_batch({"a": pa.nulls(1, pa.int64()), "b": pa.nulls(1, pa.int64()), COLUMN: ["{}"]})
Row = tuple[int, int, int]
"""Id, event time, key."""


def batch_of(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = [tuple(chain.from_iterable(rows))] if schema is SMALL else [*zip(*rows, strict=True)]
    arrays = [pa.array(c, kind) for c, kind in zip(columns or [()] * 3, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


NO_ROWS = batch_of([], SMALL)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Of a small join."""
    numbers = iter(batch.column(0).to_pylist())
    return list(zip(numbers, numbers, numbers, strict=True))


def pairs_in(out: pa.RecordBatch) -> Counter[tuple]:
    """The results in what a task hands on; none in a report."""
    if not out.column(COLUMN).null_count:
        return Counter()
    if pa.types.is_struct(out.schema.field("a").type):
        return ids(pa.Table.from_batches([out.select(["a", "b"])]))
    return Counter(zip(out.column("a").to_pylist(), out.column("b").to_pylist(), strict=True))


@dataclass(frozen=True)
class KeyMoves:
    """Rows go to the partition of their key, each to one."""

    partition: int
    partitions: int
    copied: bool = False

    @property
    def first(self) -> bool:
        return self.partition == 0

    def holds(self, key: int) -> bool:
        return key % self.partitions == self.partition

    def rows(
        self, partition: int, stream: int, rows: pa.RecordBatch, ranks: object
    ) -> tuple[np.ndarray, np.ndarray]:
        here = rows.column("k").to_numpy() % self.partitions == self.partition
        return here, np.ones(rows.num_rows, bool)


class WholeTask(JoinTask):
    """The real task, of rows that are partitioned by their key alone."""

    def moves(self, before: object, partition: int) -> KeyMoves:
        return KeyMoves(partition, self.partitions)


class SmallTask(WholeTask):
    """Reports nothing: most of a small task's time would go into its metrics."""

    def _report(self, *_: object, **__: object) -> pa.RecordBatch:
        return REPORT


@dataclass(frozen=True)
class SmallKind:
    """A kind of join whose windows are a few lists."""

    held_back: bool = False
    speeds: Random | None = None
    """Draws what an attempt measures, if there is a deadline."""

    @property
    def deadline(self) -> Deadline | None:
        return None if self.speeds is None else Deadline(micros=1_000_000)

    def start(self, query: Query, schemas: object) -> Any:
        window = query.streams["a"].window.size
        return SmallJoin(window, query.watermark_delay_us, self.held_back, self.speeds)

    def fingerprint(self, query: Query) -> dict[str, Any]:
        return fingerprint(query)

    def columns(self, query: Query, schemas: object) -> pa.Schema:
        return REPORT.schema

    def redistributed(self, states: Sequence[State], moves: KeyMoves) -> State:
        newest = {a: [s.metadata["newest"][a] for s in states] for a in "ab"}
        found: dict[str, list[list[Row]]] = {a: [] for a in "ab"}
        held: dict[str, list[Row]] = {a: [] for a in "ab"}
        for state in states:
            of_a = 2 + state.metadata["a"]
            for alias, waiting, own in zip(
                "ab", state.parts, (slice(2, of_a), slice(of_a, None)), strict=False
            ):
                held[alias] += [r for r in rows_of(waiting) if moves.holds(r[2])]
                kept = ([r for r in rows_of(part) if moves.holds(r[2])] for part in state.parts[own])
                found[alias] += [rows for rows in kept if rows]
        known = {a: max((t for t in times if t is not None), default=None) for a, times in newest.items()}
        waiting = [batch_of(rows, SMALL) if rows else NO_ROWS for rows in held.values()]
        parts = [batch_of(rows, SMALL) for rows in (*found["a"], *found["b"])]
        deferred = [r for state in states for r in state.metadata["deferred"] if moves.holds(r[2])]
        kept = {"deferred": deferred, "speed": states[0].metadata["speed"]}
        return State({"newest": known, "a": len(found["a"]), **kept}, (*waiting, *parts))


class SmallJoin:
    """Joins streams a and b on `k` over one time window, by nested loops."""

    overhead = 0.0
    join = None

    def __init__(self, window: int, late: int, held_back: bool, speeds: Random | None) -> None:
        self.window, self.late, self.held_back, self.speeds = window, late, held_back, speeds
        self.deferred: list[Row] = []
        """Results not handed on yet, with their keys."""
        self.speed = 1
        self.runner = self
        self.changes: tuple[str, ...] = ()
        self.newest: dict[str, int | None] = {"a": None, "b": None}
        self.held: dict[str, list[Row]] = {"a": [], "b": []}
        """Rows whose time has not come yet."""
        self.segments: dict[str, list[tuple[pa.RecordBatch, list[Row]]]] = {"a": [], "b": []}

    def metrics(self) -> Any:
        streams = {a: SimpleNamespace(max_event_time=t) for a, t in self.newest.items()}
        return SimpleNamespace(streams=streams)

    def advance_event_time(self, times: Mapping[str, int | None]) -> None:
        for alias, time in times.items():
            self._see(alias, time)

    def learn_overhead(self, seconds: float) -> None:
        """Time is what `speeds` says."""

    def control_errors(self) -> tuple[str, ...]:
        return ()

    def query_metrics(self) -> dict[str, Any]:
        return {}

    def process(self, rows: Mapping[str, pa.RecordBatch], seconds: float | None) -> Iterator[pa.RecordBatch]:
        """Joins rows at once, and hands results on in batches of three. With a deadline, as many as the last
        attempt had time for, or all of them if there are no rows."""
        results = self.deferred + self._join(rows)
        now = len(results) if self.speeds is None or not rows else self.speed
        results, self.deferred = results[:now], results[now:]
        self.speed = 1 if self.speeds is None else self.speeds.randint(0, 4)
        return (_batch_of_results(results[at : at + 3]) for at in range(0, len(results), 3))

    def _join(self, rows: Mapping[str, pa.RecordBatch]) -> list[Row]:
        earliest = {a: None if t is None else t - self.late for a, t in self.newest.items()}
        for alias, batch in rows.items():
            for row in rows_of(batch):
                if earliest[alias] is None or row[1] >= earliest[alias]:
                    self.held[alias].append(row)
                    self._see(alias, row[1])
        passed = self._passed()
        results: list[Row] = []
        for alias, other in (("a", "b"), ("b", "a")):
            due, self.held[alias] = self._due(self.held[alias], passed)
            if due:
                stored = [row for _, segment in self.segments[other] for row in segment]
                found = [(r[0], s[0], r[2]) for r in due for s in stored if self._match(r, s)]
                results += found if alias == "a" else [(b, a, k) for a, b, k in found]
                self.segments[alias].append((batch_of(due, SMALL), due))
        if passed is not None:
            for alias, kept in self.segments.items():
                self.segments[alias] = [s for s in kept if max(r[1] for r in s[1]) + self.window >= passed]
        return results

    def capture(self) -> State:
        held = [batch_of(rows, SMALL) if rows else NO_ROWS for rows in self.held.values()]
        parts = [batch for a in "ab" for batch, _ in self.segments[a]]
        kept = {"deferred": self.deferred, "speed": self.speed}
        return State({"newest": self.newest, "a": len(self.segments["a"]), **kept}, (*held, *parts))

    def restore(self, state: State, reached: object) -> None:
        self.deferred = [tuple(row) for row in state.metadata["deferred"]]
        self.speed = state.metadata["speed"]
        self.newest = dict(state.metadata["newest"])
        self.held = {a: rows_of(batch) for a, batch in zip("ab", state.parts, strict=False)}
        parts, of_a = state.parts[2:], state.metadata["a"]
        self.segments = {
            a: [(batch, rows_of(batch)) for batch in own]
            for a, own in (("a", parts[:of_a]), ("b", parts[of_a:]))
        }

    def _see(self, alias: str, time: int | None) -> None:
        if time is not None:
            self.newest[alias] = max(time, self.newest[alias] or time)

    def _passed(self) -> int | None:
        """The time before which no row of any stream will come."""
        a, b = self.newest["a"], self.newest["b"]
        return None if a is None or b is None else min(a, b) - self.late

    def _due(self, rows: list[Row], passed: int | None) -> tuple[list[Row], list[Row]]:
        """Rows to join now, and rows whose time has not come."""
        if not self.held_back:
            return rows, []
        now = [r for r in rows if passed is not None and r[1] <= passed]
        return now, [r for r in rows if r not in now]

    def _match(self, one: Row, other: Row) -> bool:
        return one[2] == other[2] and abs(one[1] - other[1]) <= self.window


def _batch_of_results(results: Sequence[Row]) -> pa.RecordBatch:
    a, b, _ = zip(*results, strict=True)
    columns = [pa.array(a), pa.array(b), pa.nulls(len(a), pa.string())]
    return pa.RecordBatch.from_arrays(columns, REPORT.schema.names)


def answer(batches: Sequence[Mapping[str, Sequence[Row]]], window: int, late: int) -> Counter[tuple]:
    """All pairs, of rows that were not late when their batch came."""
    newest: dict[str, int] = {}
    rows: dict[str, list[Row]] = {"a": [], "b": []}
    for batch in batches:
        for alias, given in batch.items():
            rows[alias] += [r for r in given if alias not in newest or r[1] >= newest[alias] - late]
        for alias, given in batch.items():
            if given:
                newest[alias] = max([r[1] for r in given] + ([newest[alias]] if alias in newest else []))
    return Counter(
        (a[0], b[0]) for a in rows["a"] for b in rows["b"] if a[2] == b[2] and abs(a[1] - b[1]) <= window
    )


class Batch:
    """Rows of a micro-batch, as each partition gets them."""

    def __init__(self, rows: dict[str, list[Row]], schema: pa.Schema) -> None:
        self.rows = rows
        self._schema = schema
        self._parts: dict[tuple[int, int], TaskInput] = {}

    def part(self, partition: int, partitions: int) -> TaskInput:
        key = (partition, partitions)
        if key not in self._parts:
            own = {s: [r for r in self.rows[a] if r[2] % partitions == partition] for s, a in enumerate("ab")}
            self._parts[key] = TaskInput(
                partition, {s: batch_of(rows, self._schema) for s, rows in own.items() if rows}
            )
        return self._parts[key]
