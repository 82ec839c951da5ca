"""Plans before the first sub-batch how much of a call there is time for.

- Calls are exact until the last ones show that they take too long (`harvest/exact_calls.py`), and again as
  soon as calls that shed show that an exact one would fit. An exact call runs as without a deadline.
- A call costs a fixed time plus a slope times its work: rows, comparisons, results (`harvest/call_costs.py`).
  Earlier calls also predict what an exact call would compare and find.
- `harvest/call_load.py` maximises the recall expected of a call that sheds: how many units of rows are
  admitted, and either which fraction of them probes or which part of the windows is probed. It plans for
  windows that hold just the admitted rows, so the choice does not oscillate while windows fill or drain.
- If a call that sheds is late, or results surge, fewer results are built. Results not built are counted, so
  that loss is known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from windrow.engine.limits.admission_units import UNITS, Units
from windrow.engine.limits.admitter import Admitter
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.harvest.call_costs import RECENT, REMEMBERED, CallCosts, Costs
from windrow.harvest.call_load import Choice, Curve, Work, choose
from windrow.harvest.exact_calls import EVIDENCE, IN_SCANS, ON_TRIAL, ExactCalls
from windrow.model.stateful import Stateful
from windrow.window.window_store import WindowStore

if TYPE_CHECKING:
    from windrow.engine.partial_matches import PartialMatches
    from windrow.engine.rows import ArrivingRows

Array = np.ndarray
Share = TypeVar("Share", float, np.ndarray)
EVERYTHING = Choice(UNITS)
MARGIN, UNBRAKED = 0.95, 0.8
"""Fraction of the deadline that a plan may use once it has to shed; and if all rows must probe, because then
nothing can be saved while the call runs."""
STEADY = 0.9, 1.03
"""The number of units stays as it is if its predicted time is between these multiples of the deadline: a
change costs results for as long as the windows last, and choosing costs time."""
DROPPED = 0.05
"""Cost of a dropped row, as a fraction of a stored one: it is read and its unit computed."""
FEW_UNITS, FEW_ROWS = 16, 8
"""The minimum that is admitted, if anything is: a smaller sample would not represent the rest."""
PATIENCE = 8, 64
"""If even the minimum takes n times the deadline, and n is over 1, no row is admitted for 8 n calls, at most
64."""
HOPELESS = 4.0
"""The n at which that is believed at once; otherwise only after a few calls with the minimum."""
IN_TIME = 5
"""Calls in a row that would be in time before calls are exact again without a trial."""
RETRY, RETRY_BELOW = (48, 512), 2.0
"""Calls that shed before exact ones are tried again, twice as many after each trial that fails. Exact calls
that took less than twice the deadline may have been slow by chance, and in short calls shedding itself may
take the time that would be left."""
SURVEYS = 4
"""Rows are counted by unit in one of this many calls that shed, unless windows are scanned."""
BRAKE = 0.15
"""Fraction of the deadline that a call may be late before it builds fewer results."""
SURGE = 2.0
"""Multiple of the predicted results at which an exact call may build fewer. Below it, one that is late is
slow by chance, and would lose results for nothing."""
FEWEST = 0.02
"""Minimum fraction of the planned probes in a late call; they show what the other rows miss."""
CHEAP = 0.05
"""Fraction of the deadline that a late call may still spend on building results: finding them took longer."""
PARTS, WORTH, QUICKEST = 16, 0.02, 2e-4
"""Maximum sub-batches; fraction of the deadline that cutting may cost; minimum seconds of a sub-batch."""
HARVESTED = 5e-3
"""Minimum seconds of a sub-batch that probes parts of windows: planning and learning take a fifth of it."""
FIRST_CALLS, LEARNING, FAR = 5, 16, 0.05
"""The load shedder takes part in the first exact calls, and then in one of 16: it learns how selective the
windows are. Where windows are scanned it takes part in all, unless they are predicted to take less than a
twentieth of the deadline: a harvest may come, and lags must be known by then."""
_FORGET = 0.01


class CallPlanner(Stateful):
    version = 2
    saved = (
        "admitter", "costs", "costs_of_parts", "exact", "_calls", "_per_row", "_kept", "_since_parts",
        "_minimal", "_wait", "_shares", "_warm", "_on_trial", "_retry_at", "_patience",
        "_overloaded", "_in_time", "_dropping",
    )  # fmt: skip

    def __init__(self, units: Units, streams: int, seed: int, all_probe: bool = False) -> None:
        self.admitter = Admitter(units, seed, streams)
        self.costs, self.costs_of_parts = CallCosts(), CallCosts()
        """Costs of calls that probe whole windows, and of calls that probe parts of them."""
        self.exact = ExactCalls()
        self.choice = EVERYTHING
        self.scans = False
        """Whether windows are scanned. Comparisons then scale with the rows held, else with the results."""
        self.short = False
        """Whether there is no time to store this call's rows."""
        self._seed = seed
        self._all_probe, self._margin = all_probe, UNBRAKED if all_probe else MARGIN
        """Whether all rows probe whole windows. In an outer join they must: what is not found now has to be
        searched for when it is decided."""
        # Streams without units are admitted all the same, and a few of their rows show what the others miss.
        self._nothing = Choice(0, probes=1.0 if all_probe else FEWEST, recall=0.0, work=0.0)
        self._calls = 0
        self._overloaded = False
        """Whether calls are taken to exceed the deadline, until several in a row do not: one small call
        proves nothing."""
        self._in_time = 0
        self._warm = False
        """Whether a call has shed since calls were exact. The first is slow: its code is not in caches."""
        self._on_trial = False
        self._retry_at, self._patience = 0, RETRY[0]
        """Call at which exact calls are tried again, and the calls until the next trial."""
        self._per_row = (0.0, 0.0)
        """Comparisons and results per row of an exact call; with scans, comparisons per row held as well."""
        self._kept = 1.0
        """Results that recent harvests found, as a fraction of those predicted."""
        self._shares: tuple[Array, Array] | None = None
        """Fractions of rows and results by units admitted, as of the last choice."""
        self._since_parts = 0
        """Calls since one probed parts of windows."""
        self._dropping = 0.0
        """Seconds that it takes to choose and drop rows, in recent calls that did. They are no part of the
        costs: an exact call does without."""
        self._minimal = 0
        """Calls in a row that admitted the minimum."""
        self._wait = 0
        """Calls without any row before a few are tried again."""
        # State of the current call:
        self._shedding = False
        self.plain = False
        """Whether it runs as without a deadline: the load shedder takes no part."""
        self._costs = self.costs.fitted()
        self._rows = self._admitted = self._size = 0
        self._limit = self._left = self._predicted = 0.0
        """Seconds the call may take, those left when it was planned, and those it is predicted to take. Plans
        use the whole limit: if a call is read slowly, by chance, nothing is gained by shedding more."""
        self._probes = 1.0
        self._expected = 0.0
        """Results predicted for an exact call."""
        self._promised = 0.0
        """Results predicted for the harvest."""
        self._found, self._estimated = 0.0, 0.0
        self._results = 0
        """Results found so far."""
        self._overtime = 0.0
        """Seconds spent on building results since the time was up."""
        self._planning = 0.0
        """Seconds spent on choosing and dropping rows."""
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
        """Positions of admitted rows, None for all. `curve` gives the recall of probing parts of windows."""
        rows = sum(len(a.rows) for a in arrivals)
        self._calls += 1
        self._rows = self._admitted = rows
        self._limit, self._left = controller.budget, controller.seconds_left
        self._size, self.scans = sum(map(len, windows)) + rows, scans
        self.choice, self.short, self._probes = EVERYTHING, False, 1.0
        self._expected = self._promised = self._overtime = self._planning = 0.0
        self._results, self.plain, self._shedding = 0, False, False
        self._found, self._estimated, self._random = self.admitter.found, self.admitter.true, None
        if rows == 0 or len(self.costs) == 0:
            return None
        compared, results = (each * rows for each in self._per_row)
        if scans:
            compared *= self._size / max(self.admitter.fill(windows), 1e-9)
        costs = self._costs = self.costs.fitted(self._limit)
        self._expected, self._predicted = results, costs.seconds(rows, compared, results)
        self._shedding = self._sheds(costs)
        if not self._shedding:
            self._wait = self._minimal = 0
        if self._shedding and self._wait:
            self._wait -= 1
            self.choice, self.short, self._predicted = self._nothing, True, 0.0
        elif self._shedding:
            self._choose(windows, arrivals, costs, compared, results, curve)
        elif not self.admitter.thinned:
            lags = scans and self._predicted > FAR * self._limit
            learns = lags or len(self.exact) < FIRST_CALLS or self._calls % LEARNING == 0
            self.plain = not learns
            return None
        kept = self.admitter.admit(windows, self.choice.units, arrivals)
        self.admitter.partial |= self.choice.probes < 1
        self._admitted = sum(len(a.rows if at is None else at) for a, at in zip(arrivals, kept, strict=True))
        return kept if self._admitted < rows else None

    def _sheds(self, costs: Costs) -> bool:
        """Whether this call sheds load."""
        if self.scans:
            known = len(self.exact) >= IN_SCANS[0, 0]
            late = not known or self.exact.miss(self._limit, self._predicted, costs, IN_SCANS)
            return self._predicted > self._limit and late
        if self._overloaded:
            late, self._on_trial = self._predicted > self._limit, self._calls >= self._retry_at
            self._in_time = 0 if late else self._in_time + 1
            self._overloaded = not self._on_trial and self._in_time < IN_TIME
            return late and not self._on_trial
        evidence = ON_TRIAL if self._on_trial else EVIDENCE
        if not self.exact.miss(self._limit, self._predicted, costs, evidence):
            self._on_trial &= len(self.exact) < ON_TRIAL[0, 0]
            return False
        self._patience = min(2 * self._patience, RETRY[1]) if self._on_trial else RETRY[0]
        by_chance = self.exact.median < RETRY_BELOW * self._limit
        self._retry_at = self._calls + (self._patience if by_chance else RETRY[1])
        self._warm = self._on_trial = False
        self._overloaded, self._in_time = True, 0
        self.exact.clear()
        return True

    def _choose(
        self,
        windows: Sequence[WindowStore],
        arrivals: Sequence[ArrivingRows],
        costs: Costs,
        compared: float,
        results: float,
        curve: Callable[[], Curve | None],
    ) -> None:
        """Choose what to shed. `compared` and `results` are those of an exact call."""
        current, exact = self.admitter.admitted, self._predicted
        each = 1 if self.scans else SURVEYS
        if self._shares is None or self._calls % each == 0:
            self.admitter.survey(windows, arrivals, each)
        if 0 < current < UNITS and self._shares is not None and not self.scans:
            row_share, share = (float(each[current]) for each in self._shares)
            seconds = costs.seconds(self._stored(row_share), compared * share, results * share)
            seconds += self._dropping
            if STEADY[0] <= seconds / self._limit + MARGIN - self._margin <= STEADY[1]:
                self.choice, self._predicted = Choice(current, recall=share, work=seconds / exact), seconds
                return
        fill, points = self.admitter.fill(windows), None if self._all_probe else curve()
        kept = None if points is None else Curve(points.work, points.found * self._kept)
        in_parts = self.costs_of_parts.fitted(self._limit) if len(self.costs_of_parts) else None
        # Hot keys first; if that fails, all keys alike.
        for spare in (True, False):
            self._shares = row_shares, shares = self.admitter.shares(spare)
            # A scan compares with every row held: those of now, or later those of the admitted units.
            met = row_shares * np.maximum(row_shares, fill) if self.scans else shares
            work = Work(self._stored(row_shares), compared * met, results * shares, shares)
            seconds = self._margin * self._limit
            choice = choose(work, costs, seconds, current, kept, in_parts, self._all_probe, self._dropping)
            if choice.recall > 0 or not self.admitter.spares:
                break
        self.choice = choice = self._at_least_few(choice, work, costs, exact)
        self._probes, self._predicted = choice.probes, exact * choice.work
        if points is not None and choice.z < 1:
            self._promised = results * float(shares[choice.units]) * points(choice.z)

    def _at_least_few(self, choice: Choice, work: Work, costs: Costs, exact: float) -> Choice:
        """The choice, but at least a few units, so that what they cost is known."""
        few = min(UNITS, max(FEW_UNITS, FEW_ROWS * UNITS // self._rows))
        if choice.units >= few:
            self._minimal = 0
            return choice
        self._minimal += 1
        probes = choice.probes if choice.recall > 0 else 1.0
        rows, compared, results, share = (
            float(a[few]) for a in (work.rows, work.compared, work.results, work.share)
        )
        seconds = self._dropping + costs.seconds(rows, probes * compared, probes * results)
        self.short = seconds > self._limit
        hopeless = seconds > HOPELESS * self._limit
        if hopeless or (self.short and self._minimal > RECENT):
            self._wait = int(min(PATIENCE[1], PATIENCE[0] * seconds / self._limit))
        # After a wait a few are admitted all the same: costs may have changed.
        if hopeless and self._minimal == 1:
            return self._nothing
        return replace(choice, units=few, probes=probes, recall=probes * share, work=seconds / exact)

    def _stored(self, share: Share) -> Share:
        """Rows of this call, if this share of them is admitted, by what they cost."""
        return self._rows * (DROPPED + (1 - DROPPED) * share)

    def rows_dropped(self, controller: DeadlineController) -> None:
        """The rows there is no time for have been dropped: learn how long that took."""
        self._planning = max(0.0, self._left - controller.seconds_left)
        self._dropping += 0.3 * (self._planning - self._dropping)

    def parts(self, controller: DeadlineController) -> int:
        """Number of sub-batches: several if parts of windows are probed, fewer rows probe, or a scan may be
        late, to correct what is probed between them."""
        if self.choice.z < 1:
            return max(1, min(PARTS, int(controller.budget / HARVESTED)))
        if self.choice.probes == 1 and not self._may_be_late:
            return 1
        return max(1, min(PARTS, int(WORTH * controller.budget / max(self._costs.fixed, QUICKEST))))

    @property
    def _may_be_late(self) -> bool:
        """Whether results may surge in a scan that is planned as exact."""
        return self.scans and self._predicted > 0.5 * self._limit

    def correct(self, controller: DeadlineController, left: int) -> None:
        """Reduce the rows that probe if the call is late, with `left` rows to go."""
        if self._all_probe or self.choice.z < 1 or self._admitted == 0 or left == self._admitted:
            return
        part = left / self._admitted
        so_far = (self._left - controller.seconds_left) / (1 - part)
        # Average the prediction with an extrapolation of the time taken so far.
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
        if not self.plain:
            self.admitter.count(windows, partials, arriving, self.choice.probes)
        self._results += len(partials)
        surges = self._may_be_late or (len(self.costs) > 0 and self._results > SURGE * self._expected)
        if self.choice == EVERYTHING and not surges:
            return partials
        room = controller.seconds_left + BRAKE * controller.budget
        if room > 0.6 * controller.budget:
            return partials
        count = len(partials)
        each = self._costs.result
        room = max(room, CHEAP * controller.budget - self._overtime)
        kept = count if each * count <= room else int(max(0.0, room) / each)
        self._overtime += each * kept * (controller.seconds_left < 0)
        begin = 0 if kept == count else int(self._rng.integers(0, count - kept + 1))
        return partials.slice(begin, begin + kept)

    # -- learning -----------------------------------------------------------------------------------

    def end(self, seconds_left: float, compared: int, found: int, built: int, work: float) -> None:
        """End the call and learn from it. `work` is the fraction of the full comparisons made."""
        if self.plain:
            self.admitter.found += found
            self.admitter.true += found
        if self._admitted == 0:
            return
        took = self._limit - seconds_left - self._planning
        if self.choice == EVERYTHING and self._calls > 1:
            self.exact.add(took, self._rows, compared, built)
        self._learn_amounts(compared, work)
        if self._shedding and not self._warm and not self.scans:
            self._warm = True
            return
        stored = self._admitted + DROPPED * (self._rows - self._admitted)
        costs = self.costs if self.choice.z == 1 else self.costs_of_parts
        costs.add(took, stored, compared, built)
        self._since_parts = self._since_parts + 1 if self.choice.z == 1 else 0
        if self._since_parts > REMEMBERED:
            self.costs_of_parts = CallCosts()  # What they cost is no longer known.

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
