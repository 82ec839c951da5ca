"""Copies of part files on this machine, for states kept elsewhere: all workers map the same copy.

Part files have unique names and never change, so a copy is never out of date. Copies appear by rename and
vanish by unlink, which leaves those who have mapped them undisturbed; so workers need no locks. A copy that
was not used for some time is removed. The cache may always be lost, and a full disk only makes it useless.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from windrow.state.local import ASIDE

UNUSED = 1800.0
"""Seconds without use after which a copy goes."""


class Cache:
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
            self.directory.mkdir(parents=True, exist_ok=True)
            with aside.open("xb") as file:
                file.write(contents)
            aside.replace(self.directory / name)
        except OSError:
            with suppress(OSError):
                aside.unlink(missing_ok=True)

    def drop(self, name: str) -> None:
        with suppress(OSError):
            (self.directory / name).unlink(missing_ok=True)

    def trim(self) -> None:
        """Removes copies that nobody used for long, and what killed workers left half written."""
        latest = self._clock() - self.unused
        with suppress(OSError), os.scandir(self.directory) as listing:
            for item in listing:
                with suppress(OSError):
                    if item.stat().st_mtime < latest:
                        Path(item).unlink()

    def _mapped(self, name: str, size: int) -> pa.Buffer | None:
        path = self.directory / name
        try:
            now = self._clock()
            os.utime(path, (now, now))
            if path.stat().st_size != size or size == 0:
                return None
            return pa.memory_map(str(path)).read_buffer()
        except OSError:
            return None
