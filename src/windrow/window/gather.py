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

    __slots__ = ("addresses", "array", "nulls", "offset")

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        self.offset = array.offset
        self.nulls = array.null_count > 0
        self.addresses = [0 if buffer is None else buffer.address for buffer in array.buffers()]


def gather(chunks: Sequence[Chunk], places: RowLocations) -> pa.Array:
    """One column's values at `places`; `chunks` are the column in each segment."""
    kind = chunks[0].array.type
    if len(places) == 0:
        return pa.array([], kind)
    if pat.is_boolean(kind):
        return _array(kind, places, _validity(chunks, places), [_pack(_bits(chunks, places, 1))])
    width = _fixed_width(kind)
    if width:
        return _array(kind, places, _validity(chunks, places), [_fixed(chunks, places, width)])
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
        if (width := _fixed_width(kind)) and width <= 8:
            return _picked_fixed(chunks, picked, width)
        if pat.is_string(kind) or pat.is_binary(kind):
            return _picked_strings(chunks, picked)
    pairs = zip(chunks, picked, strict=True)
    taken = [c.array.take(pa.array(p.rows - p.first)) for c, p in pairs if len(p.rows)]
    return pa.concat_arrays(taken) if taken else pa.array([], kind)


def _picked_fixed(chunks: Sequence[Chunk], picked: Sequence[Picked], width: int) -> pa.Array:
    ends = np.cumsum([0, *(len(p.rows) for p in picked)]).tolist()
    out = _allocate(ends[-1], np.dtype(f"u{width}"))
    addresses = _addresses(chunks, 1, width).tolist()
    for address, p, a, b in zip(addresses, picked, ends[:-1], ends[1:], strict=True):
        gather_rows.pick_fixed(address, p.rows, p.first, out[a:b])
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


def _fixed_width(kind: pa.DataType) -> int:
    """Bytes per value of types with fixed-width values, else 0."""
    if not pat.is_primitive(kind) and not pat.is_decimal(kind):
        return 0
    width = int(kind.bit_width) // 8
    return width if width in (1, 2, 4, 8, 16, 32) else 0


def _allocate(count: int, dtype: np.dtype) -> Array:
    """A buffer for a result column from Arrow's pool, which keeps its pages between batches."""
    return np.frombuffer(pa.allocate_buffer(count * dtype.itemsize), dtype)


def _array(kind: pa.DataType, places: RowLocations, validity: Array | None, buffers: list[Array]) -> pa.Array:
    parts = [None if validity is None else pa.py_buffer(validity), *(pa.py_buffer(b) for b in buffers)]
    return pa.Array.from_buffers(kind, len(places), parts)


def _addresses(chunks: Sequence[Chunk], buffer: int, width: int) -> Array:
    """Address of the first value of each chunk's buffer; 0 where the chunk has none."""
    found = [(chunk.addresses[buffer], chunk.offset) for chunk in chunks]
    return np.array([address and address + width * offset for address, offset in found], np.int64)


def _bits(chunks: Sequence[Chunk], places: RowLocations, buffer: int) -> Array:
    out = np.empty(len(places), np.uint8)
    offsets = np.array([chunk.offset for chunk in chunks], np.int64)
    gather_rows.gather_bits(_addresses(chunks, buffer, 0), offsets, places.seg, places.row, out)
    return out


def _pack(bits: Array) -> Array:
    return np.packbits(bits, bitorder="little")


def _validity(chunks: Sequence[Chunk], places: RowLocations) -> Array | None:
    if not any(chunk.nulls for chunk in chunks):
        return None
    return _pack(_bits(chunks, places, 0))


def _fixed(chunks: Sequence[Chunk], places: RowLocations, width: int) -> Array:
    addresses = _addresses(chunks, 1, width)
    if width <= 8:
        out = _allocate(len(places), np.dtype(f"u{width}"))
        gather_rows.gather_fixed(addresses, places.seg, places.row, out)
        return out
    wide = _allocate(len(places) * width // 8, np.dtype(np.uint64))
    gather_rows.gather_wide(addresses, places.seg, places.row, wide.reshape(len(places), -1))
    return wide


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
    return _array(chunks[0].array.type, places, _validity(chunks, places), [offsets, data])


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
