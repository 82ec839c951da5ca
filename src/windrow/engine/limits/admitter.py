"""Which units of rows are admitted when there is not time for all, and what that loses.

Units have a fixed order drawn by the seed, and the first so many in it are admitted. So those that stay when
there is less time are among those that stayed before, and their windows are complete. Units that have far
more combinations than others, those of hot keys, are certain: without them chance would decide how much work
there is and how much is found.

A result is found with the least chance that its unit had when one of its rows arrived: its weight is the
inverse (Horvitz-Thompson). Results of a unit come or go together, so the variance is that of the totals of
units (one cluster each); where a result needs several units, of each, to first order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from windrow.engine.limits.admission_units import UNITS, Units
from windrow.kernels.admission_units import chances, finders, weigh
from windrow.kernels.harvest.call_load import survey
from windrow.model.stateful import Stateful

if TYPE_CHECKING:
    from windrow.engine.partial_matches import PartialMatches
    from windrow.engine.rows import ArrivingRows
    from windrow.window.window_store import WindowStore

Array = np.ndarray
HOT, COOLED = 8.0, 4.0
"""Times the mean of combinations that makes a unit hot, and below which it no longer is."""
COUNTED_AT_ONCE = 512
"""Results of a piece whose chances are looked at; they stand for the others."""
CELLS = 64
"""With fewer, cells are too coarse to be left out one by one."""
HANDFUL = 5
"""Units that must have brought results for an estimate to rest on."""


class Admitter(Stateful):
    saved = (
        "admitted", "found", "true", "variance", "partial", "finders", "_totals", "_held", "_now",
        "_hot", "_since", "_chance", "_certain",
    )  # fmt: skip
    clocks = ("_now",)

    def __init__(self, units: Units, seed: int, streams: int) -> None:
        self.units = units
        self.admitted = UNITS
        """How many, in their order; besides hot ones."""
        self.found = self.true = 0.0
        self.variance = 0.0
        """Results, the estimate of all that there are, and its variance."""
        self.partial = False
        """Whether there ever were rows that did not probe."""
        self.finders = 0
        """Rows that found something while not all rows probed."""
        self._totals = np.zeros(UNITS)
        """Weights of the results of each unit that was not certain, summed."""
        self._order = np.random.default_rng((seed, 11)).permutation(UNITS)
        self._place = np.argsort(self._order)
        self._held = np.zeros((streams, UNITS))
        """Rows that came, admitted or not, lately: about as many as whole windows would hold."""
        self._new = np.zeros((streams, UNITS))
        self._now: int | None = None
        self._hot = np.zeros(UNITS, bool)
        self._since: list[int] = []
        self._chance: list[float] = []
        self._certain: list[Array] = []
        """From which event time on units had which chance, and which were hot and therefore certain. A unit
        may cool and become hot again while rows of both times are in the windows."""

    @property
    def thinned(self) -> bool:
        """Whether rows that are missing in the windows may still matter."""
        return bool(self._since)

    @property
    def spares(self) -> bool:
        """Whether any unit is hot."""
        return bool(self._hot.any())

    @property
    def bringing(self) -> int:
        """Units that were not certain and brought results."""
        return int(np.count_nonzero(self._totals))

    @property
    def unit(self) -> float:
        """What the results of one unit more would weigh, had it been among those admitted."""
        total = float(self._totals.sum())
        return float((self._totals**2).sum()) / total if total else 0.0

    # -- the data flow ------------------------------------------------------------------------------

    def survey(self, windows: Sequence[WindowStore], arrivals: Sequence[ArrivingRows]) -> list[Array | None]:
        """Takes note of the rows of a call; returns the unit of each, per stream, where it has one."""
        now = max(int(a.rows.ts[-1]) for a in arrivals if len(a.rows))
        found: list[Array | None] = [None] * len(arrivals)
        if self._now is None:
            for stream in self.units.streams:
                window = windows[stream]
                units = self.units.in_window(stream, window, slice(window.first, window.end))
                self._held[stream] = np.bincount(units, minlength=UNITS)
        for stream in self.units.streams:
            rows, window = arrivals[stream].rows, windows[stream]
            found[stream] = units = self.units.of(stream, rows.ts, rows.columns)
            passed = 0 if self._now is None else max(0, now - self._now)
            self._new[stream] = np.bincount(units, minlength=UNITS)
            self._held[stream] = self._held[stream] * np.exp(-passed / window.covers) + self._new[stream]
        self._now = now if self._now is None else max(now, self._now)
        return found

    def shares(self, arrivals: Sequence[ArrivingRows], spare: bool = True) -> tuple[Array, Array]:
        """By how many units are admitted: the share of this call's rows that are, and of its results. Hot
        units come first, unless none is to be spared."""
        streams = self.units.streams
        total = float(sum(len(a.rows) for a in arrivals))
        if self.units.by_row:
            part = np.arange(UNITS + 1) / UNITS
            return part, part ** len(streams)
        if self.units.by_cell and np.count_nonzero(self._new.sum(axis=0)) < CELLS:
            # To leave out one of so few would be too much.
            return np.ones(UNITS + 1), np.ones(UNITS + 1)
        rows, share = np.empty(UNITS + 1), np.empty(UNITS + 1)
        new, held = self._new, self._held
        if len(streams) < len(arrivals):
            new, held = new[streams], held[streams]
        # A unit stays hot while it is near to it: each change would cost the rows of a window.
        bounds = (HOT, COOLED) if spare else (np.inf, np.inf)
        survey(new, held, self._order, *bounds, self._hot, rows, share)
        rows += total - rows[-1]
        return rows / max(total, 1.0), share

    def fill(self, windows: Sequence[WindowStore]) -> float:
        """The part of the rows that arrived lately which are in the windows."""
        held = sum(len(windows[stream]) for stream in self.units.streams)
        return min(1.0, held / max(1.0, float(self._held.sum()))) if self.thinned else 1.0

    def admit(
        self,
        windows: Sequence[WindowStore],
        count: int,
        arrivals: Sequence[ArrivingRows],
        units: Sequence[Array | None],
    ) -> list[Array | None]:
        """Admits this many units from now on; returns masks of the rows that are admitted, None for all."""
        self.admitted = count
        self._remember(windows, count / UNITS, min(int(a.rows.ts[0]) for a in arrivals if len(a.rows)))
        if count == UNITS:
            return [None] * len(arrivals)
        kept = (self._place < count) | self._hot
        return [None if each is None else kept[each] for each in units]

    def _remember(self, windows: Sequence[WindowStore], chance: float, since: int) -> None:
        certain = self._hot & (chance < 1.0)
        last = (self._chance[-1], self._certain[-1]) if self._since else (1.0, np.zeros(UNITS, bool))
        if chance != last[0] or not np.array_equal(certain, last[1]):
            self._since.append(max([since, *self._since[-1:]]))
            self._chance.append(chance)
            self._certain.append(certain)
        if self._since:
            held = [int(w.ts[w.first : w.end].min()) for w in windows if len(w)]
            gone = max(0, bisect_right(self._since, min([since, *held])) - 1)
            if (
                len(self._since) == gone + 1
                and self._chance[-1] == 1.0
                and self._since[-1] <= min([since, *held])
            ):
                gone += 1
            del self._since[:gone], self._chance[:gone], self._certain[:gone]

    def count(
        self, windows: Sequence[WindowStore], partials: PartialMatches, arriving: int, probes: float
    ) -> None:
        """Weighs results that arriving rows found, on account of rows that were not admitted, and of rows
        that did not probe while this part of them did."""
        count = len(partials)
        self.found += count
        mean = 1 / probes
        if self.thinned:
            which = slice(None, None, -(-count // COUNTED_AT_ONCE))
            units, chance = self._chances(windows, partials, which)
            weight = mean * count / units.shape[1]
            true, variance = weigh(units, chance, weight, 1 - self._chance[-1], self._totals)
            mean, self.variance = true / count, self.variance + variance
        self.true += count * mean
        if probes < 1:
            count, squares = finders(partials.rows[arriving])
            self.finders += count
            self.variance += (1 - probes) * mean**2 * squares

    def weights(self, windows: Sequence[WindowStore], partials: PartialMatches) -> Array | float:
        """Of each result."""
        if not self.thinned:
            return 1.0
        return 1 / np.prod(self._chances(windows, partials, slice(None))[1], axis=0)

    def _chances(
        self, windows: Sequence[WindowStore], partials: PartialMatches, which: slice
    ) -> tuple[Array, Array]:
        """Of some results the units, by stream, and the chance of each (of units that a result has several
        rows of, once; else 1)."""
        units: list[Array] = []
        times: list[Array] = []
        for stream in self.units.streams:
            window, rows = windows[stream], partials.rows[stream][which]
            times.append(window.ts[rows])
            known = units and self.units.by_key
            units.append(units[0] if known else self.units.in_window(stream, window, rows))
        out = np.empty((len(units), len(times[0])))
        chance = np.maximum(self._chance, 1 / UNITS)
        steps = (np.array(self._since), chance, np.stack(self._certain))
        chances(np.stack(units), np.stack(times), *steps, out)
        return np.stack(units), out
