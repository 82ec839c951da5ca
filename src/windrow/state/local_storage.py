"""States in a local directory: durable, atomic commits.

Contents are written aside under unique names and synced; only when all are safe are they renamed, in order;
then the directories are synced. A sync waits for the disk and not for the processor, and the disk takes
several at a time: so the files are synced together, then the directories.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar
from uuid import uuid4

import pyarrow as pa

from windrow.state.storage import AtomicCommit, ByteWriter, Entry, Storage, refused_reads, refused_writes

ASIDE = ".aside-"
"""How the names of files begin that are still being written."""
_BUFFER = 1 << 18
T = TypeVar("T")


class LocalStorage(Storage):
    local = True

    def __init__(self, directory: Path) -> None:
        super().__init__(str(directory))
        self.directory = directory

    @contextmanager
    def commit(self, what: str, where: str) -> Iterator[AtomicCommit]:
        files = _TempFiles(self.directory)
        with refused_writes(what, self.at(where)):
            try:
                yield files
                files.publish()
            finally:
                files.discard()

    def create(self, path: str, data: bytes, what: str) -> None:
        files = _TempFiles(self.directory)
        with refused_writes(what, self.at(path)):
            try:
                files.open(path).write(data)
                files.publish(replace=False)
            finally:
                files.discard()

    def read(self, path: str) -> pa.Buffer:
        where = self.directory / path
        with refused_reads(str(where)):
            if where.stat().st_size == 0:  # an empty file cannot be mapped
                return pa.py_buffer(b"")
            return pa.memory_map(str(where)).read_buffer()

    def entries(self, path: str) -> list[Entry]:
        found = []
        where = self.directory / path
        with suppress(FileNotFoundError), refused_reads(str(where)), os.scandir(where) as listing:
            for item in listing:
                with suppress(FileNotFoundError):  # removed by another worker meanwhile
                    stat = item.stat()
                    found.append(Entry(item.name, stat.st_size, stat.st_mtime, item.is_dir()))
        return found

    def names(self, path: str) -> list[str]:
        where = self.directory / path
        with suppress(FileNotFoundError), refused_reads(str(where)):
            return [item.name for item in where.iterdir()]
        return []

    def delete(self, path: str) -> None:
        (self.directory / path).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Written:
    file: IO[bytes]
    aside: Path
    final: Path


class _TempFiles:
    """Files of one commit, beside the names they are to have."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._written: list[_Written] = []

    def open(self, path: str) -> ByteWriter:
        final = self._directory / path
        make_directory(final.parent)
        aside = final.with_name(f"{ASIDE}{uuid4().hex}")
        written = _Written(aside.open("xb", buffering=_BUFFER), aside, final)
        self._written.append(written)
        return written.file

    def publish(self, replace: bool = True) -> None:
        for written in self._written:
            written.file.flush()
        # An empty file has no contents to sync; its name is synced with the directory.
        full = [w.file.fileno() for w in self._written if w.file.tell()]
        _at_once(os.fsync, full)
        for written in self._written:
            written.file.close()
            if replace:
                written.aside.replace(written.final)
            else:
                _link(written.aside, written.final)
        _at_once(sync_directory, dict.fromkeys(w.final.parent for w in self._written))

    def discard(self) -> None:
        """Removes what was not published."""
        for written in self._written:
            with suppress(OSError):
                written.file.close()
            with suppress(OSError):
                written.aside.unlink(missing_ok=True)


def make_directory(path: Path) -> None:
    """Makes a directory that lasts, with its parents."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link(aside: Path, final: Path) -> None:
    """Gives the file its name unless another has it."""
    try:
        final.hardlink_to(aside)
    except FileExistsError:
        return
    except OSError:
        # Some filesystems know no links. Whoever creates a file writes the same as all others.
        aside.replace(final)


def _at_once(action: Callable[[T], object], items: Iterable[T]) -> None:
    todo = list(items)
    if len(todo) < 2:
        for item in todo:
            action(item)
        return
    with ThreadPoolExecutor(len(todo)) as pool:
        for done in [pool.submit(action, item) for item in todo]:
            done.result()
