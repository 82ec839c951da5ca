"""Storage of states: a local directory, or a URL that pyarrow or fsspec can open.

Files are written in commits. A commit makes its files visible in the order in which they were opened. When it
returns, all of them are durable. If it fails, no file is incomplete and no earlier file has changed, except
those that it had already replaced.
"""

from __future__ import annotations

import errno
import importlib
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from windrow.errors import StateError
from windrow.redaction import cause, redacted

FETCHING = 8
"""Files that are fetched at the same time."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_DELAYED = "allow_delayed_open"
_SPARK_SCHEMES = {"s3a": "s3", "s3n": "s3"}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Entry:
    """A file or directory in a listing."""

    name: str
    bytes: int
    modified: float
    """Seconds since 1970; infinite if the storage does not know, so that the file counts as young."""
    is_directory: bool = False


def side_by_side(action: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """The action's results, in order."""
    if min(threads, len(items)) < 2:
        return [action(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(action, items))


class ByteWriter(Protocol):
    def write(self, data: Any, /) -> Any: ...


class AtomicCommit(Protocol):
    def open(self, path: str) -> ByteWriter:
        """A new file. It replaces a file of the same name when the commit ends."""
        ...


class Storage(ABC):
    """A directory of states. Paths are relative to it, with slashes."""

    local: bool

    def __init__(self, url: str) -> None:
        self.url = redacted(url)
        """For messages, without credentials."""

    def __str__(self) -> str:
        return self.url

    def at(self, path: str) -> str:
        """A path as messages show it."""
        return f"{self.url.rstrip('/')}/{path}"

    @abstractmethod
    def commit(self, what: str, where: str) -> AbstractContextManager[AtomicCommit]:
        """A context manager that yields an `AtomicCommit`. Error messages name `what` and the path
        `where`."""

    @abstractmethod
    def create(self, path: str, data: bytes, what: str) -> None:
        """Writes a file unless it exists."""

    @abstractmethod
    def read(self, path: str) -> pa.Buffer:
        """The contents of a file, mapped if it is local. Raises FileNotFoundError if it does not exist."""

    @abstractmethod
    def entries(self, path: str, below: bool = False) -> list[Entry]:
        """The entries of a directory; none if it does not exist. If `below`, all files below it, named by
        their paths relative to it."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Removes a file if it exists."""

    @abstractmethod
    def delete_tree(self, path: str) -> None:
        """Removes a directory and everything in it, if it exists."""

    def names(self, path: str, below: bool = False) -> list[str]:
        return [entry.name for entry in self.entries(path, below)]


@contextmanager
def refused_writes(what: str, where: str) -> Iterator[None]:
    """Turns a failed write, such as on a full disk, into a StateError with the remedy."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        code = getattr(error, "errno", None)
        remedy = (
            "free some space"
            if code in _FULL
            else "make the directory writable"
            if code in _REFUSED
            else "fix the cause"
        )
        raise StateError(
            f"cannot write {what} to {where}: {error}. Nothing is lost: the version before it is intact; "
            f"{remedy} and start the query again from its checkpoint"
        ) from cause(error)


@contextmanager
def refused_reads(where: str) -> Iterator[None]:
    """Turns a failed read into a StateError that names the path. A missing file stays a FileNotFoundError."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), where) from None
    except (OSError, pa.ArrowException) as error:
        raise StateError(
            f"cannot read the state in {where}: {error}. Nothing is lost; fix the cause and start the query "
            "again from its checkpoint"
        ) from cause(error)


@contextmanager
def _any_error() -> Iterator[None]:
    """Turns any error into an OSError: filesystems of fsspec raise the errors of their own libraries."""
    try:
        yield
    except (OSError, pa.ArrowException):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


class ArrowStorage(Storage):
    """Storage behind a pyarrow filesystem. A file is written under its final name in one piece. Object stores
    do this atomically; on other filesystems a reader detects an incomplete file by its checksum."""

    local = False

    def __init__(self, url: str, filesystem: Any, base: str) -> None:
        super().__init__(url.partition("?")[0])
        self._fs = filesystem
        self._base = base.rstrip("/")

    @contextmanager
    def commit(self, what: str, where: str) -> Iterator[AtomicCommit]:
        pending = Pending()
        yield pending
        for path, sink in pending.files.items():
            self._put(path, sink.getvalue(), what)

    def create(self, path: str, data: bytes, what: str) -> None:
        if self._there(path):
            return
        handler = getattr(self._fs, "handler", None)
        if not isinstance(handler, fs.FSSpecHandler):
            # pyarrow has no conditional create. If two create the file at once, the last one stays.
            self._put(path, pa.py_buffer(data), what)
            return

        def write(full: str) -> None:
            with suppress(FileExistsError):
                handler.fs.pipe_file(full, data, mode="create")

        self._with_directory(path, write, what)

    def read(self, path: str) -> pa.Buffer:
        with (
            refused_reads(self.at(path)),
            _any_error(),
            self._fs.open_input_file(self._full(path)) as source,
        ):
            return source.read_buffer()

    def entries(self, path: str, below: bool = False) -> list[Entry]:
        full = self._full(path)
        with refused_reads(self.at(path)), _any_error():
            found = self._fs.get_file_info(fs.FileSelector(full, allow_not_found=True, recursive=below))
        return [
            Entry(_below(full, i), i.size or 0, _modified(i.mtime_ns), i.type == fs.FileType.Directory)
            for i in found
            if not (below and i.type == fs.FileType.Directory)
        ]

    def delete(self, path: str) -> None:
        try:
            with _any_error():
                self._fs.delete_file(self._full(path))
        except FileNotFoundError:
            pass
        except (OSError, pa.ArrowException) as error:
            if self._there(path):
                raise StateError(
                    f"cannot remove {self.at(path)}: {error}. Nothing is lost; fix the cause and start the "
                    "query again from its checkpoint"
                ) from cause(error)

    def delete_tree(self, path: str) -> None:
        with refused_reads(self.at(path)), suppress(FileNotFoundError), _any_error():
            self._fs.delete_dir(self._full(path))

    def _there(self, path: str) -> bool:
        with refused_reads(self.at(path)), _any_error():
            return bool(self._fs.get_file_info(self._full(path)).type != fs.FileType.NotFound)

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}".rstrip("/")

    def _put(self, path: str, data: pa.Buffer, what: str) -> None:
        def write(full: str) -> None:
            with self._fs.open_output_stream(full) as sink:
                sink.write(data)

        self._with_directory(path, write, what)

    def _with_directory(self, path: str, write: Callable[[str], None], what: str) -> None:
        """Writes a file, and makes its directory if it must. Object stores need none."""
        full = self._full(path)
        with refused_writes(what, self.at(path)), _any_error():
            try:
                write(full)
            except FileNotFoundError:
                self._fs.create_dir(full.rpartition("/")[0], recursive=True)
                write(full)


