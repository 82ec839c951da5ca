"""Storage in a local directory, with durable and atomic commits.

A commit writes its files under unique temporary names and syncs them. Only then does it rename them, in
order, and sync the directories. A crash before the renames leaves temporary files, which cleanup removes. A
crash between renames leaves parts without a manifest or a manifest without a marker, and neither counts as
committed. Syncs run in parallel, because each one waits for the disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import IO, TypeVar
from uuid import uuid4

import pyarrow as pa

from windrow.state.storage import AtomicCommit, ByteWriter, Entry, Storage, refused_reads, refused_writes
from windrow.window.mapped_arrays import mapped_contents

ASIDE = ".aside-"
"""Prefix of temporary files."""
_BUFFER = 1 << 18
T = TypeVar("T")


class LocalStorage(Storage):
    local = True

    def __init__(self, directory: Path) -> None:
        super().__init__(str(directory))
        self.directory = directory

    @contextmanager
    def commit(self, what: str, where: str, replace: bool = True) -> Iterator[AtomicCommit]:
        files = _TempFiles(self.directory)
        with refused_writes(what, self.at(where)):
            try:
                yield files
                files.publish(replace)
            finally:
                files.discard()

    def create(self, path: str, data: bytes, what: str) -> None:
        with self.commit(what, path, replace=False) as commit:
            commit.open(path).write(data)

    def read(self, path: str) -> pa.Buffer:
        where = f"{self.directory}/{path}"
        with refused_reads(where):
            return mapped_contents(where)

    def entries(self, path: str, below: bool = False) -> list[Entry]:
        found = []
        for name in self.names(path, below):
            with suppress(FileNotFoundError):  # another worker may remove the file after the listing
                stat = (self.directory / path / name).stat()
                found.append(Entry(name, stat.st_size, stat.st_mtime, S_ISDIR(stat.st_mode)))
        return found

    def names(self, path: str, below: bool = False) -> list[str]:
        where = self.directory / path
        found = []
        with suppress(FileNotFoundError), refused_reads(str(where)), os.scandir(where) as listing:
            for item in listing:
                if below and item.is_dir():
                    found += [f"{item.name}/{name}" for name in self.names(f"{path}/{item.name}", below)]
                else:
                    found.append(item.name)
        return found

    def delete(self, path: str) -> None:
        (self.directory / path).unlink(missing_ok=True)

    def delete_tree(self, path: str) -> None:
        where = self.directory / path
        with suppress(FileNotFoundError), refused_reads(str(where)):
            shutil.rmtree(where)


@dataclass(frozen=True)
class _Written:
    file: IO[bytes]
    temporary: Path
    final: Path


class _TempFiles:
    """The files of one commit under temporary names, in the directories of their final names."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._written: list[_Written] = []

    def open(self, path: str) -> ByteWriter:
        final = self._directory / path
        make_directory(final.parent)
        temporary = final.with_name(f"{ASIDE}{uuid4().hex}")
        written = _Written(temporary.open("xb", buffering=_BUFFER), temporary, final)
        self._written.append(written)
        return written.file

    def publish(self, replace: bool) -> None:
        for written in self._written:
            written.file.flush()
        # An empty file has no contents to sync; syncing the directory makes its name durable.
        _in_parallel(os.fsync, [w.file.fileno() for w in self._written if w.file.tell()])
        for written in self._written:
            written.file.close()
            if replace:
                written.temporary.replace(written.final)
            else:
                _link(written.temporary, written.final)
        _in_parallel(sync_directory, list(dict.fromkeys(w.final.parent for w in self._written)))

    def discard(self) -> None:
        """Removes what was not published."""
        for written in self._written:
            with suppress(OSError):
                written.file.close()
            with suppress(OSError):
                written.temporary.unlink(missing_ok=True)


def make_directory(path: Path) -> None:
    """Creates a directory and its parents, durably."""
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


def _link(temporary: Path, final: Path) -> None:
    """Gives the file its final name unless a file of that name exists."""
    try:
        final.hardlink_to(temporary)
    except FileExistsError:
        return
    except OSError:
        # Some filesystems have no hard links. To replace the file is harmless: all tasks create the same.
        temporary.replace(final)


def _in_parallel(action: Callable[[T], object], items: Sequence[T]) -> None:
    with ThreadPoolExecutor(max(1, len(items))) as pool:
        list(pool.map(action, items))
