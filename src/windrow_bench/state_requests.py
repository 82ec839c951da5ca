"""Stored windows on an object store: requests per partition and micro-batch, and what they cost as partitions
grow.

The store is in this process and counts what it is asked: a listing is one request per 1,000 names, as on S3.
Requests before the last result of a task are on the critical path; summaries and the cleanup come later. A
task may find its windows in the memory of its worker, in local copies that another worker of its machine has
made, or nowhere on its machine. There are as many workers as partitions, so every task lists for itself.
Windows are small; a second table has larger ones, of which a move fetches the files.

The fixed cost is the processor time that state adds to a task which has nothing to do: to begin from the
version before, to commit the next, to leave a summary and, in turns, to clean up. Numbers of partitions take
turns, and of several turns the least counts, because others only ever add to it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow.engine.operator import Operator, runner_of
from windrow.engine.query_changes import fingerprint
from windrow.engine.state import capture
from windrow.model.query import Query, Stream
from windrow.spark.microbatch import MicroBatch
from windrow.spark.operator_cache import OperatorCache
from windrow.spark.partition_join import LOCAL
from windrow.spark.task import COLLECTING, JoinTask
from windrow.spark.task_input import TaskInput
from windrow.state import CommitLog, JoinId, StateStore
from windrow.state.paths import GROUP
from windrow.state.storage import AtomicCommit, Entry, Pending, Storage

PARTITIONS = (4, 50, 200)
PLACES = ("in memory", "on the machine", "elsewhere")
MOVED = (4, 2)
"""Micro-batches before the measurement, and in it, if tasks move."""
FEW = 20
WORKERS = 2
KINDS = ("list", "put", "get", "delete")
PAGE = 1000
TURNS = 5
LARGE = (1_000, 20_000)
BATCHES = 12
"""Micro-batches of larger windows that are measured, after twice as many."""
_RUN = "1" * 32
_SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("k", pa.int64())])
_QUERY = Query({alias: Stream("ts", "20 seconds") for alias in "ab"}, "a.k = b.k")


class CountedObjects(Storage):
    """An object store in memory that counts requests."""

    local = False

    def __init__(self) -> None:
        super().__init__("counted://states")
        self.requests: Counter[str] = Counter()
        self.names_listed = 0
        self._root: dict[str, Any] = {}
        """Directories by name, files as bytes."""

    @contextmanager
    def commit(self, what: str, where: str) -> Iterator[AtomicCommit]:
        pending = Pending()
        yield pending
        for path, sink in pending.files.items():
            self._put(path, sink.getvalue().to_pybytes())

    def create(self, path: str, data: bytes, what: str) -> None:
        directory, _, name = path.rpartition("/")
        if name in self._directory(directory):
            self.requests["put"] += 1  # refused by its condition
        else:
            self._put(path, data)

    def read(self, path: str) -> pa.Buffer:
        self.requests["get"] += 1
        directory, _, name = path.rpartition("/")
        try:
            return pa.py_buffer(self._directory(directory)[name])
        except KeyError:
            raise FileNotFoundError(path) from None

    def entries(self, path: str, below: bool = False) -> list[Entry]:
        there = self._directory(path)
        names = self.names(path, below)
        return [Entry(name, 0, 0.0, not below and isinstance(there[name], dict)) for name in names]

    def names(self, path: str, below: bool = False) -> list[str]:
        there = self._directory(path)
        found = list(_below(there)) if below else list(there)
        self.requests["list"] += 1 + len(found) // PAGE
        self.names_listed += len(found)
        return found

    def delete(self, path: str) -> None:
        self.requests["delete"] += 1
        directory, _, name = path.rpartition("/")
        self._directory(directory).pop(name, None)

    def delete_tree(self, path: str) -> None:
        self.requests["list"] += 1
        self.delete(path)

    def _directory(self, path: str, make: bool = False) -> dict[str, Any]:
        found = self._root
        for name in path.split("/"):
            found = found.setdefault(name, {}) if make else found.get(name, {})
        return found

    def _put(self, path: str, data: bytes) -> None:
        self.requests["put"] += 1
        directory, _, name = path.rpartition("/")
        self._directory(directory, make=True)[name] = data


def _below(directory: dict[str, Any]) -> Iterator[str]:
    for name, held in directory.items():
        if isinstance(held, dict):
            yield from (f"{name}/{inner}" for inner in _below(held))
        else:
            yield name


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    costs = _fixed_costs(console)
    found = []
    for partitions in PARTITIONS:
        asked = {}
        for place in PLACES:
            with console.status(f"{partitions} partitions, windows {place}"):
                asked[place] = _requests(partitions, place)
        warm = asked[PLACES[0]]
        found.append(
            {"partitions": str(partitions)}
            | {f"critical, windows {place} (asked: 3)": asked[place].total for place in PLACES}
            | {f"of them {kind}s, windows {PLACES[0]}": warm.critical[kind] for kind in KINDS}
            | {
                f"critical of a batch, windows {PLACES[0]}": warm.total * partitions,
                "later (summaries, cleanup)": warm.later,
                "names listed, later ones included": warm.names_listed,
                f"fixed cost (ms), {WORKERS} workers": costs[partitions, True],
                f"fixed cost : {FEW} partitions, {WORKERS} workers": costs[partitions, True]
                / costs[FEW, True],
                f"fixed cost : {FEW} partitions, a worker each": costs[partitions, False] / costs[FEW, False],
            }
        )
    return [*found, *(_large(large, console) for large in LARGE), _under_a_deadline(console)]


def _under_a_deadline(console: Console) -> dict[str, Any]:
    query = replace(_QUERY, deadline="1 second")
    with console.status("under a deadline"):
        places = {place: _requests(PARTITIONS[0], place, query=query) for place in PLACES}
    return {"under a deadline, partitions": str(PARTITIONS[0])} | {
        f"critical, windows {place}": asked.total for place, asked in places.items()
    }


def _large(rows: int, console: Console) -> dict[str, Any]:
    """Windows that are larger, in one partition."""
    with console.status(f"{rows:,} rows a batch"):
        places = {place: _requests(1, place, rows, (2 * BATCHES, BATCHES)) for place in PLACES}
    return {"rows of a stream in a batch": f"{rows:,}"} | {
        f"critical, windows {place}": asked.total for place, asked in places.items()
    }


@dataclass(frozen=True)
class Requests:
    """Averages per partition and micro-batch."""

    critical: dict[str, float]
    later: float
    names_listed: float

    @property
    def total(self) -> float:
        return sum(self.critical.values())


def _requests(
    partitions: int,
    place: str,
    rows: int = 1,
    batches: tuple[int, int] | None = None,
    query: Query = _QUERY,
) -> Requests:
    """In memory, over as many micro-batches as it takes until every partition has cleaned up once, unless
    numbers of `batches` are given. Elsewhere, every task runs in another worker than the one before it, with
    its own log of commits."""
    root, workers = CountedObjects(), [OperatorCache() for _ in range(partitions)]
    task = JoinTask(
        query=query, schemas=(_SCHEMA, _SCHEMA), keys=(None, None), partitions=partitions,
        name="join", state="", parallel_tasks=partitions,
    )  # fmt: skip
    stays = place == PLACES[0]
    before, measured = batches or ((COLLECTING, COLLECTING) if stays else MOVED)
    if partitions == 1 and not stays:
        workers.append(OperatorCache())
    critical, later, listed = Counter[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as directory:
        for batch in range(before + measured):
            for partition in range(partitions):
                machine = f"{directory}/{batch}-{partition}" if place == PLACES[-1] else directory
                worker = workers[partition if stays else (partition + batch) % len(workers)]
                root.requests, root.names_listed = Counter(), 0
                until_results: Counter[str] = Counter()
                now, arrived = MicroBatch("query", _RUN, batch), _arrived(partition, batch, rows)
                with patch.dict(os.environ, {LOCAL: machine}):
                    for _ in task.of(partition).run_micro_batch(root, now, arrived, 0.0, worker):
                        until_results = root.requests.copy()
                if batch >= before:
                    critical += until_results
                    later += root.requests - until_results
                    listed += root.names_listed
    tasks = partitions * measured
    kinds = {kind: critical[kind] / tasks for kind in KINDS}
    return Requests(kinds, later.total() / tasks, listed / tasks)


def _arrived(partition: int, batch: int, rows: int) -> TaskInput:
    ids = np.arange(rows * batch, rows * (batch + 1))
    times = pa.array(batch * 1_000_000 + np.arange(rows) % 1_000_000).cast(pa.timestamp("us"))
    given = pa.RecordBatch.from_arrays(
        [pa.array(ids), times, pa.array(ids * 1_000 + partition)], schema=_SCHEMA
    )
    return TaskInput(partition, {0: given, 1: given})


def _fixed_costs(console: Console) -> dict[tuple[int, bool], float]:
    """Milliseconds of the processor that state adds to a task, by partitions and whether workers are few."""
    cases = [(partitions, few) for partitions in (FEW, *PARTITIONS) for few in (True, False)]
    found: dict[tuple[int, bool], float] = {}
    for turn in range(TURNS):
        for partitions, few in cases:
            with console.status(f"fixed cost of {partitions} partitions, turn {turn + 1} of {TURNS}"):
                # As many tasks in every turn, whatever the number of partitions.
                for _ in range(max(1, PARTITIONS[-1] // partitions)):
                    cost = _turn(partitions, WORKERS if few else partitions)
                    found[partitions, few] = min(cost, found.get((partitions, few), cost))
    return found


def _turn(partitions: int, workers: int) -> float:
    root, scope = CountedObjects(), JoinId("query", "join")
    logs = [CommitLog(root, scope, partitions, sums_up=workers > GROUP) for _ in range(workers)]
    stores = [StateStore(logs[number % workers], number) for number in range(partitions)]
    state = capture(runner_of(Operator(_QUERY, dict.fromkeys("ab", _SCHEMA))))
    stores[0].log.check_metadata(fingerprint(_QUERY), first=True)
    began = 0.0
    for batch in range(2 * COLLECTING):
        if batch == COLLECTING:
            began = time.process_time()
        for partition, store in enumerate(stores):
            start = store.log.begin(_RUN, batch, partition)
            store.commit(start.version, state, (batch, batch))
            store.log.summaries.leave(start.version, partition, False)
            if (batch + partition) % COLLECTING == 0:
                store.collect(start)
    return 1000 * (time.process_time() - began) / (partitions * COLLECTING)
