"""Runs a process and watches what it and all below it hold, in memory and on disk."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow_bench.measure import last_json

LOOK = 0.5
"""Seconds between two looks at the memory."""
_WORKERS = (b"windrow.spark.worker", b"pyspark.daemon")
"""Modules that Spark's Python workers run."""


@dataclass
class Watched:
    """The JSON document that a process printed last, and the most bytes it held at any look."""

    printed: dict[str, Any]
    memory: int
    disk: int
    workers: int = 0
    """What Spark's Python workers held of their own, without what they map from files."""


def watched(
    command: Sequence[str],
    name: str,
    environment: Mapping[str, str] | None = None,
    directories: Sequence[Path] = (),
) -> Watched:
    """Runs a command to its end.

    Parameters
    ----------
    name
        Who has failed, if it fails.
    directories
        Where it keeps state.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    most = Watched({}, 0, 0)
    watcher = threading.Thread(target=_watch, args=(process, most, directories), daemon=True)
    watcher.start()
    out, err = process.communicate()
    watcher.join()
    most.printed = last_json(process.returncode, out, err, name)
    return most


def _watch(process: subprocess.Popen[str], most: Watched, directories: Sequence[Path]) -> None:
    while process.poll() is None:
        tree = _tree(process.pid)
        most.memory = max(most.memory, _held(tree))
        most.workers = max(most.workers, sum(_own(pid)[0] for pid in tree if _is_worker(pid)))
        most.disk = max(most.disk, sum(map(_size, directories)))
        time.sleep(LOOK)


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(folder) / name).stat().st_size
            except FileNotFoundError:  # removed meanwhile
                continue
    return total


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(") ", 1)[1].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
        except (OSError, IndexError, ValueError):
            continue
    found: list[int] = []
    left = [root]
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def _held(pids: list[int]) -> int:
    """Bytes in memory: each process's own, and once what the one with most of it maps from files.

    A page that a forked worker still has in common with its parent counts for both, so workers seem larger
    than they are. Read from `statm`, which the kernel keeps; exact shares it would have to count page by
    page, halting the process meanwhile.
    """
    own, files = zip((0, 0), *map(_own, pids), strict=True)
    return sum(own) + max(files)


def _own(pid: int) -> tuple[int, int]:
    """Bytes that a process has of its own, and that it maps from files or shares."""
    try:
        resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
    except (OSError, ValueError):
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return (resident - shared) * page, shared * page


def _is_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    # As an argument of its own: the JVM has the module's name in one of its settings.
    return any(module in command.split(b"\0") for module in _WORKERS)
