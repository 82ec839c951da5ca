"""What a call under a deadline gives up: decided before its first sub-batch.

What an exact call would compare and find is known from the calls before; what that takes, from the costs that
were learned. If there is time for it the call runs as without a deadline. If not, `harvest/call_load.py`
chooses what to do without. How much longer than predicted calls take is followed from call to call, so that
the next one does as much more or less. Where a call turns out to be late while it runs, fewer results are
built: what is not built is counted, so it is known exactly what that loses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from windrow.engine.limits.admission_units import UNITS, Units
from windrow.engine.limits.admitter import Admitter
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.harvest.call_costs import Coefficients, Timed
from windrow.harvest.call_load import SCATTERED, Choice, Curve, choose
from windrow.model.stateful import Stateful

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.partial_matches import PartialMatches
    from windrow.engine.rows import ArrivingRows

Array = np.ndarray
EVERYTHING = Choice(UNITS)
AT_EASE = 0.6
"""Of the time left that a call may take, by a glance, to be run without a closer look."""
RESERVE = 0.03
"""Of the time allowed that is left alone when something is given up anyway."""
GRACE, HURRY = 0.15, 0.05
"""Of the time allowed by which a call that was to be exact may be late before it gives anything up, and one
that was not."""
TRIAL = 1.4
"""Times the time left that an exact call is predicted to take, and is tried all the same now and then."""
LEAST = 16
"""Units that are admitted where there seems to be time for none, unless that is late: else nothing would be
learned any more."""
PATIENCE = 4, 64
"""Calls until something is tried again that took too long: at first, and at most."""
FEWEST = 0.02
"""Of the rows that were to probe, however late a call is: else nothing would tell what the others miss."""
CHEAP = 0.002
"""Of the time allowed: what takes no longer is built in any case."""
PACE = 0.5, 2.0
"""Bounds of how much longer than predicted calls take."""
EXACT_CALLS = 5
"""The median of so many tells what the next takes."""
_SLOWER, _FASTER = 0.4, 0.1
"""The part of a prediction's error that is taken to last, if calls take longer and if they do not: rows that
were dropped are missed for as long as a window lasts, and only then does a call take what it will."""
_HOPE = 0.97
_LEAST = 1e-3
_FORGET = 0.01


class Patience(Stateful):
    """When to try again what took too long: after ever more calls, until it goes well."""

    saved = ("waited", "patience")

    def __init__(self) -> None:
        self.waited, self.patience = 0, PATIENCE[0]

    def due(self) -> bool:
        self.waited += 1
        if self.waited < self.patience:
            return False
        self.waited, self.patience = 0, min(PATIENCE[1], 2 * self.patience)
        return True

    def reward(self) -> None:
        self.waited, self.patience = 0, PATIENCE[0]


class Calls(Stateful):
    saved = (
        "admitter", "_per_row", "_pieces", "_pace", "_judged", "_dearer", "_kept", "_size_then",
        "_exact_before", "_exact", "_to_exact", "_to_least", "_least_is_late",
    )  # fmt: skip

    def __init__(self, seed: int) -> None:
        self.admitter: Admitter | None = None
        """Made when it is first needed."""
        self.choice = EVERYTHING
        self.scans = False
        """Whether windows are scanned."""
        self._seed = seed
        self._per_row: tuple[float, float] | None = None
        """Rows compared and results found for a row that comes, if nothing is given up."""
        self._size = 0
        self._size_then = 0.0
        """Rows in the windows: in this call, and when that was learned."""
        self._dearer = 1.0
        """How much more it costs to find results in parts of windows than by whole ones, as far as tried."""
        self._kept = 1.0
        """What part of what they promised harvests have found of late."""
        self._pieces = 1.0
        """In which results are built, a sub-batch."""
        self._pace = 1.0
        """How much longer than predicted calls take of late."""
        self._judged = 0
        """Calls that told that."""
        self._exact: list[float] = []
        """Seconds for a row of the last exact calls."""
        self._to_exact, self._to_least = Patience(), Patience()
        """Before an exact call, and one of a few units, is tried that seems to take too long."""
        self._least_is_late = False
        self._exact_before = True
        """Whether the last call was exact."""
        self._costs: Coefficients | None = None
        self._fixed = 0.0
        """Seconds that a call takes whatever is in it."""
        self._predicted = 0.0
        """Seconds that were predicted for this call."""
        self._rows, self._probes = 0, 1.0
        """Rows that were admitted, and the part of them that was to probe."""
        self._planned_at = 0.0
        """Seconds that were left then."""
        self._shares = (1.0, 1.0)
        """The part of the comparisons and results that the units admitted have."""
        self._expected = (0.0, 0.0, 0)
        """Comparisons, results and rows of what was chosen."""
        self._found = 0
        self._full = [0.0, 0.0, 0.0]
        """Of this call: comparisons, results and rows, if nothing were given up."""
        self._rows_share = 1.0
        """The part of the rows that are in the units admitted."""
        self._rng: np.random.Generator | None = None

    # -- the data flow ------------------------------------------------------------------------------

    def plan(
        self,
        join: Join,
        arrivals: Sequence[ArrivingRows],
        controller: DeadlineController,
        curve: Curve | None,
    ) -> list[Array | None] | None:
        """Masks of the rows that are admitted, None for all. `curve` tells what parts of windows give."""
        rows = sum(len(a.rows) for a in arrivals)
        assert join.plan is not None
        self.scans = any(d.steps[0].access.path == "scan" for d in join.plan.directions)
        self.choice, self._costs, self._shares, self._rows_share = EVERYTHING, None, (1.0, 1.0), 1.0
        self._probes = 1.0
        self._rng, self._found = None, 0
        self._expected = (0.0, 0.0, rows)
        if rows == 0 or self._per_row is None:
            return None
        self._size = sum(map(len, join.windows))
        # Who scans windows compares as many rows as these hold.
        grown = self._size / self._size_then if self.scans and self._size_then else 1.0
        self._expected = (self._per_row[0] * grown * rows, self._per_row[1] * rows, rows)
        thinned = self.admitter is not None and self.admitter.thinned
        self._predicted, self._rows, self._planned_at = controller.cost * rows, rows, controller.spare
        if self._exact_before and not thinned and self._predicted <= AT_EASE * controller.spare:
            return None
        self._costs = costs = controller.costs.fitted()
        self._fixed = controller.cuts_left * (costs.sub_batch + costs.piece * self._pieces)
        compared, results, _ = self._expected
        each = costs.row * rows + costs.compare * compared + costs.result * results
        self._predicted = self._fixed + each
        exact = self._pace * self._predicted
        # The last exact calls tell best what the next takes.
        in_time = self._exact_before and median(self._exact or [math.inf]) * rows <= controller.budget
        near = exact <= TRIAL * controller.spare
        if exact <= controller.spare or (near and (in_time or self._to_exact.due())):
            if thinned and self.admitter is not None:
                self.admitter.admit(join, UNITS, arrivals, self.admitter.survey(join, arrivals))
            return None
        if self.admitter is None:
            self.admitter = Admitter(Units.of_join(join), self._seed, len(arrivals), join.found)
        units = self.admitter.survey(join, arrivals)
        self._choose(join, arrivals, controller, curve)
        if self.choice.recall == 0.0 and controller.costs.cold:
            self.choice = Choice(UNITS, probes=0.1, work=0.1)
        masks = self.admitter.admit(join, self.choice.units, arrivals, units)
        if self.choice.recall == 0.0 and self.choice.units == 0:
            masks = [np.zeros(len(a.rows), bool) for a in arrivals]
            for stream, arrived in enumerate(arrivals):
                join.unsampled[stream] += len(arrived.rows)
        self._probes = self.choice.probes
        self.admitter.partial |= self._probes < 1
        dropped = sum(int(len(m) - m.sum()) for m in masks if m is not None)
        self._rows = rows - dropped
        controller.admit(rows - dropped, self.choice.z, self.choice.work)
        return masks if dropped else None

    def _choose(
        self,
        join: Join,
        arrivals: Sequence[ArrivingRows],
        controller: DeadlineController,
        curve: Curve | None,
    ) -> None:
        """What promises most in the time left, hot keys first; without sparing these if that promises
        nothing; and if nothing does, a few units now and then."""
        assert self.admitter is not None and self._costs is not None
        compared, results, rows = self._expected
        if curve is not None:
            curve = Curve(curve.work, curve.found * self._kept)
        seconds = (controller.spare - RESERVE * controller.budget) / self._pace
        given = (curve, self._dearer, 0.0 if self.scans else SCATTERED)
        for spare in (True, False) if self.admitter.spares else (True,):
            work = self.admitter.work(arrivals, join.windows, compared, results, self.scans, spare)
            choice = choose(work, self._costs, seconds, self._fixed, self.admitter.admitted, *given)
            if choice.recall > 0:
                break
        controller.short = choice.recall == 0.0
        if controller.short and (not self._least_is_late or self._to_least.due()):
            choice = Choice(LEAST, recall=float(work.share[LEAST]), work=_LEAST, seconds=self._fixed)
        self.choice, k = choice, choice.units
        self._rows_share = float(work.rows[k]) / max(rows, 1)
        self._shares = (
            float(work.compared[k]) / max(compared, 1e-9) if compared else 1.0,
            float(work.share[k]),
        )
        found = choice.probes if curve is None else choice.probes * curve(choice.z)
        part = choice.z * choice.probes
        self._expected = (float(work.compared[k]) * part, float(work.results[k]) * found, rows)
        self._predicted = choice.seconds

    @property
    def tight(self) -> bool:
        """Whether the call may be late, so that it is cut as fine as pays."""
        return self._costs is not None

    def correct(self, join: Join, controller: DeadlineController) -> None:
        """Between sub-batches: where the call is behind, fewer of the rows left probe."""
        if self.choice.z < 1 or self._predicted <= 0 or self._rows == 0:
            return
        left = controller.rows_left / self._rows
        # What it took so far tells as much of the rest as what was predicted.
        so_far = (self._planned_at - controller.spare) / max(1 - left, 1e-9)
        rest = left * (self._pace * self._predicted + so_far) / 2
        spare = controller.spare + (GRACE if self.choice.work >= 1 else HURRY) * controller.budget
        part = min(1.0, max(FEWEST, spare / max(rest, 1e-12)))
        if self.choice.probes != self._probes * part:
            self.choice = replace(self.choice, probes=self._probes * part)
            if self.admitter is None:
                self.admitter = Admitter(Units.of_join(join), self._seed, len(join.windows), join.found)
            self.admitter.partial |= self.choice.probes < 1

    def prober(self, rows: Array, call: int) -> Array:
        """Those of the rows that probe."""
        return rows[self._random(call).random(len(rows)) < self.choice.probes]

    def _random(self, call: int) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng((self._seed, call, 9))
        return self._rng

    def affordable(
        self, join: Join, partials: PartialMatches, controller: DeadlineController, arriving: int
    ) -> PartialMatches:
        """The results there is time to build: those of some rows next to each other, beginning anywhere."""
        if self.admitter is not None:
            self.admitter.count(join, partials, arriving, self.choice.probes)
        count, before = len(partials), self._found
        self._found += count
        spare = controller.spare + (GRACE if self.choice.work >= 1 else HURRY) * controller.budget
        if spare > 0.6 * controller.budget:
            return partials
        costs = self._costs or controller.costs.fitted()
        if costs.result * count <= CHEAP * controller.budget:
            return partials
        compared, results, _ = self._expected
        coming = max(results - before, float(count))
        ahead = costs.compare * compared * (coming - count) / max(results, coming)
        if controller.rows_left:
            ahead += costs.row * controller.rows_left + costs.sub_batch * controller.cuts_left
        part = (spare - ahead - costs.piece) / (costs.result * coming)
        if part >= 1:
            return partials
        kept = int(max(0.0, part) * count)
        begin = int(self._random(controller.calls).integers(0, count - kept + 1))
        return partials.slice(begin, begin + kept)

    # -- learning -----------------------------------------------------------------------------------

    def learn(self, timed: Timed, found: int, work: float, output: float) -> None:
        """From a sub-batch that did this part of the full probing, with this part of its results."""
        if self.choice.z < 1 and self._costs is not None:
            costs, rows = self._costs, timed.rows
            each = costs.compare * self._expected[0] + costs.result * self._expected[1]
            wanted = each * rows / max(self._expected[2], 1) * work / max(self.choice.z, 1e-9)
            rest = costs.probe + costs.probe_row * rows + costs.piece * timed.pieces
            took = timed.probe + timed.build - rest
            promised = 0.0 if self._per_row is None else self._per_row[1] * rows * self._shares[1] * output
            if wanted > 0:
                self._dearer += 0.3 * (min(20.0, max(0.5, took / wanted)) - self._dearer)
            if promised > 1:
                self._kept += 0.2 * (min(1.0, timed.built / promised) - self._kept)
        else:
            self._dearer += _FORGET * (1.0 - self._dearer)
            self._kept += _FORGET * (1.0 - self._kept)
        self._pieces += 0.2 * (timed.pieces - self._pieces)
        self._full[2] += timed.rows / max(self._rows_share, _LEAST)
        self._full[0] += timed.compared / max(work * self._shares[0], _LEAST)
        expected = self._per_row[1] * timed.rows if self._per_row is not None else 0.0
        # What a harvest finds tells nothing of what there is: it is judged by it.
        self._full[1] += expected if self.choice.z < 1 else found / max(output * self._shares[1], _LEAST)
        if self._per_row is None and timed.rows:
            self._per_row = self._full[0] / timed.rows, self._full[1] / timed.rows

    def end(self, rows: int, controller: DeadlineController, skipped: int) -> None:
        """A call with so many rows, admitted or not, is over, with so many results not built."""
        exact = self.choice.work >= 1
        if self._costs is not None and self._predicted > 0 and not controller.costs.cold:
            # Where fewer were built than was planned, it would have taken longer.
            took = self._planned_at - controller.spare + self._costs.result * skipped
            error = max(took, 0.0) / self._predicted / self._pace
            self._judged += 1
            self._pace *= error ** max(_SLOWER if error > 1 else _FASTER, 1 / self._judged)
            self._pace = min(PACE[1], max(PACE[0], self._pace))
        elif controller.short:
            self._pace = max(1.0, _HOPE * self._pace)
        if exact and rows:
            before = self._exact[1 - EXACT_CALLS :] if self._exact_before else []
            self._exact = [*before, (controller.budget - controller.seconds_left) / rows]
            if controller.spare >= 0:
                self._to_exact.reward()
        elif controller.short and self.choice.units == LEAST:
            self._least_is_late = controller.seconds_left < -HURRY * controller.budget
            if not self._least_is_late:
                self._to_least.reward()
        self._exact_before = exact
        *full, done = self._full
        if done and self._per_row is not None:
            # The less was looked at, the less it tells.
            part = 0.5 * min(1.0, max(0.1, 2 * self._shares[1] * self.choice.probes)) * min(1.0, done / rows)
            compared, results = (a + part * (b / done - a) for a, b in zip(self._per_row, full, strict=True))
            self._per_row = compared, results
            self._size_then += (part if self._size_then else 1.0) * (self._size - self._size_then)
        self._full = [0.0, 0.0, 0.0]

    def resume(self, join: Join) -> None:
        """Restored, the admitter lacks what the join gives it."""
        if self.admitter is not None:
            values = self.admitter.dump()
            self.admitter = Admitter(Units.of_join(join), self._seed, len(join.windows))
            self.admitter.restore(values)
