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
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Array = np.ndarray
GRAIN = 4096
"""Rows that fill whole pages in columns of four bytes and of eight, also where a page has 16 KiB."""


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
        buffer = column.buffers()[1]
        address = 0 if buffer is None else buffer.address + column.offset * dtype.itemsize
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (len(column),),
            "typestr": dtype.str,
            "version": 3,
        }


def values_of(column: pa.Array) -> Array:
    """The values of a column of numbers without nulls, not copied. They must not be written to."""
    return np.asarray(_View(column)) if len(column) else np.empty(0, column.type.to_pandas_dtype())


def assembled(dtype: np.dtype, capacity: int, pieces: Mapping[int, Array], locate: Locate) -> Array:
    """An array of `capacity` values that has each piece at its position. What is between them is
    undefined."""
    files = {at: locate(piece.ctypes.data) for at, piece in pieces.items() if len(piece)}
    mapped = {at: file for at, file in files.items() if file and _fits(at, pieces[at], file)}
    if not mapped:
        found, region = np.empty(capacity, dtype), None
    else:
        region = _reserve(capacity * dtype.itemsize)
        found = np.frombuffer(region, dtype)
    for at, piece in pieces.items():
        address = found.ctypes.data + at * dtype.itemsize
        if region is not None and at in mapped and _map_stored(address, piece.nbytes, mapped[at]):
            region.in_files, region.private = region.in_files + piece.nbytes, True
        else:
            found[at : at + len(piece)] = piece
    return found


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


def _fits(at: int, piece: Array, file: FilePlace) -> bool:
    return not any(n % mmap.PAGESIZE for n in (at * piece.itemsize, piece.nbytes, file.offset))


def _map_stored(address: int, size: int, file: FilePlace) -> bool:
    """Maps a piece of a file privately; false if the file is gone."""
    try:
        handle = os.open(file.path, os.O_RDONLY)
    except OSError:
        return False
    try:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        return _map(address, size, access, mmap.MAP_PRIVATE, handle, file.offset)
    finally:
        os.close(handle)


def _map(address: int, size: int, access: int, flags: int, handle: int, offset: int) -> bool:
    """Maps a piece of a file over memory that the caller owns."""
    return bool(_mmap()(address, size, access, flags | _MAP_FIXED, handle, offset) == address)


_MAP_FIXED = 0x10
"""The same number on Linux and macOS; Python has no name for it."""


@cache
def _mmap() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    return function
