"""Local copies of part files and manifests of states in remote storage. All workers of a machine map the same
copy.

These files have unique names and never change, so a copy is never out of date. Copies appear by rename and
disappear by unlink, neither of which affects a worker that has mapped one, so workers need no locks. Copies
that are unused for some time are removed, and the least recently used make room for new ones. A file that
would take too much of the disk is not copied but held in memory. Losing the cache is harmless.

A user who can write a copy can change windows, and one who can read it sees rows. So the directory must be
private; without a private directory there is no cache. Every use checks this, because another user may create
the directory after the system has cleaned up its temporary files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa

from windrow.state.local_storage import ASIDE
from windrow.state.private import is_private, private_directory
from windrow.state.trusted_files import is_trusted, trust
from windrow.window.mapped_arrays import mapped_contents

UNUSED = 1800.0
"""Seconds without use after which a copy is removed."""
LARGEST = 16 << 30
"""Most bytes of all copies."""
FREE = 0.1
"""Part of the disk that stays free."""


class Contents(NamedTuple):
    """The contents of a file."""

    buffer: pa.Buffer
    path: str | None
    """The local file that is mapped; None if the contents are in memory."""


def cache_of_machine(directory: str | None = None) -> Path:
    """The cache directory of this user's workers, in this directory or the system's temporary directory."""
    return Path(directory or tempfile.gettempdir()) / f"windrow-parts-{os.geteuid()}"


class PartCache:
    """
    Parameters
    ----------
    directory
        On a local disk, shared by the workers of this machine.
    clock
        Seconds since 1970.
    unused
        Seconds without use after which a copy may be removed.
    largest
        Most bytes of all copies.
    """

    def __init__(
        self,
        directory: Path,
        clock: Callable[[], float],
        unused: float = UNUSED,
        largest: int = LARGEST,
    ) -> None:
        self.directory = directory
        self.unused = unused
        self.largest = largest
        self._clock = clock

    def get(self, name: str, size: int | None, fetch: Callable[[], pa.Buffer]) -> Contents:
        """The contents of a file, mapped. Fetches the file if there is no copy, or none of that size."""
        copy = self.mapped(name, size)
        if copy is not None:
            return copy
        contents = fetch()
        self.put(name, contents)
        return self.mapped(name, size) or Contents(contents, None)

    def put(self, name: str, contents: pa.Buffer) -> None:
        """Keeps a copy, if there is room for it."""
        aside = self.directory / f"{ASIDE}{uuid4().hex}"
        try:
            if private_directory(self.directory) is None or not self._make_room(contents.size):
                return
            with aside.open("xb") as file:
                file.write(contents)
            aside.replace(self.directory / name)
        except OSError:
            with suppress(OSError):
                aside.unlink(missing_ok=True)

    def drop(self, name: str) -> None:
        with suppress(OSError):
            if is_private(self.directory):
                (self.directory / name).unlink(missing_ok=True)

    def trim(self) -> None:
        """Removes unused copies, and partial files of killed workers."""
        if not is_private(self.directory):
            return
        latest = self._clock() - self.unused
        for used, _, path in self._copies():
            if used < latest:
                path.unlink(missing_ok=True)

    def _make_room(self, size: int) -> bool:
        """Removes the least recently used copies until a new one of this size has room; false if it never
        has."""
        disk = shutil.disk_usage(self.directory)
        copies = self._copies()
        missing = max(
            sum(held for _, held, _ in copies) + size - self.largest,
            int(FREE * disk.total) + size - disk.free,
        )
        if missing > sum(held for _, held, _ in copies):
            return False
        for _, held, path in copies:
            if missing <= 0:
                break
            path.unlink(missing_ok=True)
            missing -= held
        return True

    def _copies(self) -> list[tuple[float, int, Path]]:
        """When each copy was last used, its bytes and its path, the least recently used first."""
        found = []
        with suppress(OSError), os.scandir(self.directory) as listing:
            for item in listing:
                with suppress(OSError):
                    stat = item.stat()
                    found.append((stat.st_mtime, stat.st_size, Path(item)))
        return sorted(found)

    def mapped(self, name: str, size: int | None) -> Contents | None:
        """The local copy of a file; None if there is none, or none of the given size."""
        path = self.directory / name
        try:
            if not is_private(self.directory):
                return None
            now, trusted = self._clock(), is_trusted(str(path))
            os.utime(path, (now, now))
            if trusted:  # the note is valid only for the old time
                trust(str(path))
            held = path.stat().st_size
            if held == 0 or size not in (None, held):
                return None
            return Contents(mapped_contents(str(path)), str(path))
        except OSError:
            return None
