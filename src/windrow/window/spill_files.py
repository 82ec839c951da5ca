"""Files that windows spill to.

They have no name, so no other user can open them, and the system frees them with their last use, however the
process ends. Their pages belong to the system, which writes them to disk and drops them as it needs memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import MADV_RANDOM
from typing import IO

import numpy as np
import pyarrow as pa

from windrow.errors import Option, StateError
from windrow.window.mapped_arrays import bytes_in_files, is_private, mapped_file

Array = np.ndarray
_ALIGNMENT = 64
_ZEROS = bytes(1 << 20)


class SpillFiles:
    """
    Parameters
    ----------
    directory
        On a local disk; by default the system's directory for temporary files.
    """

    def __init__(self, directory: str | None = None) -> None:
        self.directory = directory or tempfile.gettempdir()

    def store(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The same batches, mapped from a new file."""
        with self._file(sum(batch.nbytes for batch in batches)) as file:
            begins = []
            for batch in batches:
                file.write(bytes(-file.tell() % _ALIGNMENT))
                begins.append(file.tell())
                with pa.ipc.new_stream(pa.PythonFile(file, "w"), batch.schema) as writer:
                    writer.write_batch(batch)
            file.flush()
            region = mapped_file(file.fileno(), file.tell(), writable=False)
        # A result needs single rows: to read ahead of each would read most of the file.
        region.madvise(MADV_RANDOM)
        held = pa.py_buffer(region)
        return [pa.ipc.open_stream(held.slice(at)).read_next_batch() for at in begins]

    def empty(self, count: int, dtype: np.dtype) -> Array:
        """An array in a new file, of undefined values."""
        if count == 0:
            return np.empty(0, dtype)
        size = count * dtype.itemsize
        with self._file(size) as file:
            _allocate(file, size)
            return np.frombuffer(mapped_file(file.fileno(), size, writable=True), dtype)

    @contextmanager
    def _file(self, size: int) -> Iterator[IO[bytes]]:
        try:
            with tempfile.TemporaryFile(dir=self.directory) as file:
                yield file
        except (OSError, pa.ArrowException) as error:
            raise StateError(
                f"cannot spill {size:,} bytes of windows to {self.directory}: {error}. Free space there, "
                "name another directory (TMPDIR, or Spark's local directories), or give the windows more "
                "memory; then go on from the last snapshot or checkpoint",
                Option("disk"),
            ) from error


def new_array(files: SpillFiles | None, count: int, dtype: np.dtype) -> Array:
    """An array of undefined values, in memory or in a file."""
    return np.empty(count, dtype) if files is None else files.empty(count, dtype)


def moved_to_file(files: SpillFiles, array: Array, part: float) -> Array:
    """A copy of the array in a file; the array itself if at least this fraction of it is in files already."""
    if bytes_in_files(array) >= part * array.nbytes:
        return array
    found = files.empty(len(array), array.dtype)
    found[:] = array
    return found


def moved_down(files: SpillFiles | None, array: Array, shift: int, live: int, capacity: int) -> Array:
    """The `live` values from `shift` on, at the front of an array of this capacity. The array is reused if it
    has this capacity and may be written to."""
    fits = len(array) == capacity and not is_private(array)
    found = array if fits else new_array(files, capacity, array.dtype)
    found[:live] = array[shift : shift + live]
    return found


def _allocate(file: IO[bytes], size: int) -> None:
    """Reserves the blocks of a file: a page that finds none when it is written would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for at in range(0, size, len(_ZEROS)):
        file.write(_ZEROS[: size - at])
    file.flush()
