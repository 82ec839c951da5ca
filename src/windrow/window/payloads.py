"""Payloads and sets of rows, read from the segments of a window.

Rows are given by their positions; `moved` is the number of the row at position 0. Positions may be 32-bit
integers, which numbers exceed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.window.gather import Chunk, RowLocations, gather
from windrow.window.postings import unpack_sets
from windrow.window.segment import Segment

Array = np.ndarray


def gather_columns(
    segments: Sequence[Segment], moved: int, rows: Array, schema: pa.Schema, names: Sequence[str]
) -> list[pa.Array]:
    """Columns of these rows, in any order. A stored segment is read only if one of them is in it."""
    if not segments:
        return [pa.array([], schema.field(name).type) for name in names]
    places = _places(segments, moved, rows)
    if all(s.is_read for s in segments):
        chunks = [s.chunks for s in segments]
    else:
        # A segment that no row is in must not be read from its file only because it is there.
        used = set(np.unique(places.seg).tolist())
        nothing = {name: Chunk(pa.array([], schema.field(name).type)) for name in names}
        chunks = [s.chunks if s.is_read or k in used else nothing for k, s in enumerate(segments)]
    return gather([[of[name] for of in chunks] for name in names], places)


def columns_from(segments: Sequence[Segment], row: int, columns: Sequence[str]) -> list[pa.Array]:
    """Columns of the rows from number `row` on; there is one. Not copied if they are in one segment."""
    parts = [s for s in segments if s.end > row]
    first, found = max(0, row - parts[0].start), []
    for name in columns:
        chunks = [s.payload.column(name) for s in parts]
        chunks[0] = chunks[0].slice(first)
        found.append(chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks))
    return found


def gather_sets(
    segments: Sequence[Segment], moved: int, rows: Array, name: str
) -> tuple[Array, Array, Array]:
    """(starts, sizes, elements): the sets of this name of these rows."""
    if len(rows) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    low, high = int(rows.min()), int(rows.max()) + 1
    if high - low < len(rows):
        # Candidates repeat rows: each row is unpacked once.
        starts, sizes, elements = gather_sets(segments, moved, np.arange(low, high), name)
        return starts[rows - low], sizes[rows - low], elements
    return unpack_sets([s.sets[name] for s in segments], _places(segments, moved, rows))


def _places(segments: Sequence[Segment], moved: int, rows: Array) -> RowLocations:
    return RowLocations(rows, np.array([*(s.start for s in segments), segments[-1].end], np.int64) - moved)
