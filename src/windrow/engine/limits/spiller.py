"""Keeps the windows inside their memory limit by moving them to files; no row is lost.

Payloads go first, oldest first: only results read them. If times, join columns and indexes alone exceed the
limit, they go too: sorted runs and postings by segment, then whole arrays. All of it is mapped, so nothing
else changes. What is in a file counts as no memory: its pages belong to the system.
"""

from __future__ import annotations

from collections.abc import Callable

from windrow.engine.windows import Windows
from windrow.model.limits import MemoryLimit
from windrow.window.segment import Segment
from windrow.window.spill_files import SpillFiles

_MERGES_PER_LIMIT = 8
_SMALLEST_MERGE = 1 << 16


class Spiller:
    """
    Parameters
    ----------
    limit
        What the windows may hold in memory. It may change between calls; on Spark it is the partition's
        share.
    directory
        Where spill files are; by default the system's directory for temporary files.
    """

    def __init__(self, limit: MemoryLimit, directory: str | None) -> None:
        self.limit = limit
        self._files = SpillFiles(directory)

    def held(self, windows: Windows) -> int:
        """Bytes that the windows hold in memory."""
        return sum(window.nbytes - window.bytes_in_files for window in windows)

    def enforce_limit(self, windows: Windows) -> None:
        """End a sub-batch: spill what exceeds the limit."""
        for window in windows:
            window.largest_segment = max(_SMALLEST_MERGE, self.limit.size // _MERGES_PER_LIMIT)
        if self.held(windows) <= self.limit.size:
            return
        for window in windows:
            window.payload_files = self._files
        # Down to half the limit, so that each file holds the payload of many rows.
        self._spill_segments(windows, self.limit.size // 2, _has_payload, Segment.spilled)
        self._spill_segments(windows, self.limit.size, _has_indexes, Segment.with_spilled_indexes)
        # Arrays that a cold start has mapped for the most part go last: they would be written once more.
        for part in (0.5, 1.0):
            for window in sorted(windows, key=lambda w: w.bytes_in_files - w.nbytes):
                if self.held(windows) > self.limit.size:
                    window.spill_arrays(self._files, part)

    def _spill_segments(
        self,
        windows: Windows,
        target: int,
        in_memory: Callable[[Segment], bool],
        spilled: Callable[[Segment, SpillFiles], Segment],
    ) -> None:
        """Spill parts of segments, the oldest first, until the windows hold no more than `target`."""
        excess = self.held(windows) - target
        found = [(s.newest, k, n) for k, w in enumerate(windows) for n, s in enumerate(w.segments)]
        for _, k, n in sorted(found):
            segment = windows[k].segments[n]
            if excess <= 0:
                break
            if in_memory(segment):
                stored = spilled(segment, self._files)
                excess -= stored.bytes_in_files - segment.bytes_in_files
                windows[k].segments[n] = stored
        for window in windows:
            window.put(window.segments)


def _has_payload(segment: Segment) -> bool:
    return not segment.in_file


def _has_indexes(segment: Segment) -> bool:
    return bool(segment.runs or segment.sets) and not segment.indexes_in_file
