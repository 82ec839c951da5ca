"""The parts of a window that are stored beside its payloads, and how a restart takes them over.

Stored are blocks of times and join columns, the links and heads of hash indexes, and the sorted runs and
postings of segments. Most of it is mapped, so the time of a restart depends on the rows it touches, not on
the size of the window. Anything else, such as the newest rows or an index that no plan used, is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels.window_arrays import time_bounds
from windrow.window.blocks import Block, Blocks, Made, Part, batch_of
from windrow.window.hash_index import HEADS_PER_WINDOW, HashIndex, StoredHeads
from windrow.window.mapped_arrays import Locate, assembled
from windrow.window.postings import Postings
from windrow.window.segment import Payload, Segment, SortedRun
from windrow.window.window_store import WindowStore, roomy

Array = np.ndarray
Arrays = Mapping[str, Array]
TIME = "\x00time"
"""The name of the times among the columns of a block."""


def capture_window(window: WindowStore, derived: Sequence[str]) -> tuple[dict[str, Any], list[Part]]:
    """A description of a window, in plain values, and the parts that belong to it. `derived` names the
    columns that never change while a row is held."""
    parts: list[Part] = []
    for s in window.segments:
        parts += [s.runs[name].batch for name in window.sorted_columns]
        parts += [held.batch for held in s.sets.values()]
    _cover(window, window.blocks, lambda: {TIME: window.ts} | {name: window.column(name) for name in derived})
    parts += [block.part for block in window.blocks.blocks]
    indexes = []
    for names, index in window.indexes.items():
        _cover(window, index.links, index.row_arrays)
        links, live = index.links, len(window)
        if not links.blocks:
            continue
        heads = index.stored_heads
        # Heads take as many bytes as they have buckets, however few rows are new. So they are stored now and
        # then, and a restart adds the rows since.
        if heads is None or (links.end - heads.end) * HEADS_PER_WINDOW >= live:
            heads = index.stored_heads = StoredHeads(
                links.end, Made(partial(_heads, window, index, links.end))
            )
        parts += [*(block.part for block in links.blocks), heads.part]
        indexes.append(
            {
                "names": list(names),
                "buckets": index.fixed_buckets,
                "links": _extents(links),
                "heads": heads.end,
            }
        )
    described = {
        "first": window.number(window.first),
        "end": window.number(window.end),
        "times": [[s.oldest, s.newest] for s in window.segments],
        "sorted": list(window.sorted_columns),
        "sets": list(window.segments[0].sets) if window.segments else [],
        "columns": list(derived),
        "blocks": _extents(window.blocks),
        "indexes": indexes,
    }
    return described, parts


def _cover(window: WindowStore, blocks: Blocks, arrays: Callable[[], Arrays]) -> None:
    def rows(start: int, count: int) -> pa.RecordBatch:
        # Rows that have expired may be gone from the arrays; they are never looked at.
        at = window.position(start)
        gone = max(0, -at)
        columns = {name: array[at + gone : at + count] for name, array in arrays().items()}
        if gone:
            columns = {name: np.pad(column, (gone, 0)) for name, column in columns.items()}
        return pa.record_batch(columns)

    blocks.cover(window.number(window.first), window.number(window.end), rows)


def _heads(window: WindowStore, index: HashIndex, end: int) -> pa.RecordBatch:
    return index.heads(window.first, window.position(end))


def _extents(blocks: Blocks) -> list[list[int]]:
    return [[block.start, block.rows] for block in blocks.blocks]


@dataclass(frozen=True)
class WindowParts:
    """The parts of a window, in the order in which they are stored."""

    runs: list[dict[str, pa.RecordBatch]]
    """By segment and column."""
    sets: list[dict[str, pa.RecordBatch]]
    rows: Blocks
    indexes: list[tuple[HashIndex, pa.RecordBatch]]
    """Each with its blocks of links, and its heads."""

    @classmethod
    def take(cls, described: Mapping[str, Any], parts: Iterator[pa.RecordBatch]) -> WindowParts:
        runs, sets = [], []
        for _ in described["times"]:
            runs.append({name: next(parts) for name in described["sorted"]})
            sets.append({name: next(parts) for name in described["sets"]})
        rows, indexes = _take_blocks(described["blocks"], parts), []
        for saved in described["indexes"]:
            index = HashIndex(tuple(saved["names"]), saved["buckets"])
            index.links = _take_blocks(saved["links"], parts)
            index.stored_heads = StoredHeads(saved["heads"], heads := next(parts))
            indexes.append((index, heads))
        return cls(runs, sets, rows, indexes)


def _take_blocks(extents: Sequence[tuple[int, int]], parts: Iterator[pa.RecordBatch]) -> Blocks:
    found = Blocks()
    found.blocks = [Block(start, rows, next(parts)) for start, rows in extents]
    return found


def restore_window(
    window: WindowStore,
    described: Mapping[str, Any],
    payloads: Sequence[Payload],
    row_state: Arrays,
    read: Callable[[pa.RecordBatch], tuple[Array, Arrays]],
    stored: WindowParts | None,
    locate: Locate,
) -> None:
    """Fills a window that is still empty.

    Parameters
    ----------
    payloads
        Of the segments, in order.
    row_state
        Columns of the live rows that cannot be computed.
    read
        Computes the times and join columns of a payload's rows.
    stored
        Without it, all other columns and the indexes are computed.
    locate
        Where parts are stored in local files.
    """
    first, end = described["first"], described["end"]
    rows, indexes = (Blocks(), []) if stored is None else (stored.rows, stored.indexes)
    logs = [rows, *(index.links for index, _ in indexes)]
    # A block may begin with expired rows. It is mapped as a whole, so positions begin with its first row.
    origin = min([first, *(log.blocks[0].start for log in logs if log.blocks)])
    capacity = roomy(end - origin)
    arrays = _arrays(rows, origin, capacity, locate)
    ts = arrays.pop(TIME) if rows.blocks else np.empty(capacity, np.int64)
    for name, kind in window.column_types.items():
        if name not in arrays:
            arrays[name] = np.zeros(capacity, kind)
        if name in row_state:
            arrays[name][first - origin : end - origin] = row_state[name]
    starts = [end - n for n in accumulate(map(len, reversed(payloads)))][::-1]
    covered = rows.end if rows.blocks else first
    for start, payload in zip(starts, payloads, strict=True):
        # Blocks cover all rows but the newest. Only of these the payload must be read.
        begin = max(start, covered, first)
        if begin < start + len(payload):
            times, columns = read(payload.rows.slice(begin - start))
            at = slice(begin - origin, begin - origin + len(times))
            ts[at] = times
            for name, values in columns.items():
                arrays[name][at] = values
    window.adopt(ts, arrays, origin, first, end)
    window.blocks = rows
    window.sorted_columns = () if stored is None else tuple(described["sorted"])
    window.segments = [
        _segment(window, k, start, payload, described["times"], stored, locate)
        for k, (start, payload) in enumerate(zip(starts, payloads, strict=True))
    ]
    for index, heads in indexes:
        own = _arrays(index.links, origin, capacity, locate)
        linked = index.restore(arrays, own, heads, origin, window.first)
        index.append(arrays, window.first, linked, window.end)
        window.indexes[index.names] = index


def _segment(
    window: WindowStore,
    number: int,
    start: int,
    payload: Payload,
    times: Sequence[tuple[int, int]] | None,
    stored: WindowParts | None,
    locate: Locate,
) -> Segment:
    if times is None:
        begin = max(window.first, window.position(start))
        oldest, newest, _ = time_bounds(window.ts[begin : window.position(start) + len(payload)])
    else:
        oldest, newest = times[number]
    found = Segment(start, payload, oldest, newest, in_file=_is_in_file([payload.part], locate))
    if stored is not None:
        runs = {name: SortedRun.from_batch(batch) for name, batch in stored.runs[number].items()}
        sets = {name: Postings.from_batch(batch) for name, batch in stored.sets[number].items()}
        parts = [*stored.runs[number].values(), *stored.sets[number].values()]
        found = replace(found, runs=runs, sets=sets, indexes_in_file=_is_in_file(parts, locate))
    return window.indexed(found)


def _is_in_file(batches: Sequence[pa.RecordBatch], locate: Locate) -> bool:
    """Whether these stored batches are mapped from local files."""
    columns = (column for batch in batches for column in batch.columns)
    held = (next((b for b in column.buffers() if b is not None and b.size), None) for column in columns)
    return all(buffer is None or locate(buffer.address) is not None for buffer in held)


def _arrays(log: Blocks, origin: int, capacity: int, locate: Locate) -> dict[str, Array]:
    """The arrays of these blocks, by position."""
    pieces = {block.start - origin: batch_of(block.part) for block in log.blocks}
    return assembled(capacity, pieces, locate)
