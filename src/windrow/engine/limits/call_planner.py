"""Plans before the first sub-batch how much of a call there is time for.

- Calls are exact until the last ones show that they take too long, and again as soon as calls that shed show
  that an exact one would fit (`harvest/overload.py`). An exact call runs as without a deadline.
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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from windrow.engine.limits.admission_units import UNITS, Units
from windrow.engine.limits.admitter import Admitter
from windrow.harvest.call_costs import RECENT, REMEMBERED, USUAL, CallCosts, Costs
from windrow.harvest.call_load import Choice, Curve, Work, choose
from windrow.harvest.overload import Overload
from windrow.model.stateful import Stateful
from windrow.window.window_store import WindowStore

if TYPE_CHECKING:
    from windrow.engine.partial_matches import PartialMatches
    from windrow.engine.rows import ArrivingRows

Array = np.ndarray
Share = TypeVar("Share", float, np.ndarray)
RecallByWork = Callable[[Sequence[WindowStore], int], Curve | None]
"""(windows, number of the call) -> recall of probing parts of windows; None if that saves nothing."""
EVERYTHING = Choice(UNITS)
MARGIN, UNBRAKED = 0.95, 0.8
"""Fraction of the deadline that a plan may use once it has to shed. The second applies if all rows must
probe: such a call cannot be shortened while it runs."""
STEADY = 0.9, 1.03
"""The number of units stays as it is if its predicted time is between these multiples of the deadline: a
change costs results for as long as the windows last, and choosing costs time."""
DROPPED = 0.05
"""Cost of a dropped row, as a fraction of a stored one: it is read and its unit computed."""
FEW_UNITS, FEW_ROWS = 16, 8
"""The minimum that is admitted, if anything is: a smaller sample would not represent the rest."""
WAIT_CALLS = 8, 64
"""If even the minimum takes n > 1 times the deadline, no row is admitted for 8 n calls, at most 64."""
OVERLOADED = 4.0
"""Above this n the wait begins at once; otherwise only after a few calls with the minimum."""
SURVEYS = 4
"""Rows are counted by unit in one of this many calls that shed, unless windows are scanned."""
BRAKE = 0.15
"""Fraction of the deadline that a call may be late before it builds fewer results."""
SURGE = 2.0
"""Multiple of the predicted results at which an exact call may build fewer. Below it, one that is late is
slow by chance, and would lose results for nothing."""
FEWEST = 0.02
"""Minimum fraction of the planned probes in a late call; they show what the other rows miss."""
SPIKE = 2.0
"""Cap on the measured time to drop rows, as a multiple of the usual time: one call may be slow by chance."""
CHEAP = 0.05
"""Fraction of the deadline that a late call may still spend on building results: finding them took longer."""
PARTS, PART_COST, QUICKEST = 16, 0.02, 2e-4
"""Maximum sub-batches; fraction of the deadline that cutting may cost; minimum seconds of a sub-batch."""
HARVESTED = 5e-3
"""Minimum seconds of a sub-batch that probes parts of windows: planning and learning take a fifth of it."""
FIRST_CALLS, LEARNING, FAR = 5, 16, 0.05
"""The load shedder takes part in the first exact calls, and then in one of 16: it learns how selective the
windows are. Where windows are scanned it takes part in all, unless they are predicted to take less than a
twentieth of the deadline: a harvest may come, and lags must be known by then."""
FORGET = 0.01
"""How fast predictions of harvests are trusted again, per call without a harvest."""


@dataclass
class PlannedCall:
    """The current call."""

    rows: int = 0
    size: int = 0
    """Rows of the call and of the windows."""
    seconds: float = 0.0
    """What the call may take. Plans use all of it: if a call is read slowly, by chance, nothing is gained by
    shedding more."""
    found_before: float = 0.0
    estimated_before: float = 0.0
    """Results found and estimated in earlier calls."""
    admitted: int = 0
    costs: Costs = USUAL
    choice: Choice = EVERYTHING
    probes: float = 1.0
    """Fraction of the rows that probe, as planned."""
    plain: bool = False
    """Whether it runs as without a deadline: the load shedder takes no part."""
    sheds: bool = False
    short: bool = False
    """Whether there is no time to store its rows."""
    predicted: float = 0.0
    """Seconds it is predicted to take."""
    expected: float = 0.0
    """Results predicted for an exact call."""
    promised: float = 0.0
    """Results predicted for the harvest."""
    results: int = 0
    skipped: int = 0
    """Results found so far, and those of them that were not built."""
    overtime: float = 0.0
    """Seconds spent on building results since the time was up."""
    planning: float = 0.0
    """Seconds spent on choosing and dropping rows."""
    random: np.random.Generator | None = None

    @property
    def built(self) -> int:
        """Results built so far."""
        return self.results - self.skipped


class CallPlanner(Stateful):
    """
    Parameters
    ----------
    all_probe
        Whether all rows probe whole windows. In an outer join they must: what is not found now has to be
        searched for when it is decided.
    curve
        Recall of probing parts of windows.
    """

    version = 3
    saved = (
        "admitter", "costs", "costs_of_parts", "overload", "_calls", "_per_row", "_kept", "_since_parts",
        "_minimal", "_wait", "_shares", "_dropping",
    )  # fmt: skip

    def __init__(self, units: Units, streams: int, seed: int, all_probe: bool, curve: RecallByWork) -> None:
        self.admitter = Admitter(units, seed, streams)
        self.costs, self.costs_of_parts = CallCosts(), CallCosts()
        """Costs of calls that probe whole windows, and of calls that probe parts of them."""
        self.overload = Overload()
        self.call = PlannedCall()
        self.scans = False
        """Whether windows are scanned. Comparisons then scale with the rows held, else with the results."""
        self._seed, self._curve = seed, curve
        self._all_probe, self._margin = all_probe, UNBRAKED if all_probe else MARGIN
        # Streams without units are admitted all the same, and a few of their rows show what the others miss.
        self._nothing = Choice(0, probes=1.0 if all_probe else FEWEST, recall=0.0, work=0.0)
        self._calls = 0
        self._per_row = (0.0, 0.0)
        """Comparisons and results per row of an exact call; with scans, comparisons per row held as well."""
        self._kept = 1.0
        """Results that recent harvests found, as a fraction of those predicted."""
        self._shares: tuple[Array, Array] | None = None
        """Fractions of rows and results by units admitted, as of the last choice."""
        self._since_parts = 0
        """Calls since one probed parts of windows."""
        self._dropping = 0.0
        """Seconds to choose and drop rows, in recent calls that did. Not part of the costs, because an exact
        call does neither."""
        self._minimal = 0
        """Calls in a row that admitted the minimum."""
        self._wait = 0
        """Calls without any row before a few are tried again."""

    # -- the data flow ------------------------------------------------------------------------------

    def plan(
        self, windows: Sequence[WindowStore], arrivals: Sequence[ArrivingRows], seconds: float
    ) -> Sequence[Array | None] | None:
        """Plan a call limited to `seconds`. Return the positions of admitted rows by stream; None for all."""
        rows = sum(len(a.rows) for a in arrivals)
        self._calls += 1
        found = self.admitter.results.found, self.admitter.results.estimated
        self.call = call = PlannedCall(rows, sum(map(len, windows)) + rows, seconds, *found, rows)
        if rows == 0 or len(self.costs) == 0:
            return None
        compared, results = (each * rows for each in self._per_row)
        if self.scans:
            compared *= call.size / max(self.admitter.fill(windows), 1e-9)
        call.costs = costs = self.costs.fitted(call.seconds)
        call.expected, call.predicted = results, costs.seconds(rows, compared, results)
        call.sheds = self.overload.sheds(call.seconds, call.predicted, costs, self.scans)
        if not call.sheds:
            self._wait = self._minimal = 0
        if self._wait:
            self._wait -= 1
            call.choice, call.short, call.predicted = self._nothing, True, 0.0
        elif call.sheds:
            self._choose(windows, arrivals, compared, results)
        elif not self.admitter.thinned:
            lags = self.scans and call.predicted > FAR * call.seconds
            learns = lags or len(self.overload.exact) < FIRST_CALLS or self._calls % LEARNING == 0
            call.plain = not learns
            return None
        kept = self.admitter.admit(windows, call.choice.units, arrivals)
        self.admitter.partial |= call.choice.probes < 1
        call.admitted = sum(len(a.rows if at is None else at) for a, at in zip(arrivals, kept, strict=True))
        return kept if call.admitted < rows else None

    def _choose(
        self,
        windows: Sequence[WindowStore],
        arrivals: Sequence[ArrivingRows],
        compared: float,
        results: float,
    ) -> None:
        """Choose what to shed. `compared` and `results` are those of an exact call."""
        call, current, exact = self.call, self.admitter.admitted, self.call.predicted
        each = 1 if self.scans else SURVEYS
        if self._shares is None or self._calls % each == 0:
            self.admitter.survey(windows, arrivals, each)
        if 0 < current < UNITS and self._shares is not None and not self.scans:
            row_share, share = (float(each[current]) for each in self._shares)
            seconds = call.costs.seconds(self._stored(row_share), compared * share, results * share)
            seconds += self._dropping
            if STEADY[0] <= seconds / call.seconds + MARGIN - self._margin <= STEADY[1]:
                call.choice, call.predicted = Choice(current, recall=share, work=seconds / exact), seconds
                return
        fill = self.admitter.fill(windows)
        points = None if self._all_probe else self._curve(windows, self._calls)
        kept = None if points is None else Curve(points.work, points.found * self._kept)
        in_parts = self.costs_of_parts.fitted(call.seconds) if len(self.costs_of_parts) else None
        # Hot keys first; if that fails, all keys alike.
        for spare in (True, False):
            self._shares = row_shares, shares = self.admitter.shares(spare)
            # A scan compares with every row held: those of now, or later those of the admitted units.
            met = row_shares * np.maximum(row_shares, fill) if self.scans else shares
            work = Work(self._stored(row_shares), compared * met, results * shares, shares)
            seconds = self._margin * call.seconds
            choice = choose(
                work, call.costs, seconds, current, kept, in_parts, self._all_probe, self._dropping
            )
            if choice.recall > 0 or not self.admitter.any_hot:
                break
        call.choice = choice = self._at_least_few(choice, work, exact)
        call.probes, call.predicted = choice.probes, exact * choice.work
        if points is not None and choice.z < 1:
            call.promised = results * float(shares[choice.units]) * points(choice.z)

    def _at_least_few(self, choice: Choice, work: Work, exact: float) -> Choice:
        """The choice, but at least a few units, so that what they cost is known."""
        call = self.call
        few = min(UNITS, max(FEW_UNITS, FEW_ROWS * UNITS // call.rows))
        if choice.units >= few:
            self._minimal = 0
            return choice
        self._minimal += 1
        probes = choice.probes if choice.recall > 0 else 1.0
        rows, compared, results, share = (
            float(a[few]) for a in (work.rows, work.compared, work.results, work.share)
        )
        seconds = self._dropping + call.costs.seconds(rows, probes * compared, probes * results)
        call.short = seconds > call.seconds
        overloaded = seconds > OVERLOADED * call.seconds
        if overloaded or (call.short and self._minimal > RECENT):
            self._wait = int(min(WAIT_CALLS[1], WAIT_CALLS[0] * seconds / call.seconds))
        # After a wait a few are admitted all the same: costs may have changed.
        if overloaded and self._minimal == 1:
            return self._nothing
        return replace(choice, units=few, probes=probes, recall=probes * share, work=seconds / exact)

    def _stored(self, share: Share) -> Share:
        """Cost of this call's rows if this share of them is admitted, in units of a stored row."""
        return self.call.rows * (DROPPED + (1 - DROPPED) * share)

    def rows_dropped(self, seconds: float) -> None:
        """The rows there is no time for have been dropped: learn how long that took."""
        self.call.planning = seconds = max(0.0, seconds)
        if self.overload.cold and not self.scans:
            return
        if self._dropping:
            seconds = self._dropping + 0.3 * (min(seconds, SPIKE * self._dropping) - self._dropping)
        self._dropping = seconds

    def parts(self) -> int:
        """Number of sub-batches: several if parts of windows are probed, fewer rows probe, or a scan may be
        late, to correct what is probed between them."""
        call = self.call
        if call.choice.z < 1:
            return max(1, min(PARTS, int(call.seconds / HARVESTED)))
        if call.choice.probes == 1 and not self._may_be_late:
            return 1
        return max(1, min(PARTS, int(PART_COST * call.seconds / max(call.costs.fixed, QUICKEST))))

    @property
    def _may_be_late(self) -> bool:
        """Whether results may surge in a scan that is planned as exact."""
        return self.scans and self.call.predicted > 0.5 * self.call.seconds

    def correct(self, seconds_left: float, rows_left: int) -> None:
        """Reduce the rows that probe if the call is late."""
        call = self.call
        if self._all_probe or call.choice.z < 1 or call.admitted == 0 or rows_left == call.admitted:
            return
        part = rows_left / call.admitted
        so_far = (call.seconds - call.costs.fixed - seconds_left) / (1 - part)
        # Average the prediction with an extrapolation of the time taken so far.
        rest = part * (max(call.predicted, so_far) + so_far) / 2
        spare = seconds_left + (BRAKE * call.seconds if call.choice.work >= 1 else 0.0)
        probes = call.probes * min(1.0, max(FEWEST, spare / max(rest, 1e-12)))
        call.choice = replace(call.choice, probes=probes)
        self.admitter.partial |= probes < 1

    def prober(self, rows: Array) -> Array:
        """Random subset of the rows that probe."""
        return rows[self._random.random(len(rows)) < self.call.choice.probes]

    @property
    def _random(self) -> np.random.Generator:
        """Seeded by call number, so a repeated call draws the same numbers."""
        if self.call.random is None:
            self.call.random = np.random.default_rng((self._seed, self._calls, 9))
        return self.call.random

    def affordable(
        self,
        windows: Sequence[WindowStore],
        partials: PartialMatches,
        finders: Sequence[Array],
        seconds_left: float,
    ) -> PartialMatches:
        """Results there is time to build: a contiguous run with a random start. `finders` are the positions
        of the rows that found them, by arriving stream."""
        call = self.call
        if not call.plain:
            self.admitter.count(windows, partials, finders, call.choice.probes)
        count = len(partials)
        call.results += count
        surges = self._may_be_late or (len(self.costs) > 0 and call.results > SURGE * call.expected)
        room = seconds_left + BRAKE * call.seconds
        if (call.choice == EVERYTHING and not surges) or room > 0.6 * call.seconds:
            return partials
        each = call.costs.result
        room = max(room, CHEAP * call.seconds - call.overtime)
        kept = count if each * count <= room else int(max(0.0, room) / each)
        call.overtime += each * kept * (seconds_left < 0)
        call.skipped += count - kept
        begin = 0 if kept == count else int(self._random.integers(0, count - kept + 1))
        return partials.slice(begin, begin + kept)

    @property
    def work(self) -> float:
        """Fraction of the call's work that is done: as planned, or less if results are not built."""
        call = self.call
        return min(call.choice.work, 1 - call.skipped / call.results if call.results else 1.0)

    # -- learning -----------------------------------------------------------------------------------

    def end(self, seconds: float, compared: int, work: float) -> None:
        """End the call, which took `seconds`, and learn from it. `work` is the fraction of the full
        comparisons made."""
        call = self.call
        if call.plain:
            self.admitter.results.add_sum(call.results, call.results)
        if call.admitted == 0:
            return
        took, built = seconds - call.planning, call.built
        if call.choice == EVERYTHING:
            self.overload.exact.add(took, call.rows, compared, built)
        self._learn_amounts(compared, work)
        if call.sheds and self.overload.cold and not self.scans:
            self.overload.cold = False
            return
        stored = call.admitted + DROPPED * (call.rows - call.admitted)
        costs = self.costs if call.choice.z == 1 else self.costs_of_parts
        costs.add(took, stored, compared, built)
        self._since_parts = self._since_parts + 1 if call.choice.z == 1 else 0
        if self._since_parts > REMEMBERED:
            self.costs_of_parts = CallCosts()  # What they cost is no longer known.

    def _learn_amounts(self, compared: int, work: float) -> None:
        """Update what an exact call would compare and find from what this call did."""
        call, per_row = self.call, self._per_row
        found = self.admitter.results.found - call.found_before
        results = self.admitter.results.estimated - call.estimated_before
        share = max(work, 1e-4) * call.admitted / call.rows
        if call.choice.z < 1:
            # A harvest does not show how many results there are.
            results = per_row[1] * call.rows
            if call.promised > 1:
                self._kept += 0.2 * (min(1.0, found / call.promised) - self._kept)
        else:
            self._kept += FORGET * (1.0 - self._kept)
        if self.scans:
            compared_by_all = compared / share / (call.size - call.rows + call.admitted)
        elif found > 0:
            compared_by_all = compared * results / found
        else:
            compared_by_all = compared / share
        # The smaller the fraction probed, the less it counts.
        part = 0.5 * min(1.0, max(0.1, 2 * share)) if self._calls > 1 else 1.0
        self._per_row = (
            per_row[0] + part * (compared_by_all / call.rows - per_row[0]),
            per_row[1] + part * (results / call.rows - per_row[1]),
        )
