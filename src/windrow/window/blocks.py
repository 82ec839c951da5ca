"""Rows of a window's arrays, stored in blocks that are written once.

Times, join columns and links of hash chains never change while a row is held, so a block of rows stays valid
until all of them have expired. Blocks begin and end at multiples of `GRAIN` in the numbering of rows, so that
they can be mapped side by side. The newest rows have no block yet; a restart computes them from the payload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from windrow.window.mapped_arrays import GRAIN

BLOCKS_PER_WINDOW = 32
"""Rows without a block are at most this part of a window, or `GRAIN` rows."""
SETTLED = 4
"""After an eviction, which renumbers rows, they get blocks again once this part of a window's rows has
arrived. Under a memory limit that may be never: else all rows would be written in every batch."""


class Made:
    """A part that is made when it is written, so that a window does not hold its rows twice."""

    def __init__(self, make: Callable[[], pa.RecordBatch]) -> None:
        self.make = make


Part: TypeAlias = "pa.RecordBatch | Made"
"""A part of a state. Stores recognise it by identity."""


def batch_of(part: Part) -> pa.RecordBatch:
    return part.make() if isinstance(part, Made) else part


@dataclass(frozen=True)
class Block:
    start: int
    """Number of the first row."""
    rows: int
    part: Part

    @property
    def end(self) -> int:
        return self.start + self.rows


class Blocks:
    """The blocks of some arrays, contiguous and ascending. `renumbered` says that an eviction has just
    renumbered the rows."""

    def __init__(self, renumbered: bool = False) -> None:
        self.blocks: list[Block] = []
        self._renumbered = renumbered
        self._since: int | None = None
        """The end of the window when it was first to be covered."""

    @property
    def end(self) -> int:
        """Number of the first row after the blocks; there must be one."""
        return self.blocks[-1].end

    def cover(self, first: int, end: int, make: Callable[[int, int], pa.RecordBatch]) -> None:
        """Drops blocks of rows before `first`, and adds one of the rows up to `end` if these are enough.
        `make(start, rows)` makes a batch of rows; those before `first` do not matter."""
        self.blocks = [block for block in self.blocks if block.end > first]
        self._since = end if self._since is None else self._since
        if self._renumbered and (end - self._since) * SETTLED < end - first:
            return
        start = self.end if self.blocks else first // GRAIN * GRAIN
        rows = (end - start) // GRAIN * GRAIN
        if rows and rows * BLOCKS_PER_WINDOW >= end - first:
            self.blocks.append(Block(start, rows, Made(partial(make, start, rows))))
