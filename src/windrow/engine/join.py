"""The join: windows, plan and probes, one sub-batch at a time.  expire -> append -> probe -> results.

Streams take their turn in a fixed order: a stream's new rows are appended, then probe all other windows.
So of the rows that came together a result is found exactly once, by the last of its streams to take turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from windrow.engine.key_numbers import NO_KEY, KeyNumbers
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.engine.limits.evictor import Evictor
from windrow.engine.limits.load_shedder import LoadShedder, make_load_shedder
from windrow.engine.limits.stopwatch import BUILD, PROBE, TAKE
from windrow.engine.outer.level_search import JoinParts
from windrow.engine.outer.outer_join import OuterJoin
from windrow.engine.outer.row_flags import FLAGS
from windrow.engine.partial_matches import PartialMatches, in_pieces
from windrow.engine.probe import Probe
from windrow.engine.result_builder import ResultBuilder
from windrow.engine.row_windows import KEY, OUT, RANK, SEQ, RowWindow, in_windows
from windrow.engine.rows import RowReader, Rows
from windrow.errors import QueryError
from windrow.eviction.context import Context
from windrow.eviction.window_view import RowState
from windrow.expr.split_predicate import split_predicate
from windrow.model.plan import Plan
from windrow.model.predicate import JoinColumn
from windrow.model.query import Function, Query
from windrow.model.stateful import Stateful
from windrow.planning.equivalence import equality_classes
from windrow.planning.levels import plan_shape
from windrow.planning.plan_builder import check_connected, check_paths
from windrow.window.window_store import WindowStore

Array = np.ndarray


@dataclass(frozen=True)
class ArrivingRows:
    """Rows of one stream in a sub-batch."""

    rows: Rows
    joinable: Array | None
    """Mask of the rows that can be in a result; None: all."""
    keys: Array | None = None
    """Number of each row's key. Only for windows counted per key."""
    seq: Array | None = None
    """Place of each row in the order of all streams. Only where windows are row windows."""
    flags: Array | None = None
    """Which conditions each row can fulfil. Only in outer joins."""

    def slice(self, start: int, end: int) -> ArrivingRows:
        columns = (self.joinable, self.keys, self.seq, self.flags)
        return ArrivingRows(
            self.rows.slice(start, end), *(None if a is None else a[start:end] for a in columns)
        )

    def stored(self) -> ArrivingRows:
        """Just the rows that can be in a result; where rows need no place in an order of all."""
        if self.joinable is None:
            return self
        flags = None if self.flags is None else self.flags[self.joinable]
        return ArrivingRows(self.rows.where(self.joinable), None, flags=flags)


