"""Chooses which units are admitted when time is short, and estimates what that loses.

The seed fixes an order of the units, and a prefix of it is admitted. With less time the prefix shrinks, so
the units that stay were admitted before and their windows are complete. Units of hot keys have far more
combinations than others and are always admitted; otherwise chance would decide how much work there is and how
much is found.

A result is found with the smallest probability its unit had when any of its rows arrived; its weight is the
inverse (Horvitz-Thompson). Results of a unit are found or lost together, so the variance is that of unit
totals, one cluster per unit. For a result of several units it is taken for each, to first order.
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
"""A unit becomes hot at 8 times the mean number of combinations, and stays hot down to 4 times."""
COUNTED_AT_ONCE = 512
"""Sample size: probabilities are computed for this many results of a piece."""
CELLS = 64
"""With fewer occupied cells, each is too coarse to be dropped."""
HANDFUL = 5
"""Minimum number of units with results for an estimate."""


class Admitter(Stateful):
    saved = (
        "admitted", "found", "true", "variance", "partial", "finders", "_totals", "_held", "_now",
        "_hot", "_since", "_chance", "_certain",
    )  # fmt: skip
    clocks = ("_now",)

    def __init__(self, units: Units, seed: int, streams: int) -> None:
        self.units = units
        self.admitted = UNITS
        """Length of the admitted prefix; hot units are admitted as well."""
        self.found = self.true = 0.0
        self.variance = 0.0
        """Results found, estimated true results, and the variance of that estimate."""
        self.partial = False
        """Whether any row was ever stored without probing."""
        self.finders = 0
        """Rows that found results while only some rows probed."""
        self._totals = np.zeros(UNITS)
        """Total result weight of each unit that was not certain."""
        self._order = np.random.default_rng((seed, 11)).permutation(UNITS)
        self._place = np.argsort(self._order)
        self._held = np.zeros((streams, UNITS))
        """Rows that arrived recently, admitted or not; about as many as complete windows would hold."""
        self._new = np.zeros((streams, UNITS))
        self._now: int | None = None
        self._hot = np.zeros(UNITS, bool)
        self._since: list[int] = []
        self._chance: list[float] = []
        self._certain: list[Array] = []
        """History by event time: the probability of a unit, and which units were hot and therefore certain. A
        unit may cool and heat up again while rows of both periods are in the windows."""

    @property
    def thinned(self) -> bool:
        """Whether dropped rows may still be missing from the windows."""
        return bool(self._since)

    @property
    def spares(self) -> bool:
        """Whether any unit is hot."""
        return bool(self._hot.any())

    @property
    def bringing(self) -> int:
        """Number of units with results that were not certain."""
        return int(np.count_nonzero(self._totals))

    @property
    def unit(self) -> float:
        """Weight that the results of one more admitted unit would have."""
        total = float(self._totals.sum())
        return float((self._totals**2).sum()) / total if total else 0.0

    # -- the data flow ------------------------------------------------------------------------------

    def survey(self, windows: Sequence[WindowStore], arrivals: Sequence[ArrivingRows]) -> list[Array | None]:
        """Record the rows of a call; return their units per stream, None for streams without units."""
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
        """Fractions of the call's rows and results kept, by units admitted; hot units first if `spare`."""
        streams = self.units.streams
        total = float(sum(len(a.rows) for a in arrivals))
        if self.units.by_row:
            part = np.arange(UNITS + 1) / UNITS
            return part, part ** len(streams)
        if self.units.by_cell and np.count_nonzero(self._new.sum(axis=0)) < CELLS:
            # With so few cells, dropping even one loses too much.
            return np.ones(UNITS + 1), np.ones(UNITS + 1)
        rows, share = np.empty(UNITS + 1), np.empty(UNITS + 1)
        new, held = self._new, self._held
        if len(streams) < len(arrivals):
            new, held = new[streams], held[streams]
        # Hysteresis: each change of the hot set costs a window's worth of rows.
        bounds = (HOT, COOLED) if spare else (np.inf, np.inf)
        survey(new, held, self._order, *bounds, self._hot, rows, share)
        rows += total - rows[-1]
        return rows / max(total, 1.0), share

    def fill(self, windows: Sequence[WindowStore]) -> float:
        """Fraction of recently arrived rows that are in the windows."""
        held = sum(len(windows[stream]) for stream in self.units.streams)
        return min(1.0, held / max(1.0, float(self._held.sum()))) if self.thinned else 1.0

    def admit(
        self,
        windows: Sequence[WindowStore],
        count: int,
        arrivals: Sequence[ArrivingRows],
        units: Sequence[Array | None],
    ) -> list[Array | None]:
        """Admit this many units from now on; return masks of admitted rows, None for all."""
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
        """Weight results for rows dropped, and for rows that did not probe while a fraction `probes` did."""
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
        """Weight of each result."""
        if not self.thinned:
            return 1.0
        return 1 / np.prod(self._chances(windows, partials, slice(None))[1], axis=0)

    def _chances(
        self, windows: Sequence[WindowStore], partials: PartialMatches, which: slice
    ) -> tuple[Array, Array]:
        """Units of the selected results by stream, and their probabilities. A unit that occurs several times
        in a result counts once; its other probabilities are 1."""
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
