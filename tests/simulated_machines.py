"""Machines of the simulator: workers, local copies of remote files, files that windows spill to, and what
happens to these."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, TemporaryFile
from types import SimpleNamespace
from typing import IO, Any
from unittest.mock import patch

from simulated_store import FAULT, Actor, Scheduler
from windrow.spark import operator_cache, partition_join, task
from windrow.spark.operator_cache import OperatorCache
from windrow.state import part_files, summaries
from windrow.state.commit_log import CommitLog
from windrow.state.local_storage import ASIDE
from windrow.state.store import StateStore
from windrow.window import spill_files

MACHINES, WORKERS = 2, 3
REMOTE = 0.4
"""Of the schedules have a store that is not local, and machines with copies of its files."""


class SpillFile:
    """A file that a window spills to. The worker may be killed, or the disk fail, before it is mapped."""

    closed = False

    def __init__(self, file: IO[bytes], scheduler: Scheduler) -> None:
        self._file, self._scheduler = file, scheduler

    def __enter__(self) -> SpillFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def fileno(self) -> int:
        self._scheduler.step("map a spill file")
        return self._file.fileno()


class Machines:
    """Machines that share nothing but the store. A task runs on any of them."""

    def __init__(self, scheduler: Scheduler, rng: Random) -> None:
        self._scheduler, self._rng = scheduler, rng
        self.remote = rng.random() < REMOTE
        self._directories: list[Path] = []
        self._full: set[Path] = set()
        self.start_workers()

    @contextmanager
    def running(self) -> Iterator[None]:
        with TemporaryDirectory(prefix="windrow-simulation-") as directory:
            self._directories = [Path(directory) / f"machine-{number}" for number in range(MACHINES)]
            for machine in self._directories:
                machine.mkdir(mode=0o700)
            with (
                patch.object(operator_cache, "open_store", self._open_store),
                patch.object(task, "open_store", self._open_store),
                patch.object(partition_join, "local_directory", lambda: None),
                patch.object(
                    spill_files,
                    "tempfile",
                    SimpleNamespace(TemporaryFile=self._spill_file, gettempdir=lambda: "its machine"),
                ),
                # Actors take turns in one thread.
                patch.object(summaries, "FETCHING", 1),
                patch.object(part_files, "FETCHING", 1),
            ):
                yield

    def start_workers(self) -> None:
        self._workers = [self._worker() for _ in range(WORKERS)]

    def _worker(self) -> OperatorCache:
        return OperatorCache(lambda: self._scheduler.now)

    def launch(self, name: str, attempt: Callable[[OperatorCache], object]) -> Actor:
        worker, workers = self._rng.choice(self._workers), self._workers
        workers.remove(worker)  # a worker runs one task at a time
        if not workers or self._rng.random() < 0.2:
            workers.append(self._worker())

        def work() -> object:
            try:
                return attempt(worker)
            finally:
                self._workers.append(worker)

        actor = self._scheduler.spawn(name, work)
        actor.machine = self._rng.choice(self._directories)
        if self._rng.random() < 0.5:
            actor.machine.mkdir(mode=0o700, exist_ok=True)  # an operator has put it back
        return actor

    def _open_store(self, log: CommitLog, partition: int) -> StateStore:
        """The store of a partition on the machine of the task that has its turn."""
        store = StateStore(log, partition, self._scheduler.machine if self.remote else None)
        if store.cache is not None and store.cache.directory in self._full:
            store.cache.largest = 0
        return store

    def _spill_file(self, dir: str) -> SpillFile:
        machine = self._scheduler.machine
        assert machine is not None
        self._scheduler.step("create a spill file")
        if machine in self._full:
            raise OSError(errno.ENOSPC, f"{FAULT}: no space left")
        return SpillFile(TemporaryFile(dir=machine), self._scheduler)

    def strike(self) -> None:
        """Something happens to the files on a machine, at any point of what its tasks do."""
        machine = self._rng.choice(self._directories)
        fault, turns = self._rng.choice([self._lose, self._fill, self._spoil]), self._rng.randint(0, 30)

        def work() -> None:
            for _ in range(turns):
                self._scheduler.step("waits")
            self._scheduler.trace.append(f"{machine.name}: {fault.__name__.strip('_')}")
            fault(machine)

        self._scheduler.spawn("fate", work)

    def _lose(self, machine: Path) -> None:
        """The directory is deleted. Whoever has mapped a file keeps it; nobody can create one."""
        shutil.rmtree(machine, ignore_errors=True)

    def _fill(self, machine: Path) -> None:
        """The disk has no room any more, or has some again."""
        self._full ^= {machine}

    def _spoil(self, machine: Path) -> None:
        """Copies are replaced under their readers, by others of the same length that end otherwise."""
        for file in sorted(machine.glob("*")):
            data, other = file.read_bytes(), file.with_name(f"{ASIDE}other")
            at = self._rng.randrange(len(data))
            other.write_bytes(data[:at] + bytes(byte ^ 0x55 for byte in data[at:]))
            other.replace(file)