class Join(Stateful):
    """The state of a window join once all schemas are known."""

    saved = ("evictor", "load_shedder", "dropped", "unsampled", "conserved", "found", "skipped", "outer")

    def __init__(self, query: Query, schemas: Sequence[pa.Schema]) -> None:
        self.query = query
        self.schemas = tuple(schemas)
        functions = {name: f for name, f in query.functions.items() if isinstance(f, Function)}
        self.predicate = split_predicate(query.on, dict(zip(query.aliases, schemas, strict=True)), functions)
        self.classes = equality_classes(self.predicate.atoms)
        _check_time_zones(query, schemas)
        check_connected(query, self.predicate)
        check_paths(query, self.predicate, self.classes)
        self.functions = functions
        count = len(schemas)
        self.join_columns = [self.predicate.columns_of(s) for s in range(count)]
        self.sets = [self.predicate.sets_of(s) for s in range(count)]
        self.evictor = self._make_evictor()
        self.load_shedder = make_load_shedder(query)
        """What saves time under a deadline."""
        self.dropped = [0] * count
        """Rows that were not let in, for lack of time, per stream."""
        self.unsampled = [0] * count
        """Of the rows that were not let in those that had no chance to be, per stream."""
        self.conserved = [0] * count
        """Rows let go because nothing would have looked at them again, per stream."""
        self.found = 0
        self.skipped = 0
        """Results, built or not; and those that were not built, for lack of time."""
        self.results_counted = 0
        """In which results were found."""
        self.readers = [RowReader(self.predicate, self.join_columns[s], s, functions) for s in range(count)]
        self._alike = [self._equal_columns(s) for s in range(count)]
        self.row_windows = [self._make_row_window(s) for s in range(count)]
        self.windows = [self._window(s) for s in range(count)]
        samples = self.evictor is not None and self.evictor.ranking.samples
        self.output = ResultBuilder(
            query.aliases,
            schemas,
            self.classes,
            functions,
            samples,
            query.kind.hidden,
            query.tells_certainty,
        )
        self.outer = self._make_outer()
        self.plan: Plan | None = None
        self._probes: list[Probe] = []
        self._compared_before = 0

    def _make_evictor(self) -> Evictor | None:
        if self.query.memory_limit is None:
            return None
        words = tuple(tuple(w) for w in self.join_columns)
        context = Context(self.query, self.schemas, words, self.classes, self.functions)
        return Evictor(self.query.memory_policy, self.query.memory_limit, context)

    def _make_outer(self) -> OuterJoin | None:
        query = self.query
        if not query.kind.shapes:
            return None
        words = tuple(tuple(w.name for w in own) for own in self.join_columns)
        parts = JoinParts(query.aliases, self.windows, words, self.functions)
        plans = [plan_shape(query, self.predicate, shape) for shape in query.kind.shapes]
        return OuterJoin(plans, parts, self.output, query.kind.eager, query.tells_certainty)

    def _equal_columns(self, stream: int) -> list[tuple[str, str]]:
        """Pairs of the stream's join columns that must be equal in any row of a result."""
        pairs = []
        for members in self.classes:
            own = [w.name for w in members if w.stream == stream]
            pairs += [(own[0], other) for other in own[1:]]
        return pairs

    def _window(self, stream: int) -> WindowStore:
        described = list(self.query.streams.values())[stream].window
        columns: dict[str, type[np.generic]] = {
            w.name: np.float64 if w.kind == "float" else np.int64 for w in self.join_columns[stream]
        }
        return WindowStore(
            self.schemas[stream],
            columns | self.kept_columns(stream),
            described.size if described.is_time else None,
            {word.name: partial(self.readers[stream].sets, word) for word in self.sets[stream]},
        )

    def kept_columns(self, stream: int) -> dict[str, type[np.generic]]:
        """Columns of a stream's window that can't be computed from the rows again."""
        order: tuple[str, ...] = ()
        if self.query.counts_rows:
            order = (SEQ,) if self.row_windows[stream] is None else (SEQ, OUT, RANK, KEY)
        elif self.query.kind.shapes:
            order = (FLAGS,)
        kept: dict[str, type[np.generic]] = dict.fromkeys(order, np.int64)
        return kept | dict(self.row_state)

    def _make_row_window(self, stream: int) -> RowWindow | None:
        window = list(self.query.streams.values())[stream].window
        if window.is_time:
            return None
        keys = self._key_columns(stream) if window.kind == "rows per key" else []
        exact = len(keys) == 1 and keys[0].kind != "hash"
        return RowWindow(window.size, KeyNumbers(exact) if keys else None)

    def _key_columns(self, stream: int) -> list[JoinColumn]:
        """The words that make up a stream's join key."""
        return [w for members in self.classes for w in members if w.stream == stream]

    @property
    def row_state(self) -> RowState:
        """Columns that policies keep with each row."""
        return (
            *(self.load_shedder.row_state if self.load_shedder else ()),
            *(self.evictor.row_state if self.evictor else ()),
        )

    @property
    def comparisons(self) -> int:
        """Rows compared so far."""
        outer = self.outer.comparisons if self.outer else 0
        return self._compared_before + sum(p.comparisons for p in self._probes) + outer

    def install(self, plan: Plan) -> None:
        """Follows another plan from now on; brings the windows' indexes into line with it."""
        self._compared_before += sum(p.comparisons for p in self._probes)
        self.plan = plan
        what = (self.windows, self.query.aliases, self.functions)
        self._probes = [Probe(d, *what) for d in plan.directions]
        hashed: list[dict[tuple[str, ...], int | None]] = [{} for _ in self.windows]
        ranged: list[set[str]] = [set() for _ in self.windows]
        steps = [step for direction in plan.directions for step in direction.steps]
        for step in steps + (self.outer.steps if self.outer else []):
            own = tuple(w.name for w in step.indexed)
            if step.access.path == "hash":
                hashed[step.stream][own] = step.access.buckets
            elif step.access.path == "sorted":
                ranged[step.stream].update(own)
        for window, by_hash, by_range in zip(self.windows, hashed, ranged, strict=True):
            window.index(by_hash, by_range)

    def read(self, stream: int, ts: Array, batch: pa.RecordBatch) -> ArrivingRows:
        rows, passed, valid = self.readers[stream].read(ts, batch)
        alike = [rows.columns[x] == rows.columns[y] for x, y in self._alike[stream]]
        if self.outer is not None:
            rows, flags, stored = self.outer.read(stream, rows, passed, valid, _all_of(*alike))
            return ArrivingRows(rows, stored, flags=flags)
        return ArrivingRows(rows, _all_of(passed, *valid.values(), *alike), self._keys(stream, rows, valid))

    def _keys(self, stream: int, rows: Rows, valid: Mapping[str, Array | None]) -> Array | None:
        """Number of each row's key, for windows counted per key."""
        counted = self.row_windows[stream]
        if counted is None or counted.keys is None:
            return None
        words = self._key_columns(stream)
        whole = _all_of(*(valid[w.name] for w in words))
        who = np.arange(len(rows)) if whole is None else np.flatnonzero(whole)
        keys = np.full(len(rows), NO_KEY)
        if counted.keys.exact:
            keys[who] = counted.keys.number_words(rows.columns[words[0].name][who].view(np.int64))
        elif len(who):
            batch = rows.payload.take(pa.array(who))
            keys[who] = counted.keys.number_values([self.readers[stream].values(w, batch) for w in words])
        return keys

    def expire(self, horizons: Sequence[int | None], seq: int) -> list[int]:
        """Lets go of rows that can be in no later result; returns how many per stream."""
        if self.outer is not None:
            horizons = self.outer.bounded(horizons)
        gone = []
        for window, counted, horizon in zip(self.windows, self.row_windows, horizons, strict=True):
            if counted is not None:
                gone.append(counted.expire(window, seq))
            else:
                gone.append(0 if horizon is None else window.expire(horizon))
        return gone

    def evaluate(
        self, arrivals: Sequence[ArrivingRows], controller: DeadlineController | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Takes in a sub-batch's rows and yields the results they complete, in the time that `controller`
        knows."""
        now = max(int(a.rows.ts[-1]) for a in arrivals if len(a.rows))
        lap = (lambda kind: None) if controller is None else controller.watch.lap
        if self.load_shedder and controller:
            arrivals = self._drop_rows(self.load_shedder, arrivals, now, controller.z)
        # Which rows the sub-batch pushes out of row windows must be known before any of them is probed.
        places = [self._places(stream, arrived) for stream, arrived in enumerate(arrivals)]
        if self.evictor:
            times = [a.rows.ts for a in arrivals if len(a.rows)]
            first = min((int(ts[0]) for ts in times), default=now)
            self.evictor.begin_sub_batch(self, sum(map(len, times)), first, now)
        for stream, arrived in enumerate(arrivals):
            start = self._append(stream, arrived, places[stream])
            if start == self.windows[stream].end:
                continue
            if self.evictor:
                self.evictor.arrived(self, stream, start)
            lap(TAKE)
            if self.outer is not None:
                yield from self.outer.arrived(stream, start)
            for partials in in_pieces(self._checked(stream, start)):
                lap(PROBE)
                yield from self._results(partials, controller)
                lap(BUILD)
            lap(PROBE)
        if self.load_shedder:
            self._evict_unharvested(self.load_shedder, now)
        if self.evictor:
            self.evictor.enforce_limit(self)
        lap(TAKE)

    def removable(self, stream: int, spent: Array | None) -> Array | None:
        """Mask of the rows that are `spent` or that later rows have pushed out; None: none."""
        counted = self.row_windows[stream]
        dead = None if counted is None else counted.displaced(self.windows[stream])
        return spent if dead is None else dead if spent is None else spent | dead

    def evict(self, stream: int, leaving: Array, tight: bool) -> int:
        """Lets go of rows for lack of memory; returns how many, without those that were pushed out."""
        if self.outer is not None:
            self.outer.evicted(stream, leaving)
        dead, counted = self.removable(stream, None), self.row_windows[stream]
        self.windows[stream].keep(~leaving, tight)
        if dead is not None and counted is not None:
            counted.displaced_early += (early := int(np.count_nonzero(leaving & dead)))
            return int(np.count_nonzero(leaving)) - early
        return int(np.count_nonzero(leaving))

    def forget_keys(self) -> None:
        """Between calls: of rows that are read and not taken in yet, keys have their numbers already."""
        for window, counted in zip(self.windows, self.row_windows, strict=True):
            if counted is not None and self.evictor is not None:
                counted.forget(window)

    def _checked(self, stream: int, start: int) -> Iterator[PartialMatches]:
        """Results of the rows from position `start` on, inside all windows."""
        if self.outer is not None and not self.outer.eager:
            return
        for partials in self._probe(stream, start):
            if self.outer is not None:
                partials = self.outer.whole(partials)
            if self.query.counts_rows:
                partials = partials.where(self._in_windows(partials))
            if len(partials):
                yield partials

    def _probe(self, stream: int, start: int) -> Iterator[PartialMatches]:
        probe = self._probes[stream]
        if self.load_shedder is None:
            return probe.run(self.windows, start)
        self.load_shedder.arrived(self, stream, start)
        return self.load_shedder.probe(self, probe, start)

    def _drop_rows(
        self, load_shedder: LoadShedder, arrivals: Sequence[ArrivingRows], now: int, z: float
    ) -> Sequence[ArrivingRows]:
        """Rows that are dropped keep their place in the order of all streams."""
        masks = load_shedder.begin(self, [len(a.rows) for a in arrivals], now, z)
        if masks is None:
            return arrivals
        return self.admit(arrivals, masks)

    def admit(self, arrivals: Sequence[ArrivingRows], masks: Sequence[Array | None]) -> list[ArrivingRows]:
        """Without the rows that a mask leaves out, which are counted; None stands for all."""
        for stream, mask in enumerate(masks):
            if mask is not None:
                self.dropped[stream] += int(len(mask) - mask.sum())
        return [replace(a, joinable=_all_of(a.joinable, m)) for a, m in zip(arrivals, masks, strict=True)]

    def _evict_unharvested(self, load_shedder: LoadShedder, now: int) -> None:
        """Lets go of rows that have grown older than anything that is looked at."""
        ages = load_shedder.max_useful_ages()
        if ages is None:
            return
        for stream, (window, age) in enumerate(zip(self.windows, ages, strict=True)):
            if window.span is not None:
                self.conserved[stream] += window.expire(now - self.query.watermark_delay_us - age)

    def _results(
        self, partials: PartialMatches, controller: DeadlineController | None
    ) -> Iterator[pa.RecordBatch]:
        sample = self.evictor.on_results(self, partials) if self.evictor else None
        if sample is not None:
            partials = partials.where(sample.chosen)
        if self.load_shedder and controller:
            found = len(partials)
            partials = self.load_shedder.affordable(self, partials, controller)
            self.found += found
            self.skipped += found - len(partials)
            self.results_counted += 1
        if len(partials):
            yield self.output.build(partials, self.windows, sample)

    def _places(self, stream: int, arrived: ArrivingRows) -> dict[str, Array]:
        """The columns that tell a row's place in the order of all streams, where windows are counted."""
        if arrived.flags is not None:
            return {FLAGS: arrived.flags}
        if arrived.seq is None:
            return {}
        counted = self.row_windows[stream]
        places = {} if counted is None else counted.admit(self.windows[stream], arrived.seq, arrived.keys)
        return {SEQ: arrived.seq} | places

    def _append(self, stream: int, arrived: ArrivingRows, places: dict[str, Array]) -> int:
        rows = arrived.rows
        if arrived.joinable is not None and not arrived.joinable.all():
            places = {name: column[arrived.joinable] for name, column in places.items()}
            rows = rows.where(arrived.joinable)
        return self.windows[stream].append(rows.ts, {**rows.columns, **places}, rows.payload)

    def _in_windows(self, partials: PartialMatches) -> Array:
        return in_windows(partials, self.windows, self.row_windows)


def _all_of(*masks: Array | None) -> Array | None:
    """Rows that are in every mask; None stands for all rows."""
    given = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(given) if given else None


def _check_time_zones(query: Query, schemas: Sequence[pa.Schema]) -> None:
    zoned = {
        alias: schema.field(stream.time).type.tz is not None
        for (alias, stream), schema in zip(query.streams.items(), schemas, strict=True)
    }
    if len(set(zoned.values())) > 1:
        with_zone = [a for a, z in zoned.items() if z]
        without = [a for a, z in zoned.items() if not z]
        raise QueryError(
            f"time columns of {with_zone} have a time zone, those of {without} have none; "
            "bring all to UTC with a zone, or all to plain timestamps"
        )
