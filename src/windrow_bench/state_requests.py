"""Stored windows on an object store: requests per partition and micro-batch, and what they cost as partitions
grow.

The store is in this process and counts what it is asked: a listing is one request per 1,000 names, as on S3.
Requests before the last result of a task are on the critical path; those of the cleanup come later. A task
may find its windows in the memory of its worker, in local copies that another worker of its machine has made,
or nowhere on its machine. There are as many workers as partitions, so every task lists for itself.

The fixed cost is the processor time that state adds to a task which has nothing to do: to begin from the
version before, to commit the next and, in turns, to clean up. Tasks of a micro-batch in one worker share a
listing, so it depends on the number of workers.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from rich.console import Console

from windrow.engine.operator import Operator
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
TURNS = 3
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
    found = []
    with console.status(f"fixed cost of {FEW} partitions"):
        few = [_fixed_cost(FEW, workers) for workers in (WORKERS, FEW)]
    for partitions in PARTITIONS:
        asked = {}
        for place in PLACES:
            with console.status(f"{partitions} partitions, windows {place}"):
                asked[place] = _requests(partitions, place)
        with console.status(f"fixed cost of {partitions} partitions"):
            costs = [_fixed_cost(partitions, workers) for workers in (WORKERS, partitions)]
        warm = asked[PLACES[0]]
        found.append(
            {"partitions": str(partitions)}
            | {f"critical, windows {place}": sum(asked[place].critical.values()) for place in PLACES}
            | {f"of them {kind}s, windows {PLACES[0]}": warm.critical[kind] for kind in KINDS}
            | {
                f"critical of a batch, windows {PLACES[0]}": sum(warm.critical.values()) * partitions,
                "later (cleanup)": warm.later,
                "names listed": warm.names_listed,
                f"fixed cost (ms), {WORKERS} workers": costs[0],
                f"fixed cost : {FEW} partitions, {WORKERS} workers": costs[0] / few[0],
                f"fixed cost : {FEW} partitions, a worker each": costs[1] / few[1],
            }
        )
    return found


@dataclass(frozen=True)
class Requests:
    """Averages per partition and micro-batch."""

    critical: dict[str, float]
    later: float
    names_listed: float


def _requests(partitions: int, place: str) -> Requests:
    """In memory, over as many micro-batches as it takes until every partition has cleaned up once.
    Elsewhere, every task runs in another worker than the one before it, with its own log of commits."""
    root, workers = CountedObjects(), [OperatorCache() for _ in range(partitions)]
    task = JoinTask(
        query=_QUERY, schemas=(_SCHEMA, _SCHEMA), union_columns=(), keys=(None, None), partitions=partitions,
        name="join", state="",
    )  # fmt: skip
    stays = place == PLACES[0]
    before, measured = (COLLECTING, COLLECTING) if stays else MOVED
    critical, later, listed = Counter[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as directory:
        for batch in range(before + measured):
            for partition in range(partitions):
                machine = f"{directory}/{batch}-{partition}" if place == PLACES[-1] else directory
                worker = workers[partition if stays else (partition + batch) % partitions]
                root.requests, root.names_listed = Counter(), 0
                until_results: Counter[str] = Counter()
                now, arrived = MicroBatch("query", _RUN, batch), _arrived(partition, batch)
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


def _arrived(partition: int, batch: int) -> TaskInput:
    ids = pa.array([batch], pa.int64())
    times = pa.array([batch * 1_000_000], pa.timestamp("us"))
    rows = pa.RecordBatch.from_arrays([ids, times, pa.array([partition], pa.int64())], schema=_SCHEMA)
    return TaskInput(partition, {0: rows, 1: rows})


def _fixed_cost(partitions: int, workers: int) -> float:
    """Milliseconds of the processor that state adds to a task; the least of several turns, because others
    only ever add to it."""
    return min(_turn(partitions, workers) for _ in range(TURNS))


def _turn(partitions: int, workers: int) -> float:
    root, scope = CountedObjects(), JoinId("query", "join")
    logs = [CommitLog(root, scope, partitions, sums_up=workers > GROUP) for _ in range(workers)]
    stores = [StateStore(logs[number % workers], number) for number in range(partitions)]
    state = capture(Operator(_QUERY, dict.fromkeys("ab", _SCHEMA)).runner)
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
