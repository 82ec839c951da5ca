"""A hash index over one or several join columns of a window: chains of positions, newest first.

Expiry needs no work here: positions ascend in order of arrival, and a chain is followed only down to the
window's first live position. One index spans all segments of its window, so a probe is one lookup however
many segments there are.

The links are stored in blocks. The heads change with every row; they are stored now and then, and a restart
brings them up to date from the keys of the rows since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.kernels import hashing, probe_index
from windrow.window.blocks import Blocks, Part
from windrow.window.mapped_arrays import bytes_in_files, is_private, on_large_pages, values_of
from windrow.window.spill_files import SpillFiles, moved_down, moved_to_file, new_array

Array = np.ndarray
_SMALLEST = 64
HEADS_PER_WINDOW = 4
"""The heads are stored again after this part of a window's rows."""


@dataclass(frozen=True)
class StoredHeads:
    end: int
    """Number of the first row that is not in the heads."""
    part: Part


class HashIndex:
    def __init__(self, names: tuple[str, ...], buckets: int | None) -> None:
        self.names = names
        self.fixed_buckets = buckets
        self.head: Array = np.full(buckets or _SMALLEST, -1, np.int32)
        self.back: Array = np.empty(0, np.int32)
        self.keys: Array = np.empty(0, np.int64)
        """The key of each row by position: the column itself, or a mix of several (to be verified)."""
        self.links = Blocks()
        self.stored_heads: StoredHeads | None = None
        self.files: SpillFiles | None = None
        """Where its arrays are, if they have spilled."""

    def row_arrays(self) -> dict[str, Array]:
        """Its own arrays that have an entry for each row."""
        return {"back": self.back} if len(self.names) == 1 else {"back": self.back, "mixed": self.keys}

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in (self.head, *self.row_arrays().values()))

    @property
    def bytes_in_files(self) -> int:
        return sum(map(bytes_in_files, (self.head, *self.row_arrays().values())))

    @property
    def row_bytes(self) -> int:
        """Bytes per position, without the heads of the chains."""
        return sum(int(array.itemsize) for array in self.row_arrays().values())

    def build(self, columns: Mapping[str, Array], first: int, end: int) -> None:
        """Rebuilds the index with these rows only."""
        self._reserve(len(columns[self.names[0]]), 0, 0)
        self._relink(columns, first, end, self.fixed_buckets or max(_SMALLEST, _next_power(end - first)))

    def append(self, columns: Mapping[str, Array], first: int, start: int, end: int) -> None:
        wanted, buckets = end - first, len(self.head)
        # One row per bucket on average. They shrink only at an eighth of that, so that a window whose size
        # swings is not linked again each time.
        if self.fixed_buckets is None and (
            wanted > buckets or (buckets > _SMALLEST and wanted * 8 < buckets)
        ):
            self._relink(columns, first, end, max(_SMALLEST, _next_power(wanted)), start)
            return
        self._set_keys(columns, start, end)
        probe_index.link(self.head, self.back, self.keys, start, end)

    def move(self, columns: Mapping[str, Array], shift: int, live: int, capacity: int) -> None:
        """Adapts the index after the window's arrays were moved down by `shift`."""
        self._set_keys(columns, 0, 0)
        self._reserve(capacity, shift, live)
        if shift:
            probe_index.shift_heads(self.head, shift)

    def spill(self, files: SpillFiles, columns: Mapping[str, Array], part: float) -> None:
        """Moves the index to files, after the columns. Skips arrays of which at least this fraction is in
        files already."""
        self.files = files
        self.head = moved_to_file(files, self.head, part)
        self._replace(lambda array: moved_to_file(files, array, part))
        self._set_keys(columns, 0, 0)

    def _reserve(self, capacity: int, shift: int, live: int) -> None:
        """Moves `live` rows down by `shift`, into arrays of this capacity."""
        # Links are distances, so those of rows that move together stay the same.
        self._replace(lambda array: moved_down(self.files, array, shift, live, capacity))

    def _replace(self, change: Callable[[Array], Array]) -> None:
        """Replaces each of its `row_arrays` by the result of `change`."""
        self.back = change(self.back)
        if len(self.names) > 1:
            self.keys = change(self.keys)

    def _relink(
        self, columns: Mapping[str, Array], first: int, end: int, buckets: int, start: int | None = None
    ) -> None:
        """Builds all chains again. Keys of rows before `start` are known."""
        self.links, self.stored_heads = Blocks(), None
        self._set_keys(columns, first if start is None else start, end)
        if len(self.head) != buckets:
            self.head = new_array(self.files, buckets, self.head.dtype)
        self.head.fill(-1)
        # All links are written, so a privately mapped array would be copied page by page.
        if is_private(self.back):
            self.back = new_array(self.files, len(self.back), self.back.dtype)
        probe_index.link(self.head, self.back, self.keys, first, end)

    def _set_keys(self, columns: Mapping[str, Array], start: int, end: int) -> None:
        # A single column is its own key, so the index follows the array that the window has now.
        if len(self.names) == 1:
            self.keys = columns[self.names[0]].view(np.int64)
        else:
            self.keys[start:end] = mix_columns([columns[name][start:end] for name in self.names])

    # -- storing --------------------------------------------------------------------------------------

    def heads(self, first: int, end: int) -> pa.RecordBatch:
        """The heads of the chains of the rows from position `first` to before `end`."""
        heads = np.empty(len(self.head), np.int32)
        probe_index.heads_before(self.head, self.back, first, end, heads)
        return pa.record_batch({"heads": heads})

    def restore(
        self,
        columns: Mapping[str, Array],
        rows: Mapping[str, Array],
        heads: pa.RecordBatch,
        moved: int,
        first: int,
    ) -> int:
        """Takes over stored links and heads; `moved` is the number of the row at position 0. Returns the
        position up to which rows are in the index."""
        assert self.stored_heads is not None
        self.back, self.keys = rows["back"], rows.get("mixed", self.keys)
        self._set_keys(columns, 0, 0)
        headed, linked = self.stored_heads.end - moved, self.links.end - moved
        self.head = on_large_pages(heads.num_rows, np.int32)
        probe_index.heads_from(values_of(heads.column(0)), headed, self.head)
        # Heads were stored before the newest links: the rows between become heads again, in order.
        probe_index.relink(self.head, self.keys, max(headed, first), linked)
        return linked


def mix_columns(words: Sequence[Array]) -> Array:
    """One key for several columns; a single one is its own key."""
    key = words[0].view(np.int64)
    for word in words[1:]:
        key = hashing.combine(key, word.view(np.int64))
    return key


def _next_power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