def _below(directory: str, found: fs.FileInfo) -> str:
    """The path of a file below a directory. Filesystems may show the directory's with a leading slash."""
    return str(found.path).removeprefix(directory).removeprefix(f"/{directory}").lstrip("/")


def _modified(nanoseconds: int | None) -> float:
    return nanoseconds / 1e9 if nanoseconds else math.inf


class Pending:
    """The files of a commit, in memory until the commit ends."""

    def __init__(self) -> None:
        self.files: dict[str, pa.BufferOutputStream] = {}

    def open(self, path: str) -> ByteWriter:
        self.files[path] = pa.BufferOutputStream()
        return self.files[path]


def open_storage(root: str | Storage) -> Storage:
    """The storage at a path or URL.

    >>> open_storage("file:///data/states").url
    '/data/states'
    """
    from windrow.state.local_storage import LocalStorage

    if isinstance(root, Storage):
        return root
    scheme = _SCHEME.match(root)
    if scheme is None:
        return LocalStorage(Path(root).expanduser().absolute())
    if scheme[1].lower() == "file":
        return LocalStorage(Path(unquote(urlsplit(root).path)))
    return ArrowStorage(root, *open_filesystem(root))


def open_filesystem(url: str, what: str = "the state path") -> tuple[Any, str]:
    """The filesystem of a URL, and the path in it. `what` is what error messages call it."""
    scheme = _SCHEME.match(url)
    assert scheme is not None, url
    name = _SPARK_SCHEMES.get(scheme[1].lower(), scheme[1])
    url = known = name + url[scheme.end(1) :]
    if name == "s3" and _DELAYED not in url:
        # Without it a small file takes three requests: to begin an upload, to send its part, and to end it.
        known += f"{'&' if '?' in url else '?'}{_DELAYED}=true"
    try:
        filesystem, base = fs.FileSystem.from_uri(known)
    except (ValueError, OSError, ImportError) as refused:
        filesystem, base = _through_fsspec(url, refused, what)
    return filesystem, base


def check_reachable(root: str) -> None:
    """Raise a StateError if nothing can be stored under this path. Writes nothing. What is behind a URL only
    the workers need to reach."""
    if (scheme := _SCHEME.match(root)) is not None and scheme[1].lower() != "file":
        return
    path = Path(open_storage(root).url)
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise StateError(f"cannot store windows under {path}: {there} is not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise StateError(f"cannot store windows under {path}: {there} is not writable; give another path")


def _through_fsspec(url: str, refused: Exception, what: str) -> tuple[Any, str]:
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise StateError(
            f"cannot open {what} {url!r}: {refused}; give a local path or a URL that pyarrow "
            "understands (file, s3, gs, abfs, hdfs), or install fsspec for others"
        ) from cause(refused)
    try:
        # A cached listing would hide what other workers have published.
        filesystem, base = core.url_to_fs(url, use_listings_cache=False)
    except (ValueError, OSError, ImportError) as error:
        raise StateError(f"cannot open {what} {url!r}: {error}") from cause(error)
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), base
