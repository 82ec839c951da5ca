"""Plans before the first sub-batch how much of a call there is time for.

- A call costs a fixed time plus a slope times its work: rows, comparisons, results. Both are fitted to recent
  calls (`harvest/call_costs.py`). Earlier calls also predict what an exact call would compare and find.
- The call is exact if it is predicted to fit the time left, or if recent exact calls were in time.
- Otherwise `harvest/call_load.py` maximises the expected recall: how many units of rows are admitted, and
  either which fraction of them probes or which part of the windows is probed. It plans for windows that hold
  just the admitted rows, so the choice does not oscillate while windows fill or drain.
- Feedback: when calls take longer than their work explains, the next one does less.
- If a running call turns out to be late, fewer of its rows probe and fewer results are built. Results not
  built are counted, so that loss is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from windrow.engine.limits.admission_units import UNITS, Units
from windrow.engine.limits.admitter import Admitter
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.harvest.call_costs import CallCosts
from windrow.harvest.call_load import Choice, Curve, Work, choose
from windrow.model.stateful import Stateful
from windrow.window.window_store import WindowStore

if TYPE_CHECKING:
    from windrow.engine.partial_matches import PartialMatches
    from windrow.engine.rows import ArrivingRows

Array = np.ndarray
EVERYTHING, NOTHING = Choice(UNITS), Choice(0, 1.0, 0.0, 0.0, 0.0)
MARGIN = 0.95
"""Fraction of the time left that a plan may use once it has to shed."""
SPARED = 0.05
"""Fraction of the deadline that rows always get: without rows nothing more is learned."""
FEW_UNITS, FEW_ROWS = 16, 8
"""What is tried while there seems to be no time for any row."""
HOPELESS = 100.0
"""A trial that takes longer than this multiple of the time left is not repeated soon. No compilation does."""
TRIAL = 2.0
"""An exact call is tried now and then if its predicted time is below this multiple of the time left."""
PATIENCE = 4, 64
"""Calls between trials: at first, and at most. Doubles with every trial."""
SETTLED = 16
"""After this many exact calls in time in a row, trials start over at the short interval."""
BRAKE = 0.15
"""Fraction of the deadline that a call may be late before it builds fewer results."""
FEWEST = 0.02
"""Minimum fraction of the planned probes in a late call; they show what the other rows miss."""
CHEAP = 0.002
"""Results that take less than this fraction of the deadline are always built."""
PARTS, WORTH, QUICKEST = 16, 0.02, 2e-4
"""Maximum sub-batches; fraction of the deadline that cutting may cost; minimum seconds of a sub-batch."""
EXACT_CALLS = 5
"""The median of this many exact calls overrules a prediction of up to `UNLIKELY` times the time left."""
UNLIKELY = 1.5
_FORGET = 0.01


class Patience(Stateful):
    """When to try what seems to take too long: after ever more calls, until it goes well.

    What a call costs is learned from calls that shed, so without trials a prediction that is once too high
    would never be corrected.
    """

    saved = ("waited", "length")

    def __init__(self) -> None:
        self.waited, self.length = 0, PATIENCE[0]

    def due(self) -> bool:
        self.waited += 1
        if self.waited < self.length:
            return False
        self.waited, self.length = 0, min(PATIENCE[1], 2 * self.length)
        return True

    def reset(self) -> None:
        self.length = PATIENCE[0]


class CallPlanner(Stateful):
    saved = (
        "admitter", "costs", "costs_of_parts", "_calls", "_per_row", "_kept", "_exact",
        "_to_exact", "_to_any", "_few_are_late", "_in_time",
    )  # fmt: skip

    def __init__(self, units: Units, streams: int, seed: int, all_probe: bool = False) -> None:
        self.admitter = Admitter(units, seed, streams)
        self.costs, self.costs_of_parts = CallCosts(), CallCosts()
        """Costs of calls that probe whole windows, and of calls that probe parts of them."""
        self.choice = EVERYTHING
        self.scans = False
        """Whether windows are scanned. Comparisons then scale with the rows held, else with the results."""
        self.short = False
        """Whether there is no time to store this call's rows."""
        self._seed = seed
        self._all_probe = all_probe
        """Whether all rows probe whole windows. In an outer join they must: what is not found now has to be
        searched for when it is decided."""
        self._calls = 0
        self._per_row = (0.0, 0.0)
        """Comparisons and results per row of an exact call; with scans, comparisons per row held as well."""
        self._kept = 1.0
        """Results that recent harvests found, as a fraction of those predicted."""
        self._exact: list[float] = []
        """Seconds per row of the last calls, if they were exact."""
        self._to_exact, self._to_any = Patience(), Patience()
        """Before an exact call is tried, and a call with any rows at all."""
        self._few_are_late = False
        """Whether the last call of a few units was late."""
        self._in_time = 0
        """Number of exact calls in time in a row."""
        # State of the current call:
        self._rows = self._admitted = self._size = 0
        self._exact_work = (0.0, 0.0)
        """Predicted comparisons and results of an exact call."""
        self._began = self._predicted = 0.0
        """Seconds left when the call was planned, and the seconds it is predicted to take."""
        self._probes = 1.0
        self._promised = 0.0
        """Results predicted for the harvest."""
        self._tight = self._tries_few = False
        self._found, self._estimated = 0.0, 0.0
        self._random: np.random.Generator | None = None

    # -- the data flow ------------------------------------------------------------------------------

    def plan(
        self,
        windows: Sequence[WindowStore],
        arrivals: Sequence[ArrivingRows],
        controller: DeadlineController,
        scans: bool,
        curve: Callable[[], Curve | None],
    ) -> Sequence[Array | None] | None:
        """Masks of admitted rows, None for all. `curve` gives the recall of probing parts of windows."""
        rows = sum(len(a.rows) for a in arrivals)
        self._calls += 1
        self._rows = self._admitted = rows
        self._began, self._size, self.scans = controller.seconds_left, sum(map(len, windows)) + rows, scans
        self.choice, self._probes = EVERYTHING, 1.0
        self.short = self._tight = self._tries_few = False
        self._found, self._estimated, self._random = self.admitter.found, self.admitter.true, None
        if rows == 0 or (not self.admitter.thinned and self._at_ease(rows)):
            return None
        self._tight = True
        fill = self.admitter.fill(windows)
        compared, results = (each * rows for each in self._per_row)
        if scans:
            compared *= self._size / max(fill, 1e-9)
        self._exact_work = compared, results
        self._predicted = self.costs.fitted.seconds(rows, compared, results)
        if self._fits():
            if self.admitter.thinned:
                self.admitter.admit(windows, UNITS, arrivals, self.admitter.survey(windows, arrivals))
            return None
        units = self.admitter.survey(windows, arrivals)
        self._choose(arrivals, controller, fill, curve())
        masks = self.admitter.admit(windows, self.choice.units, arrivals, units)
        if self.choice.recall == 0.0:
            masks = [np.zeros(len(a.rows), bool) for a in arrivals]
        self._probes = self.choice.probes
        self.admitter.partial |= self._probes < 1
        dropped = sum(len(m) - int(np.count_nonzero(m)) for m in masks if m is not None)
        self._admitted = rows - dropped
        return masks if dropped else None

    def _at_ease(self, rows: int) -> bool:
        """Whether there is ample time, or nothing is known yet."""
        if len(self.costs) == 0:
            return True
        return bool(self._exact) and 2 * max(self._exact) * rows <= self._began

    def _fits(self) -> bool:
        """Whether there is time for an exact call. Recent exact calls are the best predictor."""
        in_time = bool(self._exact) and median(self._exact) * self._rows <= self._began
        if self._predicted <= (UNLIKELY if in_time else 1.0) * self._began:
            return True
        return self._predicted <= TRIAL * self._began and self._to_exact.due()

    def _choose(
        self,
        arrivals: Sequence[ArrivingRows],
        controller: DeadlineController,
        fill: float,
        curve: Curve | None,
    ) -> None:
        """Maximise the recall in the time left, hot keys first; if that fails, treat all keys alike."""
        costs = self.costs.fitted
        seconds, least = MARGIN * self._began, costs.fixed + SPARED * controller.budget
        curve = None if self._all_probe else curve
        kept = None if curve is None else Curve(curve.work, curve.found * self._kept)
        in_parts = self.costs_of_parts.fitted if len(self.costs_of_parts) else None
        compared, results = self._exact_work
        for spare in (True, False):
            row_share, share = self.admitter.shares(arrivals, spare)
            # A scan compares with every row held: those of now, or later those of the admitted units.
            met = row_share * np.maximum(row_share, fill) if self.scans else share
            work = Work(self._rows * row_share, compared * met, results * share, share)
            self.choice = choose(
                work, costs, max(seconds, least), self.admitter.admitted, kept, in_parts, self._all_probe
            )
            if self.choice.recall > 0 or not self.admitter.spares:
                break
        if costs.fixed > self._began or self.choice.recall == 0.0:
            self.choice = NOTHING
            if not self._few_are_late or self._to_any.due():
                # A few units show what the fixed cost really is, unless even they were late.
                few = min(UNITS, max(FEW_UNITS, FEW_ROWS * UNITS // self._rows))
                self.choice, self._tries_few = Choice(few, recall=few / UNITS, work=few / UNITS), True
        self.short = seconds < least or self.choice.recall == 0.0
        self._predicted *= self.choice.work
        part = results * float(share[self.choice.units])
        self._promised = part * curve(self.choice.z) if curve is not None and self.choice.z < 1 else 0.0

    def parts(self, controller: DeadlineController) -> int:
        """Number of sub-batches: several if the call may be late, to correct it between them."""
        each = max(self.costs.fitted.fixed, QUICKEST)
        return max(1, min(PARTS, int(WORTH * controller.budget / each))) if self._tight else 1

    def correct(self, controller: DeadlineController, left: int) -> None:
        """Reduce the rows that probe if the call is late, with `left` rows to go."""
        if self._all_probe or self.choice.z < 1 or self._admitted == 0 or left == self._admitted:
            return
        part = left / self._admitted
        # Average the prediction with an extrapolation of the time taken so far.
        so_far = (self._began - controller.seconds_left) / (1 - part)
        rest = part * (max(self._predicted, so_far) + so_far) / 2
        spare = controller.seconds_left + (BRAKE * controller.budget if self.choice.work >= 1 else 0.0)
        probes = self._probes * min(1.0, max(FEWEST, spare / max(rest, 1e-12)))
        self.choice = replace(self.choice, probes=probes)
        self.admitter.partial |= probes < 1

    def prober(self, rows: Array) -> Array:
        """Random subset of the rows that probe."""
        return rows[self._rng.random(len(rows)) < self.choice.probes]

    @property
    def _rng(self) -> np.random.Generator:
        """Seeded by call number, so a repeated call draws the same numbers."""
        if self._random is None:
            self._random = np.random.default_rng((self._seed, self._calls, 9))
        return self._random

    def affordable(
        self,
        windows: Sequence[WindowStore],
        partials: PartialMatches,
        arriving: int,
        controller: DeadlineController,
    ) -> PartialMatches:
        """Results there is time to build: a contiguous run with a random start."""
        self.admitter.count(windows, partials, arriving, self.choice.probes)
        count = len(partials)
        room = controller.seconds_left + BRAKE * controller.budget
        if room > 0.6 * controller.budget:
            return partials
        each = self.costs.fitted.result
        if each * count <= max(room, CHEAP * controller.budget):
            return partials
        kept = int(max(0.0, room) / each)
        begin = int(self._rng.integers(0, count - kept + 1))
        return partials.slice(begin, begin + kept)

    # -- learning -----------------------------------------------------------------------------------

    def end(self, seconds_left: float, compared: int, built: int, work: float) -> None:
        """End the call and learn from it. `work` is the fraction of the full comparisons made."""
        took, rows, exact = self._began - seconds_left, self._rows, self.choice == EVERYTHING
        self._exact = [*self._exact[1 - EXACT_CALLS :], took / rows] if exact and rows else []
        self._in_time = self._in_time + 1 if exact and seconds_left >= 0 else 0
        if self._in_time >= SETTLED:
            self._to_exact.reset()
        if self._tries_few:
            self._few_are_late = seconds_left < 0
            if took > HOPELESS * self._began:
                self._to_any.length = PATIENCE[1]
        elif self.choice != NOTHING and seconds_left >= 0:
            self._to_any.reset()
        if rows == 0:
            return
        self._learn_amounts(compared, work)
        if self._admitted == 0:
            return
        costs = self.costs if self.choice.z == 1 else self.costs_of_parts
        costs.add(took, self._admitted, compared, built, self._tight)

    def _learn_amounts(self, compared: int, work: float) -> None:
        """Update what an exact call would compare and find from what this call did."""
        found, results = self.admitter.found - self._found, self.admitter.true - self._estimated
        per_row, share = self._per_row, max(work, 1e-4) * self._admitted / self._rows
        if self.choice.z < 1:
            # A harvest does not show how many results there are.
            results = per_row[1] * self._rows
            if self._promised > 1:
                self._kept += 0.2 * (min(1.0, found / self._promised) - self._kept)
        else:
            self._kept += _FORGET * (1.0 - self._kept)
        if self._admitted == 0:
            return
        if self.scans:
            size = self._size - self._rows + self._admitted
            compared_by_all = compared / share / size
        elif found > 0:
            compared_by_all = compared * results / found
        else:
            compared_by_all = compared / share
        # The smaller the fraction probed, the less it counts.
        part = 0.5 * min(1.0, max(0.1, 2 * share)) if self._calls > 1 else 1.0
        self._per_row = (
            per_row[0] + part * (compared_by_all / self._rows - per_row[0]),
            per_row[1] + part * (results / self._rows - per_row[1]),
        )
