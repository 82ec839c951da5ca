"""Arrays whose memory is mapped from files, in part or as a whole.

An array of stored rows begins with stored pieces and has room for more. A piece that fills whole pages is
mapped in its place, privately: pages are read when they are touched, and copied when they are written. Other
pieces are copied. A spilled array is mapped as a whole, and what is written to it goes to its file.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

Array = np.ndarray
GRAIN = 4096
"""Rows that fill whole pages in columns of four bytes and of eight, also where a page has 16 KiB."""
_LARGE_PAGE = 1 << 21


class FilePlace(NamedTuple):
    path: str
    offset: int


Locate = Callable[[int], FilePlace | None]
"""Where the bytes at an address are stored in a local file; None if they are not."""


def not_in_a_file(address: int) -> FilePlace | None:
    return None


class Region(mmap.mmap):
    """The memory of an array."""

    in_files = 0
    """Bytes that are mapped from files."""
    private = False
    """Whether a page that is written becomes a copy in memory."""


def _region(array: Array) -> Region | None:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    held = getattr(owner.base, "obj", None)
    return held if isinstance(held, Region) else None


def bytes_in_files(array: Array) -> int:
    """Bytes of an array that are mapped from files."""
    region = _region(array)
    return 0 if region is None else region.in_files


def is_private(array: Array) -> bool:
    """Whether stored rows are mapped privately. They must not be written to: each page would be copied."""
    region = _region(array)
    return region is not None and region.private


class _View:
    """Lets numpy use a buffer's memory without a copy. The array counts as writable although the memory may
    not be: kernels are compiled once, for arrays of this kind. Nothing writes to it."""

    def __init__(self, column: pa.Array) -> None:
        self._column = column
        dtype = np.dtype(column.type.to_pandas_dtype())
        self.__array_interface__ = {
            "data": (_address(column), False),
            "shape": (len(column),),
            "typestr": dtype.str,
            "version": 3,
        }


def values_of(column: pa.Array) -> Array:
    """The values of a column of numbers without nulls, not copied. They must not be written to."""
    return np.asarray(_View(column)) if len(column) else np.empty(0, column.type.to_pandas_dtype())


def _address(column: pa.Array) -> int:
    buffer = column.buffers()[1]
    return 0 if buffer is None else int(buffer.address + column.offset * column.type.byte_width)


def on_large_pages(count: int, dtype: DTypeLike) -> Array:
    """An array of undefined values that begins at a large page, if it fills one. The small pages at the edges
    of other arrays take longer to provide than to fill."""
    width = np.dtype(dtype).itemsize
    if count * width < _LARGE_PAGE:
        return np.empty(count, dtype)
    room = np.empty(count + _LARGE_PAGE // width, dtype)
    begin = -room.ctypes.data % _LARGE_PAGE // width
    return room[begin : begin + count]


def assembled(capacity: int, pieces: Mapping[int, pa.RecordBatch], locate: Locate) -> dict[str, Array]:
    """Arrays of `capacity` values, by name, that have the columns of each piece at its position. These are
    numbers without nulls. What is between the pieces is undefined."""
    names = next(iter(pieces.values())).schema.names if pieces else ()
    with _Handles() as handles:
        return {
            name: _assembled(
                capacity, {at: piece.column(name) for at, piece in pieces.items()}, locate, handles
            )
            for name in names
        }


def _assembled(capacity: int, pieces: Mapping[int, pa.Array], locate: Locate, handles: _Handles) -> Array:
    kind = next(iter(pieces.values())).type
    dtype, width = np.dtype(kind.to_pandas_dtype()), kind.byte_width
    files = {at: locate(_address(piece)) for at, piece in pieces.items() if len(piece)}
    fits = {
        at: file
        for at, file in files.items()
        if file and not (at * width | len(pieces[at]) * width | file.offset) % mmap.PAGESIZE
    }
    if not fits:
        found, region, begin = np.empty(capacity, dtype), None, 0
    else:
        region = _reserve(capacity * width)
        found = np.frombuffer(region, dtype)
        begin = found.ctypes.data
    for at, piece in pieces.items():
        size = len(piece) * width
        if region is not None and at in fits and handles.map(begin + at * width, size, fits[at]):
            region.in_files, region.private = region.in_files + size, True
        else:
            found[at : at + len(piece)] = values_of(piece)
    return found


class _Handles:
    """Files that stay open until all pieces of some arrays are mapped."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._open.values():
            os.close(handle)

    def map(self, address: int, size: int, file: FilePlace) -> bool:
        """Maps a piece of a file privately; false if the file is gone."""
        if file.path not in self._open:
            try:
                self._open[file.path] = os.open(file.path, os.O_RDONLY)
            except OSError:
                return False
        access = mmap.PROT_READ | mmap.PROT_WRITE
        return _map(address, size, access, mmap.MAP_PRIVATE, self._open[file.path], file.offset)


class _Mapping:
    """Memory that is mapped where the system wants it, which may give it large pages."""

    def __init__(self, handle: int, size: int) -> None:
        self.size = size
        self.address = _system("mmap")(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
        if self.address in (None, _FAILED):
            self.size = 0
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def __del__(self) -> None:
        if self.size:
            _system("munmap")(self.address, self.size)


def mapped_contents(path: str) -> pa.Buffer:
    """The contents of a file, mapped without a handle that stays open. Nothing is read ahead."""
    handle = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(handle).st_size
        if not size:  # an empty file cannot be mapped
            return pa.py_buffer(b"")
        mapping = _Mapping(handle, size)
        return pa.foreign_buffer(mapping.address, size, mapping)
    finally:
        os.close(handle)


def mapped_file(handle: int, size: int, writable: bool) -> Region:
    """All of a file, which must not be empty, as memory. The handle may be closed."""
    region = _reserve(size)
    access, flags = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0), mmap.MAP_SHARED
    if not _map(np.frombuffer(region, np.uint8).ctypes.data, size, access, flags, handle, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    region.in_files = size
    return region


def _reserve(size: int) -> Region:
    return Region(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _map(address: int, size: int, access: int, flags: int, handle: int, offset: int) -> bool:
    """Maps a piece of a file over memory that the caller owns."""
    return bool(_system("mmap")(address, size, access, flags | _MAP_FIXED, handle, offset) == address)


_MAP_FIXED = 0x10
"""The same number on Linux and macOS; Python has no name for it."""


_FAILED = ctypes.c_void_p(-1).value
_ARGUMENTS = {
    "mmap": (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
    "munmap": (ctypes.c_void_p, ctypes.c_size_t),
}


@cache
def _system(name: str) -> Any:
    """A function of the system's library. Python's own mmap keeps a handle for every file."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.argtypes = _ARGUMENTS[name]
    function.restype = ctypes.c_void_p if name == "mmap" else ctypes.c_int
    return function
