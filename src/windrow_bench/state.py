"""Stored windows: what a cold start costs, and what a commit; and windows that spill (see `spill.py`).

The windows of two streams fill, one batch after the other, and every batch is committed twice: with and
without stored join columns and indexes. Then fresh processes, whose kernels are loaded, start from each and
join one more batch. Without them a start rebuilds everything, as it did before they were stored. A start ends
when the windows are ready for the batch. If they are mapped, the batch then finds pages that nobody has
touched yet; so what it takes beyond the same batch in windows that were rebuilt is added in a second figure.
Figures are seconds of the processor: on a machine that others use too, a clock on the wall
measures them as well. Of several turns the least counts, because others only ever add to it. Loaded modules
are exempt from garbage collection, as in Spark's workers. On virtual machines, memory that the host has to
provide first takes several times as long; so a process uses memory and frees it before it measures.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow.engine.operator import Operator, runner_of
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import State, capture, restore
from windrow.errors import QueryError, unknown
from windrow.model.query import Query, Stream
from windrow.spark.task import freeze_loaded_objects
from windrow.state import CommitLog, JoinId, Manifest, StateStore, Version
from windrow_bench import spill
from windrow_bench.data import batches, streams, with_numbers

SECONDS = 100
BATCHES = 50
ROWS = 5_000_000
KEYS = 1 << 40
TURNS = 5
MEMORY = 1 << 29
"""More than a start uses at once."""
JOINS = {
    "hash, integer key": "a.k = b.k",
    "hash, text key": "a.t = b.t",
    "sorted, band": "abs(a.x - b.x) <= 0.01",
}
_RUN = "0" * 32
Batch = Mapping[str, pa.Table]


def run(rows: int, console: Console, case: str | None = None) -> list[dict[str, Any]]:
    """Cold starts and spilling, or the case of that name."""
    known = {"cold": _cold_starts, "spill": spill.run, "rocksdb": spill.on_spark, "resident": spill.resident}
    if case is not None and case not in known:
        raise QueryError(unknown("case", case, known))
    chosen = ("cold", "spill") if case is None else (case,)
    return [figure for name in chosen for figure in known[name](rows, console)]


def _cold_starts(rows: int, console: Console) -> list[dict[str, Any]]:
    rows = min(rows, ROWS)
    tables = with_numbers(streams(rows, KEYS, 2, SECONDS), float(KEYS))
    tables = {a: t.append_column("t", t["k"].cast(pa.string())) for a, t in tables.items()}
    parts = batches(tables, rows // BATCHES, SECONDS)
    return [_measure(name, on, parts, console) for name, on in JOINS.items()]


def _measure(name: str, on: str, parts: list[dict[str, pa.Table]], console: Console) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory, console.status(f"{name}: filling the windows") as status:
        roots = {mode: str(Path(directory) / mode) for mode in ("mapped", "rebuilt")}
        *before, batch = parts
        operator, commits = _fill(on, before, roots)
        rows = operator.metrics().window_rows
        expected = operator.process(batch).num_rows
        starts: dict[str, list[ColdStart]] = {mode: [] for mode in roots}
        for turn in range(TURNS):
            for mode, root in roots.items():
                status.update(f"{name}: cold start, {mode}, turn {turn + 1} of {TURNS}")
                start = _in_fresh_process(root, on, batch, mode == "mapped")
                assert start.results == expected, (name, mode, start.results, expected)
                starts[mode].append(start)
    mapped, rebuilt = (starts[mode] for mode in roots)

    def ratio(of: Callable[[list[float]], float], cost: Callable[[ColdStart], float]) -> float:
        return of([cost(start) for start in mapped]) / of([cost(start) for start in rebuilt])

    new_rows = sum(t.num_rows for part in before for t in part.values()) / len(before)
    stored, plain = commits["mapped"], commits["rebuilt"]
    return {
        "join": name,
        "window rows": rows,
        "cold start, rebuilt (s)": min(start.ready for start in rebuilt),
        "cold start, mapped (s)": min(start.ready for start in mapped),
        "mapped : rebuilt": ratio(min, lambda start: start.ready),
        "mapped : rebuilt, medians": ratio(median, lambda start: start.ready),
        "mapped : rebuilt, medians by the clock on the wall": ratio(median, lambda start: start.wall),
        "first batch, mapped (s)": min(start.batch for start in mapped),
        "first batch, rebuilt (s)": min(start.batch for start in rebuilt),
        "with pages first touched, mapped : rebuilt (asked: 0.1 at most)": (
            min(start.ready for start in mapped)
            + min(start.batch for start in mapped)
            - min(start.batch for start in rebuilt)
        )
        / min(start.ready for start in rebuilt),
        "commit (s)": fmean(c.seconds for c in stored),
        "commit, longest (s)": max(c.seconds for c in stored),
        "commit : without indexes, time": fmean(c.seconds for c in stored) / fmean(c.seconds for c in plain),
        "commit, bytes a new row": fmean(c.bytes for c in stored) / new_rows,
        "commit : without indexes, bytes": fmean(c.bytes for c in stored) / fmean(c.bytes for c in plain),
    }


@dataclass(frozen=True)
class ColdStart:
    ready: float
    """Seconds of the processor from nothing to windows that are ready for a batch."""
    wall: float
    """The same by the clock on the wall."""
    batch: float
    """Seconds of the processor for the first batch."""
    results: int


@dataclass(frozen=True)
class Commit:
    seconds: float
    bytes: int


def _query(on: str) -> Query:
    return Query({alias: Stream("ts", f"{10 * SECONDS} s") for alias in "ab"}, on)


def _store(root: str) -> StateStore:
    return StateStore(CommitLog(root, JoinId("bench", "state"), 1), 0)


def _fill(
    on: str, parts: list[dict[str, pa.Table]], roots: Mapping[str, str]
) -> tuple[Operator, dict[str, list[Commit]]]:
    """An operator that has seen all batches, and the commits of its states to each store."""
    operator = Operator(_query(on))
    stores = {mode: _store(root) for mode, root in roots.items()}
    for store in stores.values():
        store.log.check_metadata(fingerprint(runner_of(operator).query), first=True)
    commits: dict[str, list[Commit]] = {mode: [] for mode in roots}
    for number, part in enumerate(parts):
        operator.process(part)
        for mode, store in stores.items():
            start = store.log.begin(_RUN, number)
            began = time.process_time()
            state = capture(runner_of(operator))
            state = state if mode == "mapped" else _without_indexes(state)
            manifest = store.commit(
                Version(number, _RUN), state, runner_of(operator).watermarks.max_event_times
            )
            seconds = time.process_time() - began
            store.collect(start)
            commits[mode].append(Commit(seconds, _written(manifest)))
    return operator, commits


def _written(manifest: Manifest) -> int:
    return sum(size for file, size in manifest.files.items() if manifest.content in file)


def _without_indexes(state: State) -> State:
    """A state without stored join columns and indexes, which follow the parts of the streams."""
    described = state.metadata["streams"]
    names = ("buffered", "segments", "row_state")
    count = sum(bool(each["schema"]) + sum(each[name] for name in names) for each in described)
    plain = [{name: value for name, value in each.items() if name != "window"} for each in described]
    learned = state.parts[-1:] if state.metadata["arrays"] else ()
    return State(state.metadata | {"streams": plain}, (*state.parts[:count], *learned))


def _in_fresh_process(root: str, on: str, batch: Batch, mapped: bool) -> ColdStart:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_start, (root, on, batch, mapped))


def _start(root: str, on: str, batch: Batch, mapped: bool) -> ColdStart:
    _load_kernels(on, batch)
    freeze_loaded_objects()
    _use_memory()
    began, wall = time.process_time(), time.perf_counter()
    operator = _restored(_store(root), on, mapped)
    runner = runner_of(operator)
    assert runner.join is not None
    runner.planner.ensure_plan(runner.join)
    ready, wall = time.process_time(), time.perf_counter() - wall
    results = operator.process(batch).num_rows
    return ColdStart(ready - began, wall, time.process_time() - ready, results)


def _restored(store: StateStore, on: str, mapped: bool) -> Operator:
    newest = max(marker.version for marker in store.log.read_markers().committed)
    operator = Operator(_query(on))
    restore(runner_of(operator), store.load(store.manifest(newest), lazy=mapped))
    return operator


def _use_memory() -> None:
    np.empty(MEMORY, np.uint8).fill(1)


def _load_kernels(on: str, batch: Batch) -> None:
    """Stores and restores a small join with some matches."""
    rows = batch["a"].slice(0, 12_000)
    few = pa.concat_tables([rows] * (1 + 12_000 // rows.num_rows)).combine_chunks()
    with tempfile.TemporaryDirectory() as root:
        operator, _ = _fill(on, [{"a": few, "b": few}] * 2, {"mapped": root})
        operator = _restored(_store(root), on, True)
        operator.process({"a": few.slice(0, 10), "b": few.slice(0, 10)})
