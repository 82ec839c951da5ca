"""Faults that strike Spark's Python workers where and when a test has planted them.

A planted fault is a file named after where it strikes, what it does and in which batch. The first worker to
come by takes it, by renaming it; so each strikes once, and the test sees that it did. Workers are forked from
this module as Spark's daemon, which has hooked the places where faults may strike.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = "WINDROW_FAULTS"
"""The variable that tells workers where faults are planted."""
PATIENCE = 900.0
"""Seconds after which something hangs."""


class Faults:
    """A folder of planted faults.

    They strike at "reading" (rows are read and joined, nothing is committed), "manifest" (the parts are
    there, their manifest is not), "mark" (all is committed, nothing is handed on), or "results" (some of the
    results are handed on). They "fail" the task, "pause" it until it is killed or
    released, or leave no "room" for more than a few bytes in any file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def plant(self, point: str, action: str, batch: int, times: int = 1) -> None:
        for _ in range(times):
            number = len(list(self.folder.iterdir()))
            (self.folder / f"{point}.{action}.{batch}.{number}").touch()

    def waiting(self) -> list[str]:
        """Faults that no worker has come by."""
        return [f.name for f in self.folder.iterdir() if not f.name.startswith("struck")]

    def struck(self) -> list[int]:
        """Process ids of the workers that were struck."""
        return [int(f.name.split(".")[1]) for f in self.folder.glob("struck.*")]

    def wait(self, count: int = 1) -> list[int]:
        wait_until(lambda: len(self.struck()) >= count, "no worker came by the planted fault")
        return self.struck()

    def clear(self) -> None:
        """Forgets all faults and lets paused workers go on."""
        for file in self.folder.iterdir():
            file.unlink()

    def strike(self, point: str, batch: int) -> str | None:
        """In a worker."""
        for planted in self.folder.glob(f"{point}.*.{batch}.*"):
            taken = self.folder / f"struck.{os.getpid()}.{planted.name}"
            try:
                planted.rename(taken)
            except FileNotFoundError:
                continue  # another worker was first
            action = planted.name.split(".")[1]
            if action == "fail":
                raise RuntimeError(f"struck at {point} of batch {batch}")
            while action == "pause" and taken.exists():
                time.sleep(0.02)
            return action
        return None


def wait_until(true: Callable[[], object], else_: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, else_
        time.sleep(0.02)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """All processes below one, in no order."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def _hook(faults: Faults) -> None:
    """Lets faults strike in the workers that are forked from this process."""
    import resource

    from windrow.spark import partition_join, task
    from windrow.state.runs import Version
    from windrow.state.store import StateStore

    commit, batch_of, replace = StateStore.commit, task.JoinTask.run_micro_batch, Path.replace
    committing: list[int] = []
    partition_join.ROWS_PER_BATCH = 40  # so that there is something between the first results and the last

    def struck_commit(self: StateStore, version: Version, *rest: Any) -> Any:
        batch = version.batch
        committing[:] = [batch]
        full = faults.strike("reading", batch) == "room"
        most = resource.getrlimit(resource.RLIMIT_FSIZE)
        if full:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, most[1]))
        try:
            made = commit(self, version, *rest)
            faults.strike("mark", batch)
            return made
        finally:
            committing.clear()
            resource.setrlimit(resource.RLIMIT_FSIZE, most)

    def struck_replace(self: Path, target: Path) -> Path:
        if committing and Path(target).suffix == ".json":
            faults.strike("manifest", committing[0])
        return replace(self, target)

    def struck_batch(self: task.JoinTask, root: str, now: Any, *rest: Any) -> Any:
        for number, rows in enumerate(batch_of(self, root, now, *rest)):
            if number == 2:
                faults.strike("results", now.batch)
            yield rows

    StateStore.commit, Path.replace, task.JoinTask.run_micro_batch = (
        struck_commit,
        struck_replace,
        struck_batch,
    )


if __name__ == "__main__":
    from pyspark import daemon

    from windrow.spark.worker import warm

    warm()
    _hook(Faults(Path(os.environ[FOLDER])))
    daemon.manager()
