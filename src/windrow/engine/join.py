"""The join proper: windows, plan and probes, one quantum at a time.  expire -> append -> probe -> results.

Streams take their turn in a fixed order: a stream's new rows are appended, then probe all other windows.
So of the rows that came together a result is found exactly once, by the last of its streams to take turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from windrow.engine.counting import EXTRA_COLUMNS, CountedWindow, in_windows
from windrow.engine.keys import NO_KEY, KeyNumbers
from windrow.engine.output import Output
from windrow.engine.partials import Partials, in_pieces
from windrow.engine.planner import check_connected, check_paths
from windrow.engine.probe import Probe
from windrow.engine.rows import RowReader, Rows
from windrow.engine.saver import Saver, make_saver
from windrow.engine.shedding import Shedder
from windrow.engine.stopwatch import BUILD, PROBE, TAKE
from windrow.engine.timekeeper import TimeKeeper
from windrow.errors import QueryError
from windrow.expr.split import split
from windrow.model.plan import Plan
from windrow.model.predicate import Word
from windrow.model.query import Function, Query
from windrow.planning.equivalence import equality_classes
from windrow.shed.context import Context
from windrow.shed.view import Notes
from windrow.window.window import Window

Array = np.ndarray
_NOTHING = np.zeros(1)
"""What notes are to begin with."""


@dataclass(frozen=True)
class Arrivals:
    """Rows of one stream in a quantum."""

    rows: Rows
    useful: Array | None
    """Mask of the rows that can be in a result; None: all."""
    keys: Array | None = None
    """Number of each row's key. Only for windows counted per key."""
    seq: Array | None = None
    """Place of each row in the order of all streams. Only where windows are counted in rows."""

    def slice(self, start: int, end: int) -> Arrivals:
        parts = (None if a is None else a[start:end] for a in (self.useful, self.keys, self.seq))
        return Arrivals(self.rows.slice(start, end), *parts)


