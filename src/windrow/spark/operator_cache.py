"""Joins that a Python worker keeps between tasks, each with the store of its partition.

A task reuses a join only if it holds exactly the version that the task starts from. Spark assigns
workers to tasks in turn, so many tasks run in a worker without their windows and must load them.

What a worker keeps counts towards the memory limit. Each of the workers that run at the same time may keep
its part of the limit, so together they hold no more. Joins that another worker has carried on are dropped.
What a task has freed goes back to the system, which would count it as the worker's otherwise.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from typing import Any, TypeVar

import pyarrow as pa

from windrow.spark.partition_join import PartitionJoin, local_directory
from windrow.state.commit_log import CommitLog
from windrow.state.late_rows import LateRows
from windrow.state.layout import StoredLayout
from windrow.state.part_cache import cache_of_machine
from windrow.state.paths import JoinId
from windrow.state.storage import Storage
from windrow.state.store import StateStore

T = TypeVar("T")
OPERATORS = 4
LOGS = 16


@dataclass
class CachedJoin:
    """A partition's store, with the join that holds the windows of the version `content`."""

    store: StateStore
    content: str | None = None
    join: PartitionJoin | None = None
    committing: float = 0.0
    """Seconds that the last commit took."""
    batch: int = -1
    """The micro-batch of that version."""
    held: float = 0.0
    """What it holds, in the unit of the memory limit; 0 without one."""


def open_store(log: CommitLog, partition: int) -> StateStore:
    """The state of a partition, with copies of remote files in Spark's local directories."""
    return StateStore(log, partition, cache_of_machine(local_directory()))


class OperatorCache:
    """A cache of operators and commit logs. Keys begin with the token of a call of `join`, because another
    call may define another query under the same id."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._operators: OrderedDict[tuple[str, JoinId, int], CachedJoin] = OrderedDict()
        self._logs: OrderedDict[tuple[str, JoinId], CommitLog] = OrderedDict()
        self._late_rows: OrderedDict[tuple[str, JoinId], LateRows] = OrderedDict()

    def log(
        self,
        token: str,
        root: str | Storage,
        scope: JoinId,
        partitions: int,
        layout: StoredLayout | None = None,
        sums_up: bool = False,
    ) -> CommitLog:
        made = partial(CommitLog, root, scope, partitions, self._clock, layout, sums_up)
        return _kept(self._logs, (token, scope), made)

    def late_rows(self, token: str, root: str | Storage, scope: JoinId) -> LateRows:
        return _kept(self._late_rows, (token, scope), partial(LateRows, root, scope))

    def checkout(self, token: str, log: CommitLog, partition: int) -> CachedJoin:
        """Takes a join out of the cache, so that no task uses it again if this one fails halfway."""
        kept = self._operators.pop((token, log.join_id, partition), None)
        return kept or CachedJoin(open_store(log, partition))

    def checkin(self, token: str, partition: int, kept: CachedJoin) -> None:
        self._operators[(token, kept.store.log.join_id, partition)] = kept
        while len(self._operators) > OPERATORS:
            self._operators.popitem(last=False)

    def drop_outdated(self, token: str, join: JoinId, batch: int) -> None:
        """Drops what no task can use any more. Every partition has committed the micro-batch before `batch`,
        so a join at an earlier one was carried on elsewhere; and a new call of `join` starts anew."""
        self._drop(
            key
            for key, kept in self._operators.items()
            if key[1] == join and (key[0] != token or kept.batch not in (batch - 1, batch))
        )

    def limit(self, token: str, join: JoinId, room: float) -> None:
        """Keeps no more of a join than `room`, in the unit of its memory limit. The least recently used
        partitions go first."""
        own = [key for key in self._operators if key[:2] == (token, join)]
        left = list(accumulate(self._operators[key].held for key in reversed(own)))[::-1]
        self._drop(key for key, held in zip(own, left, strict=True) if held > room)

    def _drop(self, keys: Iterable[tuple[str, JoinId, int]]) -> None:
        if keys := list(keys):
            for key in keys:
                del self._operators[key]
            release_memory()


def _kept(held: OrderedDict[Any, T], key: tuple[str, JoinId], make: Callable[[], T]) -> T:
    """What is held under a key, made if it is not. The oldest of more than `LOGS` are dropped."""
    if key not in held:
        held[key] = make()
        while len(held) > LOGS:
            held.popitem(last=False)
    return held[key]


def release_memory() -> None:
    """Gives the memory of joins that were dropped back to the system. The parts of a join refer to each
    other, so they are collected first; and allocators keep what is free between pieces in use."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = _system_trim()
    if trim is not None:
        trim(0)


@cache
def _system_trim() -> Any:
    """The function of the system's library, where there is one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
