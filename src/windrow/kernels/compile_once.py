"""A kernel that several processes need at the same time is compiled by one of them. The others wait for it
and load it from the cache on disk.

Numba would let each compile it: Spark's workers begin together, and all cores would do the same for seconds.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

WAIT, PAUSE = 60.0, 0.02
"""Seconds after which a process compiles anyway, as the other may have been stopped, and between attempts."""
LOCKS = "compiling.lock"
"""A file in the cache, of which each function locks a byte of its own. The system unlocks what a process that
dies has locked."""


def compile_once(package: str) -> None:
    """Makes the processes of this machine take turns at compiling each function of the package."""
    inherited = Dispatcher.compile

    def compile_in_turn(self: Any, signature: Any) -> Any:
        if not self.py_func.__module__.startswith(package) or not isinstance(self._cache, FunctionCache):
            return inherited(self, signature)
        # Within a process one thread compiles at a time, and takes turns in the order of calls, callers
        # first. So no two processes wait for each other.
        with global_compiler_lock, _turn(self._cache.cache_path, self.py_func.__qualname__):
            return inherited(self, signature)

    # Numba has no hook for this, and its method is typed as fixed.
    Dispatcher.compile = compile_in_turn  # type: ignore[method-assign, assignment]


@contextmanager
def _turn(directory: str, name: str) -> Iterator[None]:
    place, until = crc32(name.encode()) >> 1, time.monotonic() + WAIT
    with suppress(OSError):  # a file system without locks, or a cache that cannot be written
        while not _locked(_opened(directory), place) and time.monotonic() < until:
            time.sleep(PAUSE)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.lockf(_opened(directory), fcntl.LOCK_UN, 1, place)


def _locked(file: int, place: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        return False
    return True


@cache
def _opened(directory: str) -> int:
    """Never closed: closing would unlock everything that the process has locked in the file."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    return os.open(Path(directory) / LOCKS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
