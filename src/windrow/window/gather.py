"""Builds result columns: gathers the payload of chosen rows from their segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from windrow.kernels import gather_rows

Array = np.ndarray
_INT32_MAX = 2**31 - 1


class RowLocations:
    """For each of a batch of result rows, its segment and its row there."""

    def __init__(self, positions: Array, starts: Array) -> None:
        self.seg = np.empty(len(positions), np.int32)
        self.row = np.empty(len(positions), np.int32)
        gather_rows.locate(positions, starts, self.seg, self.row)

    def __len__(self) -> int:
        return len(self.seg)


class Chunk:
    """A column of a segment, with the properties that building results needs."""

    __slots__ = ("addresses", "array", "nulls", "offset", "values", "width")

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        self.offset = array.offset
        self.nulls = array.null_count > 0
        self.addresses = [0 if buffer is None else buffer.address for buffer in array.buffers()]
        self.width = fixed_width(array.type)
        """Bytes per value; 0 if it is not fixed."""
        self.values = self.addresses[1] + self.width * self.offset if self.width else 0
        """Address of the first value, if values have a fixed width."""


def gather(columns: Sequence[Sequence[Chunk]], places: RowLocations) -> list[pa.Array]:
    """The columns' values at `places`; a column is its chunk in each segment."""
    if len(places) == 0:
        return [pa.array([], chunks[0].array.type) for chunks in columns]
    narrow = [chunks for chunks in columns if 0 < chunks[0].width <= 8]
    values = iter(_narrow(narrow, places))
    return [
        _array(chunks, places, [next(values)]) if 0 < chunks[0].width <= 8 else _gather(chunks, places)
        for chunks in columns
    ]


def _narrow(columns: Sequence[Sequence[Chunk]], places: RowLocations) -> list[pa.Buffer]:
    """Values of up to eight bytes. One call gathers all columns: a few rows take less time than a call."""
    widths = [chunks[0].width for chunks in columns]
    buffers = [pa.allocate_buffer(width * len(places)) for width in widths]
    if columns:
        sources = np.array([[chunk.values for chunk in chunks] for chunks in columns], np.int64)
        targets = np.array([[buffer.address for buffer in buffers], widths], np.int64)
        gather_rows.gather_narrow(sources, targets, places.seg, places.row)
    return buffers


def _gather(chunks: Sequence[Chunk], places: RowLocations) -> pa.Array:
    kind = chunks[0].array.type
    if pat.is_boolean(kind):
        return _array(chunks, places, [_pack(_bits(chunks, places, 1))])
    if chunks[0].width:
        return _array(chunks, places, [_wide(chunks, places)])
    if pat.is_string(kind) or pat.is_binary(kind):
        return _strings(chunks, places, np.dtype(np.int32))
    if pat.is_large_string(kind) or pat.is_large_binary(kind):
        return _strings(chunks, places, np.dtype(np.int64))
    return _by_take(chunks, places)


@dataclass(frozen=True)
class Picked:
    """Rows of one chunk, ascending: those at `rows`, where `first` is the chunk's first row."""

    rows: Array
    first: int


def pick(chunks: Sequence[Chunk], picked: Sequence[Picked]) -> pa.Array:
    """One column's values of the picked rows, chunk after chunk.

    Faster than `gather`, which takes rows in any order; these are in the order of the chunks.
    """
    kind = chunks[0].array.type
    if not any(chunk.nulls for chunk in chunks):
        if 0 < (width := chunks[0].width) <= 8:
            return _picked_fixed(chunks, picked, width)
        if pat.is_string(kind) or pat.is_binary(kind):
            return _picked_strings(chunks, picked)
    pairs = zip(chunks, picked, strict=True)
    taken = [c.array.take(pa.array(p.rows - p.first)) for c, p in pairs if len(p.rows)]
    return pa.concat_arrays(taken) if taken else pa.array([], kind)


def _picked_fixed(chunks: Sequence[Chunk], picked: Sequence[Picked], width: int) -> pa.Array:
    ends = np.cumsum([0, *(len(p.rows) for p in picked)]).tolist()
    out = _allocate(ends[-1], np.dtype(f"u{width}"))
    for chunk, p, a, b in zip(chunks, picked, ends[:-1], ends[1:], strict=True):
        gather_rows.pick_fixed(chunk.values, p.rows, p.first, out[a:b])
    return pa.Array.from_buffers(chunks[0].array.type, ends[-1], [None, pa.py_buffer(out)])


