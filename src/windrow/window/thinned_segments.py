"""Segments that have lost some of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from windrow.kernels import window_arrays
from windrow.window.gather import Picked, pick
from windrow.window.segment import Payload, Segment
from windrow.window.spill_files import SpillFiles

Array = np.ndarray
_LARGEST = 1 << 30
"""Maximum bytes of a merged segment: Arrow's string offsets have 31 bits."""


def thinned(
    segments: Sequence[Segment],
    positions: Array,
    ts: Array,
    moved: int,
    end: int,
    files: SpillFiles | None,
    largest: int,
) -> list[Segment]:
    """The segments with just the rows at `positions`, numbered from the window's end on. Neighbours that lose
    rows are merged: a few large copies are faster than many small ones. Segments that lose none stay as they
    are.

    Parameters
    ----------
    ts
        Times of the window's rows, by position.
    moved
        The number of the row at position 0.
    end
        The window's end, as a position.
    files
        Where copied payloads go; None keeps them in memory.
    largest
        The most bytes of segments that are copied at once.
    """
    places = np.searchsorted(positions, [*(s.start - moved for s in segments), end])
    found: list[Segment] = []
    losing: list[tuple[Segment, int, int]] = []
    size = 0

    def copied() -> list[Segment]:
        """One segment of the remaining rows of those in `losing`, if there are any."""
        if not losing:
            return []
        kept = positions[losing[0][1] : losing[-1][2]]
        picked = [Picked(positions[a:b], s.start - moved) for s, a, b in losing]
        schema = losing[0][0].payload.schema
        columns = [pick([s.chunks[name] for s, _, _ in losing], picked) for name in schema.names]
        payload = Payload(pa.RecordBatch.from_arrays(columns, schema=schema))
        found = Segment(moved + end + losing[0][1], payload, *window_arrays.span_of(ts, kept))
        return [found if files is None else found.spilled(files)]

    for s, a, b in zip(segments, places[:-1].tolist(), places[1:].tolist(), strict=True):
        whole, own = b - a == s.rows, s.part.get_total_buffer_size()
        # A segment that stays whole ends a run of losing neighbours: rows must stay in order.
        if losing and (whole or size + own > min(largest, _LARGEST)):
            found += copied()
            losing, size = [], 0
        if whole:
            found.append(replace(s, start=moved + end + a))
        elif a < b:
            losing.append((s, a, b))
            size += own
    return found + copied()
