"""Which units of rows are admitted when there is not time for all, and what that loses.

Units have a fixed order drawn by the seed, and the first so many in it are admitted. So those that stay when
there is less time are among those that stayed before, and their windows are complete. Units that have far
more combinations than others, those of hot keys, are certain: without them chance would decide how much work
there is and how much is found.

A result was found with the least chance that its unit had when one of its rows came: it stands for the
inverse (Horvitz-Thompson). Results of a unit come or go together, so the variance is that of the totals of
units (one cluster each); where a result needs several units, of each, to first order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from windrow.engine.limits.admission_units import UNITS, Units
from windrow.harvest.call_load import Work
from windrow.kernels.admission_units import chances, finders, tell
from windrow.kernels.harvest.call_load import survey
from windrow.model.stateful import Stateful

if TYPE_CHECKING:
    from windrow.engine.join import Join
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
    """
    Parameters
    ----------
    found
        Results up to now, when all rows were admitted.
    """

    saved = (
        "admitted", "found", "true", "variance", "partial", "finders", "_totals", "_held", "_now",
        "_hot", "_since", "_chance", "_certain",
    )  # fmt: skip
    clocks = ("_now",)

    def __init__(self, units: Units, seed: int, streams: int, found: int = 0) -> None:
        self.units = units
        self.admitted = UNITS
        """How many, in their order; besides hot ones."""
        self.found = self.true = float(found)
        self.variance = 0.0
        """Results, what they stand for, and the variance of that."""
        self.partial = False
        """Whether there ever were rows that did not probe."""
        self.finders = 0
        """Rows that found something while not all rows probed."""
        self._totals = np.zeros(UNITS)
        """What the results of each unit that was not certain stood for."""
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
        """What the results of one unit more would have stood for, had it been among those admitted."""
        total = float(self._totals.sum())
        return float((self._totals**2).sum()) / total if total else 0.0

    # -- the data flow ------------------------------------------------------------------------------

    def survey(self, join: Join, arrivals: Sequence[ArrivingRows]) -> list[Array | None]:
        """Takes note of the rows of a call; returns the unit of each, per stream, where it has one."""
        now = max(int(a.rows.ts[-1]) for a in arrivals if len(a.rows))
        found: list[Array | None] = [None] * len(arrivals)
        if self._now is None:
            for stream in self.units.streams:
                self._held[stream] = np.bincount(self._of_window(join, stream), minlength=UNITS)
        for stream in self.units.streams:
            rows, window = arrivals[stream].rows, join.windows[stream]
            found[stream] = units = self.units.of(stream, rows.ts, rows.columns)
            passed = 0 if self._now is None else max(0, now - self._now)
            self._new[stream] = np.bincount(units, minlength=UNITS)
            self._held[stream] = self._held[stream] * np.exp(-passed / window.covers) + self._new[stream]
        self._now = now if self._now is None else max(now, self._now)
        return found

    def _of_window(self, join: Join, stream: int) -> Array:
        window = join.windows[stream]
        live = slice(window.first, window.end)
        columns = {name: window.column(name)[live] for name in self.units.names[stream]}
        return self.units.of(stream, window.ts[live], columns)

    def work(
        self,
        arrivals: Sequence[ArrivingRows],
        windows: Sequence[WindowStore],
        compared: float,
        results: float,
        scans: bool,
        spare: bool = True,
    ) -> Work:
        """What this call would be, by how many units are admitted; `compared` and `results` of all of it. Hot
        units come first, unless none is to be spared."""
        assert self._now is not None
        streams = self.units.streams
        total = float(sum(len(a.rows) for a in arrivals))
        fill = self._fill(windows) if scans else 1.0
        if self.units.by_row:
            part = np.arange(UNITS + 1) / UNITS
            found = part ** len(streams)
            return Work(total * part, compared * part * fill, results * found, found)
        if self.units.by_cell and np.count_nonzero(self._new.sum(axis=0)) < CELLS:
            # To leave out one of so few would be too much.
            one = np.ones(UNITS + 1)
            return Work(total * one, compared * fill * one, results * one, one)
        rows, share = np.empty(UNITS + 1), np.empty(UNITS + 1)
        new, held = self._new, self._held
        if len(streams) < len(arrivals):
            new, held = new[streams], held[streams]
        # A unit stays hot while it is near to it: each change would cost the rows of a window.
        bounds = (HOT, COOLED) if spare else (np.inf, np.inf)
        survey(new, held, self._order, *bounds, self._hot, rows, share)
        rows += total - rows[-1]
        # Who scans a window meets rows of all units that are in it.
        met = rows * (fill / max(total, 1.0)) if scans else share
        return Work(rows, compared * met, results * share, share)

    def _fill(self, windows: Sequence[WindowStore]) -> float:
        """The part of the rows that came lately which are in the windows."""
        held = sum(len(windows[stream]) for stream in self.units.streams)
        return min(1.0, held / max(1.0, float(self._held.sum()))) if self.thinned else 1.0

    def admit(
        self, join: Join, count: int, arrivals: Sequence[ArrivingRows], units: Sequence[Array | None]
    ) -> list[Array | None]:
        """Admits this many units from now on; returns masks of the rows that come in, None for all."""
        self.admitted = count
        self._remember(join, count / UNITS, min(int(a.rows.ts[0]) for a in arrivals if len(a.rows)))
        if count == UNITS:
            return [None] * len(arrivals)
        kept = (self._place < count) | self._hot
        return [None if each is None else kept[each] for each in units]

    def _remember(self, join: Join, chance: float, since: int) -> None:
        certain = self._hot & (chance < 1.0)
        last = (self._chance[-1], self._certain[-1]) if self._since else (1.0, np.zeros(UNITS, bool))
        if chance != last[0] or not np.array_equal(certain, last[1]):
            self._since.append(max([since, *self._since[-1:]]))
            self._chance.append(chance)
            self._certain.append(certain)
        if self._since:
            held = [int(w.ts[w.first : w.end].min()) for w in join.windows if len(w)]
            gone = max(0, bisect_right(self._since, min([since, *held])) - 1)
            if (
                len(self._since) == gone + 1
                and self._chance[-1] == 1.0
                and self._since[-1] <= min([since, *held])
            ):
                gone += 1
            del self._since[:gone], self._chance[:gone], self._certain[:gone]

    def count(self, join: Join, partials: PartialMatches, arriving: int, probes: float) -> None:
        """Takes account of results that arriving rows found: what they stand for, on account of rows that
        were not admitted, and of rows that did not probe while this part of them did."""
        count = len(partials)
        self.found += count
        mean = 1 / probes
        if self.thinned:
            which = slice(None, None, -(-count // COUNTED_AT_ONCE))
            units, chance = self._chances(join, partials, which)
            weight = mean * count / units.shape[1]
            true, variance = tell(units, chance, weight, 1 - self._chance[-1], self._totals)
            mean, self.variance = true / count, self.variance + variance
        self.true += count * mean
        if probes < 1:
            count, squares = finders(partials.rows[arriving])
            self.finders += count
            self.variance += (1 - probes) * mean**2 * squares

    def weights(self, join: Join, partials: PartialMatches) -> Array | float:
        """How many results each stands for."""
        if not self.thinned:
            return 1.0
        return 1 / np.prod(self._chances(join, partials, slice(None))[1], axis=0)

    def _chances(self, join: Join, partials: PartialMatches, which: slice) -> tuple[Array, Array]:
        """Of some results the units, by stream, and the chance of each (of units that a result has several
        rows of, once; else 1)."""
        units: list[Array] = []
        times: list[Array] = []
        for stream in self.units.streams:
            window, rows = join.windows[stream], partials.rows[stream][which]
            times.append(window.ts[rows])
            if units and self.units.by_key:
                units.append(units[0])
            else:
                columns = {name: window.column(name)[rows] for name in self.units.names[stream]}
                units.append(self.units.of(stream, times[-1], columns))
        out = np.empty((len(units), len(times[0])))
        chance = np.maximum(self._chance, 1 / UNITS)
        steps = (np.array(self._since), chance, np.stack(self._certain))
        chances(np.stack(units), np.stack(times), *steps, out)
        return np.stack(units), out
