"""Copies of part files on this machine, for states kept elsewhere: all workers map the same copy.

Part files have unique names and never change, so a copy is never out of date. Copies appear by rename and
vanish by unlink, which leaves those who have mapped them undisturbed; so workers need no locks. A copy that
was not used for some time is removed. The cache may always be lost, and a full disk only makes it useless.

Whoever can write a copy can change windows, and whoever can read one sees rows: the directory is private, and
one that is not is done without. It is looked at with every use: a temporary directory that was cleaned up may
have been made anew by somebody else.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from windrow.state.local_storage import ASIDE
from windrow.state.private import is_private, private_directory

UNUSED = 1800.0
"""Seconds without use after which a copy goes."""


def cache_of_machine() -> Path:
    """Where this user's workers on this machine keep copies."""
    return Path(tempfile.gettempdir()) / f"windrow-parts-{os.geteuid()}"


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
    """

    def __init__(self, directory: Path, clock: Callable[[], float], unused: float = UNUSED) -> None:
        self.directory = directory
        self.unused = unused
        self._clock = clock

    def get(self, name: str, size: int, fetch: Callable[[], pa.Buffer]) -> pa.Buffer:
        """The contents of a part file, mapped; fetched if there is no copy of that size."""
        copy = self._mapped(name, size)
        if copy is not None:
            return copy
        contents = fetch()
        self.put(name, contents)
        return self._mapped(name, size) or contents

    def put(self, name: str, contents: pa.Buffer) -> None:
        """Keeps a copy, if the disk has room for it."""
        aside = self.directory / f"{ASIDE}{uuid4().hex}"
        try:
            if private_directory(self.directory) is None:
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
        """Removes copies that nobody used for long, and what killed workers left half written."""
        if not is_private(self.directory):
            return
        latest = self._clock() - self.unused
        with suppress(OSError), os.scandir(self.directory) as listing:
            for item in listing:
                with suppress(OSError):
                    if item.stat().st_mtime < latest:
                        Path(item).unlink()

    def _mapped(self, name: str, size: int) -> pa.Buffer | None:
        path = self.directory / name
        try:
            if not is_private(self.directory):
                return None
            now = self._clock()
            os.utime(path, (now, now))
            if path.stat().st_size != size or size == 0:
                return None
            return pa.memory_map(str(path)).read_buffer()
        except OSError:
            return None