def _picked_strings(chunks: Sequence[Chunk], picked: Sequence[Picked]) -> pa.Array:
    count = sum(len(p.rows) for p in picked)
    offsets = _allocate(count + 1, np.dtype(np.int32))
    offsets[0] = total = done = 0
    places = list(zip(_addresses(chunks, 1, 4).tolist(), _addresses(chunks, 2, 0).tolist(), strict=True))
    parts = []
    for (address, _), p in zip(places, picked, strict=True):
        ends = offsets[done + 1 : done + 1 + len(p.rows)]
        parts.append((total, ends))
        total = gather_rows.pick_lengths(address, p.rows, p.first, total, ends)
        done += len(p.rows)
    if total > _INT32_MAX:
        raise pa.ArrowCapacityError(f"a column of {count} rows has {total} bytes of text")
    data = _allocate(total, np.dtype(np.uint8))
    for (address, source), p, (begin, ends) in zip(places, picked, parts, strict=True):
        gather_rows.pick_bytes(address, source, p.rows, p.first, begin, ends, data)
    return pa.Array.from_buffers(
        chunks[0].array.type, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def fixed_width(kind: pa.DataType) -> int:
    """Bytes per value of types with fixed-width values, else 0."""
    if not pat.is_primitive(kind) and not pat.is_decimal(kind):
        return 0
    width = int(kind.bit_width) // 8
    return width if width in (1, 2, 4, 8, 16, 32) else 0


def _allocate(count: int, dtype: np.dtype) -> Array:
    """A buffer for a result column from Arrow's pool, which keeps its pages between batches."""
    return np.frombuffer(pa.allocate_buffer(count * dtype.itemsize), dtype)


def _array(chunks: Sequence[Chunk], places: RowLocations, buffers: Sequence[pa.Buffer]) -> pa.Array:
    """The column with these buffers, after that of its validity."""
    return pa.Array.from_buffers(chunks[0].array.type, len(places), [_validity(chunks, places), *buffers])


def _addresses(chunks: Sequence[Chunk], buffer: int, width: int) -> Array:
    """Address of the first value of each chunk's buffer; 0 where the chunk has none."""
    found = [(chunk.addresses[buffer], chunk.offset) for chunk in chunks]
    return np.array([address and address + width * offset for address, offset in found], np.int64)


def _bits(chunks: Sequence[Chunk], places: RowLocations, buffer: int) -> Array:
    out = np.empty(len(places), np.uint8)
    offsets = np.array([chunk.offset for chunk in chunks], np.int64)
    gather_rows.gather_bits(_addresses(chunks, buffer, 0), offsets, places.seg, places.row, out)
    return out


def _pack(bits: Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def _validity(chunks: Sequence[Chunk], places: RowLocations) -> pa.Buffer | None:
    if not any(chunk.nulls for chunk in chunks):
        return None
    return _pack(_bits(chunks, places, 0))


def _wide(chunks: Sequence[Chunk], places: RowLocations) -> pa.Buffer:
    """Values of 16 or 32 bytes."""
    buffer = pa.allocate_buffer(chunks[0].width * len(places))
    out = np.frombuffer(buffer, np.uint64).reshape(len(places), -1)
    sources = np.array([chunk.values for chunk in chunks], np.int64)
    gather_rows.gather_wide(sources, places.seg, places.row, out)
    return buffer


def _strings(chunks: Sequence[Chunk], places: RowLocations, offset_type: np.dtype) -> pa.Array:
    found = np.empty(len(places), np.int64)
    ends = np.empty(len(places) + 1, np.int64)
    sources = (_addresses(chunks, 1, offset_type.itemsize), _addresses(chunks, 2, 0))
    total = gather_rows.find_strings(*sources, places.seg, places.row, np.empty(0, offset_type), found, ends)
    if offset_type.itemsize == 4 and total > _INT32_MAX:
        raise pa.ArrowCapacityError(f"a column of {len(places)} results has {total} bytes of text")
    offsets = _allocate(len(ends), offset_type)
    offsets[:] = ends
    data = _allocate(total, np.dtype(np.uint8))
    gather_rows.gather_bytes(found, ends, data)
    return _array(chunks, places, [pa.py_buffer(offsets), pa.py_buffer(data)])


def _by_take(chunks: Sequence[Chunk], places: RowLocations) -> pa.Array:
    """For nested and other types: takes rows from each segment, then restores the order."""
    order = np.argsort(places.seg, kind="stable")
    ends = np.searchsorted(places.seg[order], np.arange(len(chunks) + 1))
    pieces = [
        chunk.array.take(pa.array(places.row[order[a:b]]))
        for chunk, a, b in zip(chunks, ends[:-1], ends[1:], strict=True)
        if a < b
    ]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(pa.array(back))
