"""Arrays that begin with stored pieces, mapped from their files and followed by room for more.

A piece that fills whole pages is mapped in its place, privately: pages are read when they are touched, and
copied when they are written. Other pieces are copied.
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
        found = np.empty(capacity, dtype)
    else:
        region = mmap.mmap(-1, capacity * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        found = np.frombuffer(region, dtype)
    for at, piece in pieces.items():
        if at not in mapped or not _map(found.ctypes.data + at * dtype.itemsize, piece.nbytes, mapped[at]):
            found[at : at + len(piece)] = piece
    return found


def _fits(at: int, piece: Array, file: FilePlace) -> bool:
    return not any(n % mmap.PAGESIZE for n in (at * piece.itemsize, piece.nbytes, file.offset))


def _map(address: int, size: int, file: FilePlace) -> bool:
    """Maps a piece of a file over memory that the caller owns; false if the file is gone."""
    try:
        handle = os.open(file.path, os.O_RDONLY)
    except OSError:
        return False
    try:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        flags = mmap.MAP_PRIVATE | _MAP_FIXED
        return bool(_mmap()(address, size, access, flags, handle, file.offset) == address)
    finally:
        os.close(handle)


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
