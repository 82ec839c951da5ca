"""The sink of many queries: results are ordered, ranked by tier, and gathered once for all queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.engine.conditions import same_values
from windrow.engine.key_numbers import NO_KEY
from windrow.engine.partial_matches import MISSING, PartialMatches
from windrow.engine.row_windows import KEY, RANK, SEQ, RowWindow
from windrow.engine.rows import ArrivingRows
from windrow.engine.shared.bound_subscription import BoundSubscription, referenced_columns
from windrow.engine.shared.results import ResultBatch
from windrow.engine.shared.tiers import WindowTiers
from windrow.engine.watermarks import EARLIEST
from windrow.engine.windows import Windows, values_or
from windrow.eviction.ranking import Selection
from windrow.expr.parse import Reference, references
from windrow.kernels import result_routing
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
Deferral = Callable[[Windows, Sequence[ArrivingRows], Sequence[int]], None]
"""Receives a sub-batch's rows and the position of each stream's first."""


@dataclass(frozen=True)
class ArrivalCounts:
    """Recent rows of a row window by key, to count rows up to any of them."""

    before: Array
    """Rows of each key that arrived earlier."""
    seqs: Array
    starts: Array

    @classmethod
    def of(cls, counted: RowWindow, seq: Array, keys: Array | None) -> ArrivalCounts:
        """Counts of the rows that the window counted last, in order."""
        if counted.keys is None or keys is None:
            return cls(np.array([counted.total - len(seq)]), seq, np.array([0, len(seq)]))
        who = np.flatnonzero(keys != NO_KEY)
        order = who[np.argsort(keys[who], kind="stable")]
        starts = np.searchsorted(keys[order], np.arange(len(counted.keys.counts) + 1))
        return cls(counted.keys.counts - np.diff(starts), seq[order], starts)

    def count(self, seq: Array) -> Array:
        """Rows before each of these in the order of all streams. Only for windows not counted per key."""
        return self.before[0] + np.searchsorted(self.seqs, seq, side="left")


class QueryRouter:
    """Routes results of the join over the largest windows of all queries. `defer` receives the rows of each
    sub-batch if they are probed later; see `backlog.py`."""

    schema = pa.schema([])

    def __init__(self, bound: BoundQuery, defer: Deferral | None = None) -> None:
        self._bound = bound
        self.result_schemas: Mapping[str, pa.Schema] = bound.result_schemas
        self._hashed = bound.hashed
        self._counts_rows = bound.query.counts_rows
        self.defer = defer
        self.tiers = WindowTiers.of([tuple(s.window for s in bound.query.streams.values())])
        self.now = 0.0
        """Arrival time of this call's rows, on the operator's clock."""
        self.routed = 0
        """Results routed and not yet counted."""
        self.batches: list[ResultBatch] = []
        """Results found and not yet delivered."""
        self.arrival_counts: list[ArrivalCounts | None] = [None] * len(bound.schemas)
        self._found: list[dict[int, Array]] = []
        self.columns: list[Reference] = []
        """The columns that results are found with."""
        self._take({alias: list(schema.names) for alias, schema in bound.named_schemas.items()})

    @property
    def defers(self) -> bool:
        return self.defer is not None

    def subscribe(self, tiers: WindowTiers, bounds: Sequence[BoundSubscription]) -> None:
        """Route to these queries from now on."""
        self.tiers = tiers
        wanted = referenced_columns(bounds, self.result_schemas)
        for members in self._hashed:
            for alias, name in (key for column in members for key in references(column.node)):
                if alias in wanted and name not in wanted[alias]:
                    wanted[alias].append(name)
        self._take(wanted)

    def _take(self, wanted: Mapping[str, Sequence[str]]) -> None:
        self.columns = [
            (alias, name) for alias in self._bound.query.aliases for name in wanted.get(alias, ())
        ]

    # -- called by the join -------------------------------------------------------------------------

    def add(
        self, windows: Windows, found: PartialMatches, sample: Selection | None, certain: Array | None = None
    ) -> Iterator[pa.RecordBatch]:
        if certain is not None:
            # Rows of decided results may expire before the sub-batch ends.
            self.batches += self.route(windows, [found.rows], decided=True)
            return iter(())
        # Positions change when other streams are stored; row numbers do not.
        self._found.append({s: windows[s].number(rows) for s, rows in found.rows.items()})
        return iter(())

    def end_sub_batch(
        self, windows: Windows, arrivals: Sequence[ArrivingRows], starts: Sequence[int]
    ) -> None:
        if self.defer is not None:
            self.defer(windows, arrivals, starts)
            return
        for stream, (counted, arrived) in enumerate(zip(windows.row_windows, arrivals, strict=True)):
            if counted is not None and arrived.seq is not None:
                self.arrival_counts[stream] = ArrivalCounts.of(counted, arrived.seq, arrived.keys)
        found, self._found = self._found, []
        self.batches += self.route(
            windows, ({s: windows[s].position(numbers) for s, numbers in each.items()} for each in found)
        )

    # -- routing --------------------------------------------------------------------------------------

    def route(
        self, windows: Windows, found: Iterable[Mapping[int, Array]], decided: bool = False
    ) -> list[ResultBatch]:
        """Results that some query takes, in order; `found` holds the positions of their rows. Results that
        an outer join has decided may lack rows; all its queries have the same windows."""
        batches = list(found)
        if not batches:
            return []
        count = sum(len(next(iter(batch.values()))) for batch in batches)
        rows = [
            np.concatenate([batch[s] for batch in batches]) if s in batches[0] else np.full(count, MISSING)
            for s in range(len(windows))
        ]
        times, places = np.empty((2, len(rows), count), np.int64)
        for stream, (window, own) in enumerate(zip(windows, rows, strict=True)):
            times[stream] = values_or(window.ts, own, EARLIEST) if decided else window.ts[own]
            # Row windows are compacted now and then, which renumbers their rows.
            numbers = window.column(SEQ)[own] if self._counts_rows else window.number(own)
            places[stream] = np.where(own == MISSING, MISSING, numbers) if decided else numbers
        newest = times.max(axis=0)
        if not result_routing.in_order(newest, places):
            order = result_routing.order_of(newest, places)
            rows = [r[order] for r in rows]
            times, newest, places = times[:, order], newest[order], places[:, order]
        ranks = (
            np.zeros_like(places)
            if decided
            else self.tiers.ranks(self._distances(windows, rows, times, newest))
        )
        columns = windows.columns(dict(enumerate(rows)), self.columns)
        piece = ResultBatch(columns, newest, places, ranks, self.now, self._bound.functions)
        if not decided:
            verified = self._verified(piece)
            self.routed += sum(map(len, verified))
            return verified
        self.routed += len(piece)
        aliases = self._bound.query.aliases
        missing = {alias: rows[aliases.index(alias)] == MISSING for alias in self.result_schemas}
        return [replace(piece, missing=missing)]

    def _distances(self, windows: Windows, rows: Sequence[Array], times: Array, newest: Array) -> Array:
        """Distance per stream and result: how far back the row lies from the newest, in time or rows."""
        distances = newest - times
        if not self._counts_rows:
            return distances
        last = np.max([w.column(SEQ)[r] for w, r in zip(windows, rows, strict=True)], axis=0)
        for stream, counts in enumerate(self.arrival_counts):
            if counts is not None:
                rank, key = (windows[stream].column(name)[rows[stream]] for name in (RANK, KEY))
                count = np.empty(len(last), np.int64)
                result_routing.count_before(key, last, counts.before, counts.seqs, counts.starts, count)
                distances[stream] = count - rank
        return distances

    def _verified(self, piece: ResultBatch) -> list[ResultBatch]:
        """Remove results whose hashes are equal but whose values are not."""
        count, functions = len(piece), self._bound.functions
        masks = [same_values(members, piece.columns, count, functions) for members in self._hashed]
        if masks and not (same := np.logical_and.reduce(masks)).all():
            piece = piece.where(np.flatnonzero(same))
        return [piece] if len(piece) else []
