"""The windows of all streams: rows are appended, expire, and are evicted.

A window is limited by time or by rows; for the latter see `row_windows.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, overload

import numpy as np
import pyarrow as pa

from windrow.engine.key_numbers import KeyNumbers
from windrow.engine.outer.row_flags import FLAGS
from windrow.engine.partial_matches import MISSING, PartialMatches
from windrow.engine.row_windows import KEY, NEVER, OUT, RANK, SEQ, RowWindow
from windrow.engine.rows import ArrivingRows, RowReader
from windrow.eviction.window_view import RowState
from windrow.expr.parse import Reference
from windrow.model.query import Window
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery
from windrow.window.window_store import WindowStore

Array = np.ndarray


class RowHolder(Protocol):
    """Holds on to rows between calls."""

    def bounded(self, horizons: Sequence[int | None], seq: int) -> tuple[Sequence[int | None], int]:
        """Expiry horizons, and the place up to which displaced rows go, lowered to keep the rows it needs."""

    def evicted(self, stream: int, leaving: Array) -> None:
        """Rows of a stream are about to be evicted, which renumbers the others."""


class Windows(Sequence[WindowStore], Stateful):
    """The windows of a join, with `row_state`, the columns that policies store per row."""

    saved = ("row_windows", "complete_from")

    def __init__(self, bound: BoundQuery, row_state: RowState = ()) -> None:
        self._aliases, self._counts_rows = bound.query.aliases, bound.query.counts_rows
        self._row_state = row_state
        described = [stream.window for stream in bound.query.streams.values()]
        self.row_windows = [_row_window(bound, s, window) for s, window in enumerate(described)]
        """Per stream, its row window; None if the window is limited by time."""
        keys = [None if counted is None else counted.keys for counted in self.row_windows]
        self.readers = [RowReader(bound, s, keys[s]) for s in range(len(described))]
        self._stores = [self._store(bound, s, window) for s, window in enumerate(described)]
        self.holder: RowHolder | None = None
        self.complete_from: list[int | None] = [None] * len(described)
        """Per stream, the event time from which on every admitted row is held."""
        self.pending_from: int | None = None
        self.pending_seq: int | None = None
        """With deferred probing: time and `seq` of the first row not probed. What it can match is kept."""

    def _store(self, bound: BoundQuery, stream: int, window: Window) -> WindowStore:
        columns: dict[str, type[np.generic]] = {
            w.name: np.float64 if w.kind == "float" else np.int64 for w in bound.join_columns[stream]
        }
        if bound.shapes:
            columns[FLAGS] = np.int64
        return WindowStore(
            bound.schemas[stream],
            columns | self.stored_columns(stream),
            window.size if window.is_time else None,
            {column.name: partial(self.readers[stream].sets, column) for column in bound.sets[stream]},
        )

    @overload
    def __getitem__(self, stream: int) -> WindowStore: ...
    @overload
    def __getitem__(self, stream: slice) -> Sequence[WindowStore]: ...
    def __getitem__(self, stream: int | slice) -> WindowStore | Sequence[WindowStore]:
        return self._stores[stream]

    def __len__(self) -> int:
        return len(self._stores)

    def __iter__(self) -> Iterator[WindowStore]:
        return iter(self._stores)

    def stored_columns(self, stream: int) -> dict[str, type[np.generic]]:
        """Columns of a window that cannot be computed again from its rows."""
        order: tuple[str, ...] = ()
        if self._counts_rows:
            order = (SEQ,) if self.row_windows[stream] is None else (SEQ, OUT, RANK, KEY)
        found: dict[str, type[np.generic]] = dict.fromkeys(order, np.int64)
        return found | dict(self._row_state)

    def derived_columns(self, stream: int) -> list[str]:
        """Columns of a window that are computed from a row's payload, and never change."""
        return sorted(self[stream].column_types.keys() - self.stored_columns(stream).keys())

    # -- the data flow ------------------------------------------------------------------------------

    def expire(self, horizons: Sequence[int | None], seq: int) -> list[int]:
        """Remove rows that no later result can contain: older than their stream's horizon, or displaced
        up to `seq`. Return how many, per stream."""
        if self.holder is not None:
            horizons, seq = self.holder.bounded(horizons, seq)
        gone = []
        for stream, (window, counted) in enumerate(zip(self, self.row_windows, strict=True)):
            horizon = self._needed(window, horizons[stream])
            known = self.complete_from[stream]
            if horizon is not None and (known is None or horizon > known):
                self.complete_from[stream] = horizon
            if counted is None:
                gone.append(0 if horizon is None else window.expire(horizon))
            elif self.pending_seq is None:
                gone.append(counted.expire(window, seq))
            else:
                # Removing rows from a window counted per key compacts it, which renumbers the others.
                gone.append(0 if counted.keys is not None else counted.expire(window, self.pending_seq))
        return gone

    def _needed(self, window: WindowStore, horizon: int | None) -> int | None:
        if horizon is None or self.pending_from is None or window.span is None:
            return horizon
        return min(horizon, self.pending_from - window.span)

    def places(self, arrivals: Sequence[ArrivingRows]) -> list[dict[str, Array]]:
        """Order columns of new rows, in a join with row windows. Marks the rows they displace; must run
        before any row of the sub-batch is probed."""
        return [self._place(stream, arrived) for stream, arrived in enumerate(arrivals)]

    def _place(self, stream: int, arrived: ArrivingRows) -> dict[str, Array]:
        if arrived.seq is None:
            return {}
        counted = self.row_windows[stream]
        placed = {} if counted is None else counted.admit(self[stream], arrived.seq, arrived.keys)
        return {SEQ: arrived.seq} | placed

    def stage(self, stream: int, arrived: ArrivingRows, places: Mapping[str, Array]) -> None:
        """Prepare to store the rows that can be in a result."""
        rows = arrived.rows
        if arrived.joinable is not None and not arrived.joinable.all():
            places = {name: column[arrived.joinable] for name, column in places.items()}
            rows = rows.where(arrived.joinable)
        self[stream].stage(rows.ts, {**rows.columns, **places}, rows.payload)

    def contain(self, partials: PartialMatches) -> PartialMatches:
        """Matches whose rows were all in their row windows when the newest arrived; probes check time."""
        if not self._counts_rows:
            return partials
        newest = self.newest_seq(partials.rows)
        mask = np.ones(len(newest), bool)
        for stream, rows in partials.rows.items():
            if self.row_windows[stream] is not None:
                mask &= newest < values_or(self[stream].column(OUT), rows, NEVER)
        return partials.where(mask)

    def newest_seq(self, rows: Mapping[int, Array]) -> Array:
        """Place of the newest of each combination's rows in the order of all streams."""
        found = [values_or(self[s].column(SEQ), positions, MISSING) for s, positions in rows.items()]
        return np.maximum.reduce(found)

    # -- rows of combinations -----------------------------------------------------------------------

    def columns(self, rows: Mapping[int, Array], needed: Collection[Reference]) -> dict[Reference, pa.Array]:
        """Payload columns of combinations, null where a row is missing."""
        found: dict[Reference, pa.Array] = {}
        for stream, alias in enumerate(self._aliases):
            names = sorted(name for a, name in needed if a == alias)
            if names:
                gathered = self._gather(stream, rows[stream], names, _there(rows[stream]))
                found.update({(alias, n): column for n, column in zip(names, gathered, strict=True)})
        return found

    def structs(self, stream: int, positions: Array, kind: pa.StructType) -> pa.Array:
        """Whole rows as structs, null where a row is missing."""
        there = _there(positions)
        missing = None if there is None else ~there
        if not kind.num_fields:
            return pa.array([{}] * len(positions), kind, mask=missing)
        columns = self._gather(stream, positions, self[stream].schema.names, there)
        mask = None if missing is None else pa.array(missing)
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)

    def _gather(
        self, stream: int, positions: Array, names: Sequence[str], there: Array | None
    ) -> list[pa.Array]:
        window = self[stream]
        if there is None:
            return window.gather(positions, names)
        if not there.any():
            return [pa.nulls(len(positions), window.schema.field(name).type) for name in names]
        index = pa.array(np.cumsum(there) - 1, mask=~there)
        return [column.take(index) for column in window.gather(positions[there], names)]

    # -- memory -------------------------------------------------------------------------------------

    def removable(self, stream: int, exhausted: Array | None) -> Array | None:
        """Mask of rows that are `exhausted` or displaced; None for none."""
        counted = self.row_windows[stream]
        displaced = None if counted is None else counted.displaced(self[stream])
        return exhausted if displaced is None else displaced if exhausted is None else exhausted | displaced

    def evict(self, stream: int, leaving: Array, tight: bool) -> int:
        """Remove rows for lack of memory; return how many, not counting displaced ones."""
        if self.holder is not None:
            self.holder.evicted(stream, leaving)
        displaced, counted = self.removable(stream, None), self.row_windows[stream]
        self[stream].keep(~leaving, tight)
        if displaced is not None and counted is not None:
            counted.displaced_early += (early := int(np.count_nonzero(leaving & displaced)))
            return int(np.count_nonzero(leaving)) - early
        return int(np.count_nonzero(leaving))

    def replace_parts(self, stored: Mapping[int, pa.RecordBatch]) -> None:
        """Continue with these parts of segments, by the identity of those they equal, mapped from files."""
        for window in self:
            window.put([segment.replaced(stored) for segment in window.segments])

    def forget_keys(self) -> None:
        """Remove keys without stored rows. Only between calls: rows in flight already have key numbers."""
        for window, counted in zip(self, self.row_windows, strict=True):
            if counted is not None:
                counted.forget(window)

    # -- resizing -----------------------------------------------------------------------------------

    def resize(self, sizes: Sequence[Window], seq: int) -> None:
        """Change the window sizes. Rows that only larger windows would hold are not recovered; rows that
        smaller ones do not hold go with the next expiry."""
        for window, counted, size in zip(self, self.row_windows, (w.size for w in sizes), strict=True):
            if counted is None:
                window.span = size
                continue
            counted.size = size
            live = slice(window.first, window.end)
            out, rank, key = (window.column(name)[live] for name in (OUT, RANK, KEY))
            arrived = counted.total if counted.keys is None else counted.keys.counts[key]
            # Displaced by a row that arrived under the larger window: the exact `seq` no longer matters.
            out[:] = np.where(rank + size < arrived, np.minimum(out, seq), out)


def _there(positions: Array) -> Array | None:
    """Mask of the rows that are not missing; None for all."""
    there = positions != MISSING
    return None if there.all() else there


def values_or(column: Array, positions: Array, default: int) -> Array:
    """Values of the rows at `positions`, `default` where a row is missing."""
    there = _there(positions)
    if there is None:
        return column[positions]
    found = np.full(len(positions), default, column.dtype)
    found[there] = column[positions[there]]
    return found


def _row_window(bound: BoundQuery, stream: int, window: Window) -> RowWindow | None:
    if window.is_time:
        return None
    keys = bound.key_columns(stream) if window.kind == "rows per key" else []
    exact = len(keys) == 1 and keys[0].kind != "hash"
    return RowWindow(window.size, KeyNumbers(exact) if keys else None)
