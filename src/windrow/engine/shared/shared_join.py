"""A join whose results are routed to queries: ordered, ranked by tier, and gathered once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.join import ArrivingRows, Join
from windrow.engine.key_numbers import NO_KEY
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.probe import Probe, as_mask
from windrow.engine.row_windows import KEY, OUT, RANK, SEQ, RowWindow
from windrow.engine.shared.bound_subscription import BoundSubscription, referenced_columns
from windrow.engine.shared.results import ResultBatch
from windrow.engine.shared.tiers import WindowTiers
from windrow.expr.join_columns import column_values
from windrow.expr.parse import Reference, references
from windrow.kernels import result_routing
from windrow.model.query import Query, Window

Array = np.ndarray


@dataclass(frozen=True)
class ArrivalCounts:
    """Rows that came to a row window lately, by key, to count rows up to any of them."""

    before: Array
    """Rows of each key that came before these."""
    seqs: Array
    starts: Array

    @classmethod
    def of(cls, counted: RowWindow, seq: Array, keys: Array | None, fresh: bool) -> ArrivalCounts:
        """Of rows in their order; `fresh` if the window does not count them yet."""
        if counted.keys is None or keys is None:
            known = counted.total - (0 if fresh else len(seq))
            return cls(np.array([known]), seq, np.array([0, len(seq)]))
        who = np.flatnonzero(keys != NO_KEY)
        order = who[np.argsort(keys[who], kind="stable")]
        starts = np.searchsorted(keys[order], np.arange(len(counted.keys.counts) + 1))
        before = counted.keys.counts.copy() if fresh else counted.keys.counts - np.diff(starts)
        return cls(before, seq[order], starts)

    def count(self, seq: Array) -> Array:
        """Rows before each of these in the order of all; where rows are not counted per key."""
        return self.before[0] + np.searchsorted(self.seqs, seq, side="left")


class SharedJoin(Join):
    """
    Parameters
    ----------
    query
        The largest windows of all queries.
    """

    def __init__(self, query: Query, schemas: Sequence[pa.Schema]) -> None:
        super().__init__(query, schemas)
        self.tiers = WindowTiers.of([tuple(s.window for s in query.streams.values())])
        self.now = 0.0
        """When the rows in hand came, on the operator's clock."""
        self.batches: list[ResultBatch] = []
        """Found and not yet handed on."""
        self.expiry_bounds: list[int | None] = [None] * len(self.schemas)
        """Everything from here on is held, as far as it came."""
        self.defer: Callable[[list[int], Sequence[ArrivingRows]], None] | None = None
        """Gets where rows were stored, where looking for results is put off; see `carry.py`."""
        self.oldest: int | None = None
        self.oldest_seq: int | None = None
        """Rows that have been put off are no older than this, and come no earlier in the order of all."""
        self._found: list[dict[int, Array]] = []
        self.arrival_counts: list[ArrivalCounts | None] = [None] * len(self.schemas)
        self._columns: list[list[str]] = [list(schema.names) for schema in schemas]
        self._output = dict(zip(query.aliases, schemas, strict=True))

    @property
    def probes(self) -> list[Probe]:
        """One per direction of the plan."""
        return self._probes

    @property
    def named_schemas(self) -> Mapping[str, pa.Schema]:
        return self._output

    def subscribe(self, tiers: WindowTiers, bounds: Sequence[BoundSubscription]) -> None:
        """These queries from now on."""
        self.tiers = tiers
        wanted = referenced_columns(bounds, self.named_schemas)
        for members in self.output.hashed:
            for alias, name in (key for word in members for key in references(word.node)):
                if name not in wanted[alias]:
                    wanted[alias].append(name)
        self._columns = [wanted[alias] for alias in self.query.aliases]

    # -- what the join calls ------------------------------------------------------------------------

    def expire(self, horizons: Sequence[int | None], seq: int) -> list[int]:
        kept = [self._needed(stream, horizon) for stream, horizon in enumerate(horizons)]
        for stream, horizon in enumerate(kept):
            known = self.expiry_bounds[stream]
            if horizon is not None and (known is None or horizon > known):
                self.expiry_bounds[stream] = horizon
        if self.oldest_seq is None:
            return super().expire(kept, seq)
        gone = []
        for window, counted, horizon in zip(self.windows, self.row_windows, kept, strict=True):
            if counted is None:
                gone.append(0 if horizon is None else window.expire(horizon))
            else:
                # Windows counted per key are packed to let rows go, which gives the others other numbers.
                gone.append(0 if counted.keys is not None else counted.expire(window, self.oldest_seq))
        return gone

    def _needed(self, stream: int, horizon: int | None) -> int | None:
        """Rows that were put off still look for others as old as they could be when they came."""
        span = self.windows[stream].span
        if horizon is None or self.oldest is None or span is None:
            return horizon
        return min(horizon, self.oldest - span)

    def evaluate(
        self, arrivals: Sequence[ArrivingRows], controller: DeadlineController | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Takes in a sub-batch's rows; results go to `pieces`."""
        if self.defer is not None:
            places = [self._places(s, arrived) for s, arrived in enumerate(arrivals)]
            self.defer([self._append(s, a, places[s]) for s, a in enumerate(arrivals)], arrivals)
            return
        yield from super().evaluate(arrivals, controller)
        self.batches += self.route(
            {s: self.windows[s].position(numbers) for s, numbers in found.items()} for found in self._found
        )
        self._found = []

    def _results(
        self, partials: PartialMatches, controller: DeadlineController | None
    ) -> Iterator[pa.RecordBatch]:
        self.collect(partials)
        return iter(())

    def collect(self, partials: PartialMatches) -> None:
        """Results by the numbers of their rows: positions change as other streams are stored."""
        self._found.append({s: self.windows[s].number(rows) for s, rows in partials.rows.items()})

    def _places(self, stream: int, arrived: ArrivingRows) -> dict[str, Array]:
        counted = self.row_windows[stream]
        if counted is not None and arrived.seq is not None:
            self.arrival_counts[stream] = ArrivalCounts.of(counted, arrived.seq, arrived.keys, fresh=True)
        return super()._places(stream, arrived)

    # -- routing --------------------------------------------------------------------------------------

    def route(self, found: Iterable[Mapping[int, Array]]) -> list[ResultBatch]:
        """Results that some query takes, in order. Positions must still stand."""
        batches = list(found)
        if not batches:
            return []
        rows = [np.concatenate([batch[s] for batch in batches]) for s in range(len(self.windows))]
        times = np.array([w.ts[r] for w, r in zip(self.windows, rows, strict=True)])
        newest = times.max(axis=0)
        places = np.array([self._numbers(s, r) for s, r in enumerate(rows)])
        if not result_routing.in_order(newest, places):
            order = result_routing.order_of(newest, places)
            rows = [r[order] for r in rows]
            times, newest, places = times[:, order], newest[order], places[:, order]
        ranks = self.tiers.ranks(self._distances(rows, times, newest))
        piece = ResultBatch(self._gather(rows), newest, places, ranks, self.now, self.functions)
        return self._verified(piece)

    def _numbers(self, stream: int, rows: Array) -> Array:
        """A number for each row that ascends with the order of its stream."""
        window = self.windows[stream]
        # Row windows are packed now and then, which gives their rows other numbers.
        return window.column(SEQ)[rows] if self.query.counts_rows else window.number(rows)

    def _distances(self, rows: Sequence[Array], times: Array, newest: Array) -> Array:
        """Per stream and result: how far back the row lies when the newest comes, in time or rows."""
        distances = newest - times
        if not self.query.counts_rows:
            return distances
        last = np.max([w.column(SEQ)[rows[s]] for s, w in enumerate(self.windows)], axis=0)
        for stream, coming in enumerate(self.arrival_counts):
            if coming is not None:
                rank, key = (self.windows[stream].column(name)[rows[stream]] for name in (RANK, KEY))
                count = np.empty(len(last), np.int64)
                result_routing.count_before(key, last, coming.before, coming.seqs, coming.starts, count)
                distances[stream] = count - rank
        return distances

    def _gather(self, rows: Sequence[Array]) -> dict[Reference, pa.Array]:
        found: dict[Reference, pa.Array] = {}
        for alias, window, positions, names in zip(
            self.query.aliases, self.windows, rows, self._columns, strict=True
        ):
            for name, column in zip(names, window.gather(positions, names), strict=True):
                found[alias, name] = column
        return found

    def _verified(self, piece: ResultBatch) -> list[ResultBatch]:
        """Without results whose hashes are equal but not their values."""
        same = np.ones(len(piece), bool)
        for members in self.output.hashed:
            values = [column_values(word, piece.columns, len(piece), self.functions) for word in members]
            for other in values[1:]:
                same &= as_mask(pc.equal(values[0], other))
        if not same.all():
            piece = piece.where(np.flatnonzero(same))
        return [piece] if len(piece) else []


def resize(join: SharedJoin, windows: Sequence[Window], seq: int) -> None:
    """Other windows from now on. Rows that larger ones would hold are gone and stay so; rows that smaller
    ones do not hold go with the next expiry."""
    for stream, size in enumerate(w.size for w in windows):
        window, counted = join.windows[stream], join.row_windows[stream]
        if counted is None:
            window.span = size
            continue
        counted.size = size
        live = slice(window.first, window.end)
        out, rank, key = (window.column(name)[live] for name in (OUT, RANK, KEY))
        came = counted.total if counted.keys is None else counted.keys.counts[key]
        # Pushed out by a row that came under the larger window: when exactly no longer matters.
        out[:] = np.where(rank + size < came, np.minimum(out, seq), out)
