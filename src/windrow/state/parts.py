"""Parts of a state in files: each part is an Arrow stream of one batch, aligned for memory mapping.

A file holds the new parts of one commit, one after the other, and never changes. Each part has a checksum. A
cryptographic hash would be several times slower, and only accidental damage must be detected.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import pyarrow as pa

from windrow.errors import StateError
from windrow.kernels.checksum import Checksum, checksum
from windrow.state.storage import ByteWriter
from windrow.window.mapped_arrays import GRAIN

_ALIGNMENT = 64
_PAGE = 16_384
"""A multiple of every page size in use."""


class StoredPart(NamedTuple):
    """The place of a stored batch. Manifests hold it as a JSON list."""

    file: str
    offset: int
    bytes: int
    checksum: int
    rows: int
    crc32: bool = False
    """Whether the checksum is a CRC-32, as in manifests of format 6."""


class PartWriter:
    """Appends batches to a new file."""

    def __init__(self, file: str, sink: ByteWriter) -> None:
        self.file = file
        self.bytes = 0
        self._sink = sink
        self._checksum = Checksum()

    def append(self, batch: pa.RecordBatch) -> StoredPart:
        self.write(bytes(_padding(self.bytes, batch)))
        start, self._checksum = self.bytes, Checksum()
        with pa.ipc.new_stream(pa.PythonFile(self, "w"), batch.schema) as writer:
            writer.write_batch(batch)
        return StoredPart(self.file, start, self.bytes - start, self._checksum.value, batch.num_rows)

    def copy(self, contents: bytes, part: StoredPart) -> StoredPart:
        """Appends a part as it is stored elsewhere."""
        padding = -self.bytes % _ALIGNMENT
        self._sink.write(bytes(padding) + contents[part.offset : part.offset + part.bytes])
        self.bytes += padding + part.bytes
        return part._replace(file=self.file, offset=self.bytes - part.bytes)

    # The interface of pa.PythonFile. The commit flushes and closes all its files, so these do nothing.

    closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._checksum.update(view)
        self._sink.write(view)
        self.bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None: ...

    def close(self) -> None: ...


def _padding(at: int, batch: pa.RecordBatch) -> int:
    """Bytes to leave out before a batch. Columns of blocks begin at pages, so that they can be mapped side by
    side; other batches are aligned for any type."""
    if batch.num_rows == 0 or batch.num_rows % GRAIN:
        return -at % _ALIGNMENT
    described = batch.schema.serialize().size + pa.ipc.get_record_batch_size(batch) - batch.nbytes
    return -(at + described) % _PAGE


def read_part(contents: pa.Buffer, part: StoredPart, where: str) -> pa.RecordBatch:
    """The batch of a part, verified. Its columns are views of `contents`."""
    verify_part(contents, part, where)
    return open_part(contents, part, where)


def verify_part(contents: pa.Buffer, part: StoredPart, where: str) -> None:
    stored = contents.slice(part.offset, part.bytes)
    if (zlib.crc32(stored) if part.crc32 else checksum(stored)) != part.checksum:
        raise StateError(damaged(where, f"checksum of the part at byte {part.offset} differs"))


def open_part(contents: pa.Buffer, part: StoredPart, where: str) -> pa.RecordBatch:
    """The batch of a part. Only its description is read."""
    try:
        batch = pa.ipc.open_stream(contents.slice(part.offset, part.bytes)).read_next_batch()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise StateError(damaged(where, f"part at byte {part.offset} cannot be read: {error}")) from error
    if batch.num_rows != part.rows:
        raise StateError(damaged(where, f"checksum of the part at byte {part.offset} differs"))
    return batch


def check_size(contents: pa.Buffer, written: int, where: str) -> None:
    if contents.size != written:
        raise StateError(damaged(where, f"it has {contents.size} bytes, {written} were written"))


def damaged(where: str, how: str) -> str:
    return (
        f"state file {where} is damaged: {how}. Put it back from a copy of the state directory, or start "
        "the query with a new checkpoint; `windrow state verify` lists all damage"
    )