class Join:
    """The state of a window join once all schemas are known."""

    def __init__(self, query: Query, schemas: Sequence[pa.Schema]) -> None:
        self.query = query
        self.schemas = tuple(schemas)
        functions = {name: f for name, f in query.functions.items() if isinstance(f, Function)}
        self.predicate = split(query.on, dict(zip(query.aliases, schemas, strict=True)), functions)
        self.classes = equality_classes(self.predicate.atoms)
        _check_time_zones(query, schemas)
        check_connected(query, self.predicate)
        check_paths(query, self.predicate, self.classes)
        self.functions = functions
        count = len(schemas)
        self.words = [self.predicate.words_of(s) for s in range(count)]
        self.numbers: dict[Word, int] = {w: k for words in self.words for k, w in enumerate(words)}
        self.sets = [self.predicate.sets_of(s) for s in range(count)]
        self.numbers |= {w: -1 - k for sets in self.sets for k, w in enumerate(sets)}
        self.shedder = self._make_shedder()
        self.saver = make_saver(query)
        """What saves time under a deadline."""
        self.dropped = [0] * count
        """Rows that were not let in, for lack of time, per stream."""
        self.blind = [0] * count
        """Of the rows that were not let in those that had no chance to be, per stream."""
        self.conserved = [0] * count
        """Rows let go because nothing would have looked at them again, per stream."""
        self.found = 0
        self.skipped = 0
        """Results, built or not; and those that were not built, for lack of time."""
        self.pieces_found = 0
        """In which results were found."""
        self.readers = [RowReader(self.predicate, self.words[s], s, functions) for s in range(count)]
        self._alike = [self._equal_words(s) for s in range(count)]
        self.windows = [self._window(s) for s in range(count)]
        self.counted = [self._counted(s) for s in range(count)]
        samples = self.shedder is not None and self.shedder.ranking.samples
        self.output = Output(query.aliases, schemas, self.classes, functions, samples)
        self.plan: Plan | None = None
        self._probes: list[Probe] = []
        self._compared_before = 0

    def _make_shedder(self) -> Shedder | None:
        if self.query.limit is None:
            return None
        words = tuple(tuple(w) for w in self.words)
        context = Context(self.query, self.schemas, words, self.classes, self.functions)
        return Shedder(self.query.policy, self.query.limit, context)

    def _equal_words(self, stream: int) -> list[tuple[int, int]]:
        """Pairs of the stream's words that must be equal in any row of a result."""
        pairs = []
        for members in self.classes:
            own = [self.numbers[w] for w in members if w.stream == stream]
            pairs += [(own[0], other) for other in own[1:]]
        return pairs

    def _window(self, stream: int) -> Window:
        described = list(self.query.streams.values())[stream].window
        dtypes = [np.dtype(np.float64 if w.kind == "float" else np.int64) for w in self.words[stream]]
        extra = 0
        if self.query.counts_rows:
            extra = 1 if described.is_time else len(EXTRA_COLUMNS)
        return Window(
            self.schemas[stream],
            [*dtypes, *[np.dtype(np.int64)] * extra, *(np.dtype(kind) for _, kind in self.notes)],
            described.size if described.is_time else None,
            [partial(self.readers[stream].sets, word) for word in self.sets[stream]],
        )

    def _counted(self, stream: int) -> CountedWindow | None:
        window = list(self.query.streams.values())[stream].window
        if window.is_time:
            return None
        keys = self._key_words(stream) if window.kind == "rows per key" else []
        exact = len(keys) == 1 and keys[0].kind != "hash"
        return CountedWindow(window.size, KeyNumbers(exact) if keys else None, len(self.words[stream]))

    def _key_words(self, stream: int) -> list[Word]:
        """The words that make up a stream's join key."""
        return [w for members in self.classes for w in members if w.stream == stream]

    @property
    def notes(self) -> Notes:
        """Columns that policies keep with each row, after all others."""
        return (*(self.saver.notes if self.saver else ()), *(self.shedder.notes if self.shedder else ()))

    @property
    def compared(self) -> int:
        """Rows compared so far."""
        return self._compared_before + sum(p.compared for p in self._probes)

    def install(self, plan: Plan) -> None:
        """Follows another plan from now on; brings the windows' indexes into line with it."""
        self._compared_before = self.compared
        self.plan = plan
        what = (self.numbers, self.windows, self.query.aliases, self.functions)
        self._probes = [Probe(d, *what) for d in plan.directions]
        hashed: list[dict[tuple[int, ...], int | None]] = [{} for _ in self.windows]
        ranged: list[set[int]] = [set() for _ in self.windows]
        for step in (step for direction in plan.directions for step in direction.steps):
            own = tuple(self.numbers[w] for w in step.indexed)
            if step.access.path == "hash":
                hashed[step.stream][own] = step.access.buckets
            elif step.access.path == "sorted":
                ranged[step.stream].update(own)
        for window, by_hash, by_range in zip(self.windows, hashed, ranged, strict=True):
            window.index(by_hash, by_range)

    def read(self, stream: int, ts: Array, batch: pa.RecordBatch) -> Arrivals:
        rows, passed, valid = self.readers[stream].read(ts, batch)
        alike = [rows.words[i] == rows.words[j] for i, j in self._alike[stream]]
        return Arrivals(rows, _all_of(passed, *valid, *alike), self._keys(stream, rows, valid))

    def _keys(self, stream: int, rows: Rows, valid: Sequence[Array | None]) -> Array | None:
        """Number of each row's key, for windows counted per key."""
        counted = self.counted[stream]
        if counted is None or counted.keys is None:
            return None
        words = self._key_words(stream)
        whole = _all_of(*(valid[self.numbers[w]] for w in words))
        who = np.arange(len(rows)) if whole is None else np.flatnonzero(whole)
        keys = np.full(len(rows), NO_KEY)
        if counted.keys.exact:
            keys[who] = counted.keys.number_words(rows.words[self.numbers[words[0]]][who].view(np.int64))
        elif len(who):
            batch = rows.payload.take(pa.array(who))
            keys[who] = counted.keys.number_values([self.readers[stream].values(w, batch) for w in words])
        return keys

    def expire(self, horizons: Sequence[int | None], seq: int) -> list[int]:
        """Lets go of rows that can be in no later result; returns how many per stream."""
        gone = []
        for window, counted, horizon in zip(self.windows, self.counted, horizons, strict=True):
            if counted is not None:
                gone.append(counted.expire(window, seq))
            else:
                gone.append(0 if horizon is None else window.expire(horizon))
        return gone

    def evaluate(
        self, arrivals: Sequence[Arrivals], keeper: TimeKeeper | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Takes in a quantum's rows and yields the results they complete, in the time that `keeper` knows."""
        now = max(int(a.rows.ts[-1]) for a in arrivals if len(a.rows))
        lap = (lambda kind: None) if keeper is None else keeper.watch.lap
        if self.saver and keeper:
            arrivals = self._let_in(self.saver, arrivals, now, keeper.z)
        # Which rows the quantum pushes out of counted windows must be known before any of them is probed.
        places = [self._places(stream, arrived) for stream, arrived in enumerate(arrivals)]
        if self.shedder:
            times = [a.rows.ts for a in arrivals if len(a.rows)]
            first = min((int(ts[0]) for ts in times), default=now)
            self.shedder.begin(self, sum(map(len, times)), first, now)
        for stream, arrived in enumerate(arrivals):
            start = self._append(stream, arrived, places[stream])
            if start == self.windows[stream].end:
                continue
            if self.shedder:
                self.shedder.arrived(self, stream, start)
            lap(TAKE)
            for partials in in_pieces(self._checked(stream, start)):
                lap(PROBE)
                yield from self._results(partials, keeper)
                lap(BUILD)
            lap(PROBE)
        if self.saver:
            self._conserve(self.saver, now)
        if self.shedder:
            self.shedder.settle(self)
        lap(TAKE)

    def of_no_use(self, stream: int, spent: Array | None) -> Array | None:
        """Mask of the rows that are `spent` or that later rows have pushed out; None: none."""
        counted = self.counted[stream]
        dead = None if counted is None else counted.pushed_out(self.windows[stream])
        return spent if dead is None else dead if spent is None else spent | dead

    def let_go(self, stream: int, leaving: Array, tight: bool) -> int:
        """Lets go of rows for lack of memory; returns how many, without those that were pushed out."""
        dead, counted = self.of_no_use(stream, None), self.counted[stream]
        self.windows[stream].keep(~leaving, tight)
        if dead is not None and counted is not None:
            counted.early += (early := int(np.count_nonzero(leaving & dead)))
            return int(np.count_nonzero(leaving)) - early
        return int(np.count_nonzero(leaving))

    def forget_keys(self) -> None:
        """Between calls: of rows that are read and not taken in yet, keys have their numbers already."""
        for window, counted in zip(self.windows, self.counted, strict=True):
            if counted is not None and self.shedder is not None:
                counted.forget(window)

    def _checked(self, stream: int, start: int) -> Iterator[Partials]:
        """Results of the rows from position `start` on, inside all windows."""
        for partials in self._probe(stream, start):
            if self.query.counts_rows:
                partials = partials.where(self._in_windows(partials))
            if len(partials):
                yield partials

    def _probe(self, stream: int, start: int) -> Iterator[Partials]:
        probe = self._probes[stream]
        if self.saver is None:
            return probe.run(self.windows, start)
        self.saver.arrived(self, stream, start)
        return self.saver.probe(self, probe, start)

    def _let_in(self, saver: Saver, arrivals: Sequence[Arrivals], now: int, z: float) -> Sequence[Arrivals]:
        """Rows that are dropped keep their place in the order of all streams."""
        masks = saver.begin(self, [len(a.rows) for a in arrivals], now, z)
        if masks is None:
            return arrivals
        return self.admit(arrivals, masks)

    def admit(self, arrivals: Sequence[Arrivals], masks: Sequence[Array | None]) -> list[Arrivals]:
        """Without the rows that a mask leaves out, which are counted; None stands for all."""
        for stream, mask in enumerate(masks):
            if mask is not None:
                self.dropped[stream] += int(len(mask) - mask.sum())
        return [replace(a, useful=_all_of(a.useful, m)) for a, m in zip(arrivals, masks, strict=True)]

    def _conserve(self, saver: Saver, now: int) -> None:
        """Lets go of rows that have grown older than anything that is looked at."""
        ages = saver.worth_keeping()
        if ages is None:
            return
        for stream, (window, age) in enumerate(zip(self.windows, ages, strict=True)):
            if window.span is not None:
                self.conserved[stream] += window.expire(now - self.query.lateness - age)

    def _results(self, partials: Partials, keeper: TimeKeeper | None) -> Iterator[pa.RecordBatch]:
        sample = self.shedder.found(self, partials) if self.shedder else None
        if sample is not None:
            partials = partials.where(sample.chosen)
        if self.saver and keeper:
            found = len(partials)
            partials = self.saver.affordable(self, partials, keeper)
            self.found += found
            self.skipped += found - len(partials)
            self.pieces_found += 1
        if len(partials):
            yield self.output.build(partials, self.windows, sample)

    def _places(self, stream: int, arrived: Arrivals) -> list[Array]:
        """The columns that tell a row's place in the order of all streams, where windows are counted."""
        if arrived.seq is None:
            return []
        counted = self.counted[stream]
        if counted is None:
            return [arrived.seq]
        return [
            arrived.seq,
            *counted.admit(self.windows[stream], arrived.seq, arrived.keys),
        ]

    def _append(self, stream: int, arrived: Arrivals, places: list[Array]) -> int:
        rows = arrived.rows
        if arrived.useful is not None and not arrived.useful.all():
            places = [column[arrived.useful] for column in places]
            rows = rows.where(arrived.useful)
        notes = [_NOTHING] * len(self.notes)
        return self.windows[stream].append(rows.ts, (*rows.words, *places, *notes), rows.payload)

    def _in_windows(self, partials: Partials) -> Array:
        return in_windows(partials, self.windows, self.counted, [len(words) for words in self.words])


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
