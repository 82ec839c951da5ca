"""Recent arrival rate of each key on each stream, in bounded memory (PROB; Memory, section 3.3).

A stored row of stream i with key v finds, per second,  sum over j of r_j f_j(v)  rows of the other streams.
With m streams sharing a key a result also needs a row of each further stream l, whose window holds about r_l
f_l(v) T_l rows of the key. So the rate is  sum over j of r_j f_j(v) prod over l of r_l f_l(v) T_l.  If a row
has several keys, the factors of each are multiplied. Streams without a shared key affect all rows alike and
are left out.
"""

from __future__ import annotations

import numpy as np

from windrow.eviction.rates import DecayedTime
from windrow.eviction.window_view import WindowView
from windrow.kernels import count_min_sketch
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
ROWS = 3
SMALLEST_UNIT = 1e-6
STEADY = 1 / 16
"""Rates are reliable once this fraction of the longest window has passed."""


class CountSketch(Stateful):
    """Decayed counts of keys.

    Cells do not decay one by one. They are in a unit that shrinks over time, so newer counts weigh more.
    """

    saved = ("_cells", "total", "_unit")

    def __init__(self, width: int) -> None:
        self._cells = np.zeros((ROWS, width))
        self.total = 0.0
        self._unit = 1.0

    def add(self, keys: Array, each: float = 1.0) -> None:
        """Adds `each` to the count of each of these keys."""
        count_min_sketch.add(self._cells, keys.view(np.int64), each / self._unit)
        self.total += each * len(keys)

    def multiply(self, keys: Array, times: float, out: Array) -> None:
        """Multiplies `out` by `times` the count of each key."""
        total = self.total / self._unit
        count_min_sketch.estimate(self._cells, total, keys.view(np.int64), times * self._unit, out)

    def decay(self, factor: float) -> None:
        self.total *= factor
        self._unit *= factor
        if self._unit < SMALLEST_UNIT:
            self._cells *= self._unit
            self._unit = 1.0


class KeyRates(Stateful):
    """Sketches of `width` cells; the half-life of the counts is in windows."""

    saved = ("_sketches", "_time", "_until", "_spans")
    clocks = ("_until",)

    def __init__(self, bound: BoundQuery, width: int, half_life: float) -> None:
        self._columns, self._streams = bound.key_names, bound.key_streams
        self._sketches = {
            (key, stream): CountSketch(width)
            for key, streams in enumerate(self._streams)
            for stream in streams
        }
        self._half_life = half_life
        self._time = DecayedTime()
        self._until: int | None = None
        self._spans = [0.0] * len(bound.join_columns)

    def on_arrival(self, view: WindowView, every: int = 1) -> None:
        """Counts every `every`-th new row, with that weight."""
        self._spans[view.stream] = view.window_length / 1e6
        for key, column in self._columns[view.stream].items():
            self._sketches[key, view.stream].add(view.join_columns[column][view.first_new :: every], every)

    def end_sub_batch(self, now: int, counted: float | None = None) -> None:
        """Event time reaches `now`; rows of the last `counted` seconds were counted (None: all rows)."""
        longest = max(self._spans)
        if self._until is not None and now > self._until and longest > 0:
            factor = self._time.advance((now - self._until) / 1e6, self._half_life * longest, counted)
            for sketch in self._sketches.values():
                sketch.decay(factor)
        self._until = now if self._until is None else max(now, self._until)

    @property
    def seconds(self) -> float:
        """Event time that the rates are averaged over, decayed."""
        return self._time.seconds

    @property
    def settled(self) -> bool:
        """Whether rates are averaged over enough of a window to be reliable."""
        return self.seconds >= STEADY * max(self._spans)

    def rates(self, view: WindowView, rows: Array | slice = slice(None)) -> Array:
        """Expected results per second of each row of the view, or of some of them."""
        found = np.ones(len(view.ts[rows]))
        per_second = 1 / max(self.seconds, 1e-6)
        for key, column in self._columns[view.stream].items():
            keys = view.join_columns[column][rows]
            others = [s for s in self._streams[key] if s != view.stream]
            if len(others) == 1:
                self._sketches[key, others[0]].multiply(keys, per_second, found)
                continue
            arriving = np.ones((len(others), len(keys)))
            for stream, out in zip(others, arriving, strict=True):
                self._sketches[key, stream].multiply(keys, per_second, out)
            found *= results_per_second(arriving, arriving * np.array([[self._spans[s]] for s in others]))
        return found

    def rows_per_second(self, stream: int) -> float:
        """Arrival rate of a stream with a join key; 0 for others."""
        totals = [sketch.total for (_, owner), sketch in self._sketches.items() if owner == stream]
        return max(totals, default=0.0) / max(self.seconds, 1e-6)


def results_per_second(arriving: Array, held: Array) -> Array:
    """Results per second of a row whose key arrives on each other stream (first axis) at these rates while
    `held` rows of it are in their windows. Any stream may complete the result with the rows of the others."""
    each = [arriving[j] * np.prod(np.delete(held, j, axis=0), axis=0) for j in range(len(arriving))]
    return np.asarray(sum(each))
