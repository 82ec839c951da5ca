"""Chooses which units are admitted when time is short, and estimates what that loses.

The seed fixes an order of the units, and a prefix of it is admitted. With less time the prefix shrinks, so
the units that stay were admitted before and their windows are complete. Units of hot keys have far more
combinations than others and are always admitted; otherwise the draw would decide how much work there is and
how much is found.

A result is found with the smallest probability its unit had when any of its rows arrived; its weight is the
inverse (Horvitz-Thompson). Results of a unit are found or lost together, so the variance is that of unit
totals, one cluster per unit. For a result of several units it is taken for each, to first order.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.engine.limits.admission_units import UNITS, Units
from windrow.engine.limits.quality import thinned
from windrow.estimation.missed import ResultSums
from windrow.estimation.recall import HANDFUL
from windrow.kernels.admission_units import cells_of, finders, probabilities, rows_of_units, units_of, weigh
from windrow.kernels.harvest.call_load import affordable, cost_line, mostly_exceed, promise, shares, tally
from windrow.model.metrics import Quality
from windrow.model.stateful import Stateful

if TYPE_CHECKING:
    from windrow.engine.partial_matches import PartialMatches
    from windrow.engine.rows import ArrivingRows
    from windrow.window.window_store import WindowStore

Array = np.ndarray
HOT, COOLED = 32.0, 16.0
"""A unit becomes hot at 32 times the mean number of rows on every stream, or 3 % of all, and stays hot down
to half of that. Smaller units may be large only because several keys share them."""
COUNTED_AT_ONCE = 512
"""Sample size: probabilities are computed for this many results of an arriving stream."""
SURVEYED = 512
"""Sample size: rows of a stream and call that are counted by unit."""
CELLS = 64
"""With fewer occupied cells, each is too coarse to be dropped."""


class Admitter(Stateful):
    version = 2
    formerly = (("_chance", "_probability"),)
    saved = (
        "admitted", "results", "partial", "finders", "_totals", "_held", "_now", "_hot", "_since",
        "_probability", "_certain",
    )  # fmt: skip
    clocks = ("_now",)

    def __init__(self, units: Units, seed: int, streams: int) -> None:
        self.units = units
        self.admitted = UNITS
        """Length of the admitted prefix; hot units are admitted as well."""
        self.results = ResultSums()
        self.partial = False
        """Whether any row was ever stored without probing."""
        self.finders = 0
        """Rows that found results while only some rows probed."""
        self._totals = np.zeros(UNITS)
        """Total result weight of each unit that was not certain."""
        self._order = np.random.default_rng((seed, 11)).permutation(UNITS)
        self._rank = np.argsort(self._order)
        self._held = np.zeros((streams, UNITS))
        """Rows that arrived recently, admitted or not; about as many as complete windows would hold."""
        self._now: int | None = None
        self._hot = np.zeros(UNITS, bool)
        self._since: list[int] = []
        self._probability: list[float] = []
        self._certain: list[Array] = []
        """History by event time: the probability of a unit, and which units were hot and therefore certain. A
        unit may cool and heat up again while rows of both periods are in the windows."""

        self._steps: tuple[Array, Array, Array] | None = None
        """The history as arrays; None if it has changed."""
        load_kernels()

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any]:
        sums = [values.pop(name) for name in ("found", "true", "variance")]
        return values | {"results": ResultSums.of(*sums)}

    @property
    def thinned(self) -> bool:
        """Whether dropped rows may still be missing from the windows."""
        return bool(self._since)

    @property
    def excludes(self) -> bool:
        """Whether rows that could not be admitted may still be missing from the windows."""
        return 0.0 in self._probability

    @property
    def any_hot(self) -> bool:
        """Whether any unit is hot."""
        return bool(self._hot.any())

    @property
    def units_with_results(self) -> int:
        """Number of units with results that were not certain."""
        return int(np.count_nonzero(self._totals))

    @property
    def max_weight(self) -> float:
        """Weight that the results of one more admitted unit would have."""
        total = float(self._totals.sum())
        return float((self._totals**2).sum()) / total if total else 0.0

    def quality(self, known: Quality, dropped: bool) -> Quality:
        """Account for rows not admitted. Their loss multiplies with the loss for lack of memory."""
        if not dropped and not self.partial:
            return known
        known = thinned(known, self.results, self.max_weight, True)
        if (dropped and self.units_with_results < HANDFUL) or (self.partial and self.finders < HANDFUL):
            return replace(known, recall_low=0.0, recall_high=1.0)
        return known

    # -- the data flow ------------------------------------------------------------------------------

    def survey(
        self, windows: Sequence[WindowStore], arrivals: Sequence[ArrivingRows], calls: int = 1
    ) -> None:
        """Count the rows of a call by unit, from a sample. It represents this many calls."""
        now = max(int(a.rows.ts[-1]) for a in arrivals if len(a.rows))
        for stream in self.units.streams:
            window, rows, decay = windows[stream], arrivals[stream].rows, 1.0
            if self._now is None:
                each = -(-len(window) // (8 * SURVEYED)) or 1
                units = self.units.in_window(stream, window, np.arange(window.first, window.end, each))
                tally(self._held[stream], units, float(each), 0.0)
            else:
                decay = math.exp(-max(0, now - self._now) / window.covers)
            each = -(-len(rows) // SURVEYED) or 1
            # Copies: kernels are compiled for contiguous arrays.
            sample = {name: rows.columns[name][::each].copy() for name in self.units.names[stream]}
            units = self.units.of(stream, rows.ts[::each].copy(), sample)
            tally(self._held[stream], units, float(each * calls), decay)
        self._now = now if self._now is None else max(now, self._now)

    def shares(self, spare: bool = True) -> tuple[Array, Array]:
        """Fractions of rows and results kept, by units admitted; hot units first if `spare`."""
        streams = self.units.streams
        if self.units.by_row:
            fraction = np.arange(UNITS + 1) / UNITS
            return fraction, fraction ** len(streams)
        if self.units.by_cell and np.count_nonzero(self._held.sum(axis=0) > 0.5) < CELLS:
            # With so few cells, dropping even one loses too much.
            return np.ones(UNITS + 1), np.append(np.zeros(UNITS), 1.0)
        rows, share = np.empty(UNITS + 1), np.empty(UNITS + 1)
        held = self._held if len(streams) == len(self._held) else self._held[streams]
        # Hysteresis: each change of the hot set costs a window's worth of rows.
        shares(held, self._order, *((HOT, COOLED) if spare else (np.inf, np.inf)), self._hot, rows, share)
        return rows, share

    def fill(self, windows: Sequence[WindowStore]) -> float:
        """Fraction of recently arrived rows that are in the windows."""
        held = sum(len(windows[stream]) for stream in self.units.streams)
        return min(1.0, held / max(1.0, float(self._held.sum()))) if self.thinned else 1.0

    def admit(
        self, windows: Sequence[WindowStore], count: int, arrivals: Sequence[ArrivingRows]
    ) -> list[Array | None]:
        """Admit `count` units from now on, and also the hot ones unless `count` is 0. Return the positions of
        the admitted rows by stream; None stands for all."""
        self.admitted = count
        self._remember(windows, count / UNITS, min(int(a.rows.ts[0]) for a in arrivals if len(a.rows)))
        found: list[Array | None] = [None] * len(arrivals)
        if count < UNITS:
            kept = (self._rank < count) | self._hot if count else np.zeros(UNITS, bool)
            for stream in self.units.streams:
                rows = arrivals[stream].rows
                found[stream] = rows_of_units(self.units.of(stream, rows.ts, rows.columns), kept)
        return found

    def _remember(self, windows: Sequence[WindowStore], probability: float, since: int) -> None:
        """Extend the history if anything has changed. Remove entries older than every row held."""
        certain = self._hot & (0.0 < probability < 1.0)
        last = (self._probability[-1], self._certain[-1]) if self._since else (1.0, np.zeros(UNITS, bool))
        if probability != last[0] or (certain != last[1]).any():
            self._since.append(max([since, *self._since[-1:]]))
            self._probability.append(probability)
            self._certain.append(certain)
            self._steps = None
        if self._since and (len(self._since) > 1 or probability == 1.0):
            oldest = min([since, *(_oldest(w) for w in windows if len(w))])
            gone = max(0, bisect_right(self._since, oldest) - 1)
            gone += len(self._since) == gone + 1 and probability == 1.0 and self._since[-1] <= oldest
            if gone:
                del self._since[:gone], self._probability[:gone], self._certain[:gone]
                self._steps = None

    def count(
        self,
        windows: Sequence[WindowStore],
        partials: PartialMatches,
        found_by: Sequence[Array],
        probes: float,
    ) -> None:
        """Weight results for rows dropped, and for rows that did not probe while a fraction `probes` did.
        `found_by` are the positions of the rows that found them, by arriving stream."""
        count = len(partials)
        mean, variance = 1 / probes, 0.0
        if self.thinned:
            which = slice(None, None, -(-count // (COUNTED_AT_ONCE * len(found_by))))
            units, probability = self._probabilities(windows, partials, which)
            weight = mean * count / units.shape[1]
            estimated, variance = weigh(units, probability, weight, self._totals)
            mean = estimated / count
        self.results.add_sum(count, count * mean, variance)
        for rows in found_by if probes < 1 else ():
            finding, squares = finders(rows)
            self.finders += finding
            self.results.add_sum(0.0, 0.0, (1 - probes) * mean**2 * squares)

    def weights(self, windows: Sequence[WindowStore], partials: PartialMatches) -> Array | float:
        """Weight of each result."""
        if not self.thinned:
            return 1.0
        return 1 / np.prod(self._probabilities(windows, partials, slice(None))[1], axis=0)

    def _probabilities(
        self, windows: Sequence[WindowStore], partials: PartialMatches, which: slice
    ) -> tuple[Array, Array]:
        """Units of the selected results by stream, and their probabilities. A unit that occurs several times
        in a result counts once; its other probabilities are 1."""
        streams = self.units.streams
        count = len(partials.rows[streams[0]][which])
        units, times = np.empty((2, len(streams), count), np.int64)
        for k, stream in enumerate(streams):
            window, rows = windows[stream], partials.rows[stream][which]
            times[k] = window.ts[rows]
            units[k] = units[0] if k and self.units.by_key else self.units.in_window(stream, window, rows)
        if self._steps is None:
            least = np.maximum(self._probability, 1 / UNITS)
            self._steps = np.array(self._since), least, np.stack(self._certain)
        out = np.empty((len(streams), count))
        probabilities(units, times, *self._steps, out)
        return units, out


def _oldest(window: WindowStore) -> int:
    live = window.ts[window.first : window.end]
    return int(live[0] if window.ordered else live.min())


@cache
def load_kernels() -> None:
    """Compile the kernels that plan and admit, or load them, before the clock of a call runs. Arrays that
    Arrow owns are read-only, and so of another type."""
    units, held, flags = np.zeros(2, np.int64), np.ones((2, 2)), np.zeros((2, 2), bool)
    given = units.copy()
    given.flags.writeable = False
    for keys in (units, given):
        units_of(keys)
        cells_of(keys.view(np.float64), 1.0)
    rows_of_units(units, flags[0])
    finders(units)
    tally(held[0], units, 1.0, 1.0)
    shares(held, units, HOT, COOLED, flags[0], np.zeros(3), np.zeros(3))
    both = np.zeros((2, 2), np.int64)
    probabilities(both, both, units, held[0], flags, held)
    weigh(both, held, 1.0, held[0])
    cost_line(held, 0.0, 1, 1.0)
    mostly_exceed(held, 1.0, 1.0, 1.0, 1.0, held, 1.0)
    affordable(1.0, 1.0)
    promise(*[held[0]] * 3, 1.0, np.arange(2.0), np.arange(2.0), np.zeros(2))
