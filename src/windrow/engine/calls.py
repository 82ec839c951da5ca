"""What is given up for a whole call: decided before its first sub-batch, held to while it runs.

What an exact call would compare and find is known from the calls before; what that takes, from the costs that
were learned. If there is time for it the call runs as without a deadline. If not, `planning/load.py` chooses.
Where it turns out while the call runs that there is less time than was thought, fewer results are built: what
is not built is counted, so it is known exactly what that loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.engine.admitter import Admitter
from windrow.engine.timekeeper import TimeKeeper
from windrow.engine.units import UNITS, Units
from windrow.planning.costs import Coefficients, Timed
from windrow.planning.load import SCATTERED, Choice, Curve, choose

if TYPE_CHECKING:
    from windrow.engine.join import Arrivals, Join
    from windrow.engine.partials import Partials

Array = np.ndarray
EVERYTHING = Choice(UNITS)
AT_EASE = 0.6
"""Of the time left that a call may take, by a glance, to be run without a closer look."""
RESERVE = 0.02
"""Of the time allowed that is left alone when something is given up anyway."""
GRACE, HURRY = 0.15, 0.05
"""Of the time allowed by which a call that was to be exact may be late before it gives anything up, and one
that was not."""
TRIAL = 1.15
"""Times the time left that an exact call is predicted to take, and is tried all the same now and then."""
FEW = 0.02
"""Of the rows probe when there is time for taking them in and nothing more."""
CHEAP = 0.002
"""Of the time allowed: what takes no longer is built in any case."""
_HOPE = 0.85
"""By which costs are taken to be lower with each call that nothing was admitted in, so that it is tried again
some time whether they still are what they were."""
_LEAST = 1e-3
_FORGET = 0.01


class Calls:
    def __init__(self, seed: int) -> None:
        self.admitter: Admitter | None = None
        """Made when it is first needed."""
        self.choice = EVERYTHING
        self.tight = False
        """Whether there is little time to spare in this call, if any."""
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
        self._since_trial, self._patience = 0, 4
        """Calls since an exact one was tried that seemed to take too long, and how many to wait."""
        self._hope = 1.0
        self._trust = 1.0
        """What part of the time that calls of late were planned for they kept to it with."""
        self._eased = True
        """Whether the last call was exact."""
        self._costs: Coefficients | None = None
        self._shares = (1.0, 1.0)
        """The part of the comparisons and results that the units admitted have."""
        self._planned = (0.0, 0.0, 0)
        """Comparisons, results and rows that the choice was made for."""
        self._found = 0
        self._compared = 0
        self._full = [0.0, 0.0, 0.0]
        """Of this call: comparisons, results and rows, if nothing were given up."""
        self._rows_share = 1.0
        """The part of the rows that are in the units admitted."""
        self._rng: np.random.Generator | None = None

    # -- the data flow ------------------------------------------------------------------------------

    def plan(
        self,
        join: Join,
        arrivals: Sequence[Arrivals],
        keeper: TimeKeeper,
        curve: Curve | None,
    ) -> list[Array | None] | None:
        """Masks of the rows that are admitted, None for all. `curve` tells what parts of windows give."""
        rows = sum(len(a.rows) for a in arrivals)
        assert join.plan is not None
        self.scans = any(d.steps[0].access.path == "scan" for d in join.plan.directions)
        self.choice, self._costs, self._shares, self._rng = EVERYTHING, None, (1.0, 1.0), None
        keeper.short = False
        self._found, self._compared, self.tight, self._rows_share = 0, 0, False, 1.0
        self._planned = (0.0, 0.0, rows)
        if rows == 0 or self._per_row is None:
            return None
        self._size = sum(map(len, join.windows))
        # Who scans windows compares as many rows as these hold.
        grown = self._size / self._size_then if self.scans and self._size_then else 1.0
        self._planned = (self._per_row[0] * grown * rows, self._per_row[1] * rows, rows)
        thinned = self.admitter is not None and self.admitter.thinned
        if self._eased and not thinned and keeper.cost * rows <= AT_EASE * keeper.spare:
            return None
        self._costs = costs = keeper.costs.fitted()
        self.tight = True
        predicted = self._fixed(costs, keeper) + self._exact(costs)
        if not thinned and predicted <= keeper.spare:
            return None
        if self._try(predicted, rows, keeper):
            if thinned and self.admitter is not None:
                self.admitter.admit(join, UNITS, arrivals, self.admitter.survey(join, arrivals))
            return None
        if self.admitter is None:
            self.admitter = Admitter(Units.of_join(join), self._seed, len(arrivals))
        admitter, units = self.admitter, self.admitter.survey(join, arrivals)
        self._choose(join, arrivals, keeper, curve)
        if self.choice.recall == 0.0 and admitter.spares:
            self._choose(join, arrivals, keeper, curve, spare=False)
        if self.choice.recall == 0.0 and keeper.costs.cold:
            self.choice = Choice(UNITS, probes=0.1, work=0.1)
        taking = self._fixed(costs, keeper) + costs.take_row * rows
        if self.choice.recall == 0.0 and taking <= keeper.spare + HURRY * keeper.budget:
            # A few probe, so that it is seen what is lost; and all can be found by others later.
            self.choice = Choice(UNITS, probes=FEW, recall=FEW, work=FEW)
            self._rows_share, self._shares = 1.0, (1.0, 1.0)
        if self.choice.recall == 0.0:
            self._hope *= _HOPE
            for stream, arrived in enumerate(arrivals):
                join.blind[stream] += len(arrived.rows)
            keeper.admit(0, 1.0, 0.0)
            admitter.partial = True
            return [np.zeros(len(a.rows), bool) for a in arrivals]
        masks = admitter.admit(join, self.choice.units, arrivals, units)
        admitter.partial |= self.choice.probes < 1
        dropped = sum(int(len(m) - m.sum()) for m in masks if m is not None)
        keeper.admit(rows - dropped, self.choice.z, self.choice.work)
        return masks if dropped else None

    def _choose(
        self,
        join: Join,
        arrivals: Sequence[Arrivals],
        keeper: TimeKeeper,
        curve: Curve | None,
        spare: bool = True,
    ) -> None:
        assert self.admitter is not None and self._costs is not None and join.plan is not None
        compared, results, rows = self._planned
        if curve is not None:
            curve = Curve(curve.work, curve.found * self._kept)
        work = self.admitter.work(arrivals, join.windows, compared, results, self.scans, spare)
        costs, fixed = self._costs, self._fixed(self._costs, keeper)
        seconds = (keeper.spare - RESERVE * keeper.budget) * self._trust / self._hope
        scattered = 0.0 if self.scans else SCATTERED
        choice = choose(work, costs, seconds, fixed, self.admitter.admitted, curve, self._dearer, scattered)
        keeper.short = fixed + costs.row * rows > seconds
        k, self.choice = choice.units, choice
        self._rows_share = float(work.rows[k]) / max(rows, 1)
        self._shares = (
            float(work.compared[k]) / max(compared, 1e-9) if compared else 1.0,
            float(work.share[k]),
        )
        found = choice.probes if curve is None else choice.probes * curve(choice.z)
        part = choice.z * choice.probes
        self._planned = (float(work.compared[k]) * part, float(work.results[k]) * found, rows)

    def _try(self, predicted: float, rows: int, keeper: TimeKeeper) -> bool:
        """Whether to run exactly although it is predicted to take too long: as the last call did, and was in
        time; or, now and then, where it is a near thing, since what is predicted errs."""
        self._since_trial += 1
        if predicted > TRIAL * keeper.spare:
            return False
        if self._eased and keeper.last * rows <= keeper.budget:
            return True
        if self._since_trial < self._patience:
            return False
        self._since_trial, self._patience = 0, min(64, 2 * self._patience)
        return True

    def _fixed(self, costs: Coefficients, keeper: TimeKeeper) -> float:
        """Seconds that sub-batches take whatever is in them."""
        return keeper.cuts_left * (costs.sub_batch + costs.piece * self._pieces)

    def _exact(self, costs: Coefficients) -> float:
        """Seconds that what is in them takes, if nothing is given up."""
        compared, results, rows = self._planned
        return costs.row * rows + costs.compare * compared + costs.result * results

    def behind(self, keeper: TimeKeeper) -> bool:
        """Whether there is no longer time to probe for the rows left."""
        spare, rows = keeper.spare, keeper.rows_left
        if self.choice.z < 1 or self._planned[2] == 0 or len(keeper.costs) < 2:
            return False
        if not self.tight and spare > 0.5 * keeper.budget:
            return False
        costs = keeper.costs.fitted()
        done = 1 - rows / self._planned[2]
        # Of this call, what was compared so far tells best what is to come.
        compared = self._planned[0] if done <= 0 else max(self._planned[0], self._compared / done)
        probing = costs.compare * compared * (1 - done)
        return costs.sub_batch * keeper.cuts_left + costs.row * rows + probing > spare

    def prober(self, rows: Array, keeper_calls: int) -> Array:
        """Those of the rows that probe."""
        return rows[self._random(keeper_calls).random(len(rows)) < self.choice.probes]

    def _random(self, call: int) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng((self._seed, call, 9))
        return self._rng

    def affordable(self, join: Join, partials: Partials, keeper: TimeKeeper, arriving: int) -> Partials:
        """The results there is time to build: those of some rows next to each other, beginning anywhere."""
        if self.admitter is not None:
            self.admitter.count(join, partials, arriving, self.choice.probes)
        count, before = len(partials), self._found
        self._found += count
        spare = keeper.spare + (GRACE if self.choice.work >= 1 else HURRY) * keeper.budget
        if spare > 0.6 * keeper.budget:
            return partials
        costs = self._costs
        if costs is None:
            costs = self._costs = keeper.costs.fitted()
        if costs.result * count <= CHEAP * keeper.budget:
            return partials
        compared, results, _ = self._planned
        coming = max(results - before, float(count))
        ahead = costs.compare * compared * (coming - count) / max(results, coming)
        if keeper.rows_left:
            ahead += costs.row * keeper.rows_left + costs.sub_batch * keeper.cuts_left
        part = (spare - ahead - costs.piece) / (costs.result * coming)
        if part >= 1:
            return partials
        kept = int(max(0.0, part) * count)
        begin = int(self._random(keeper.calls).integers(0, count - kept + 1))
        return partials.slice(begin, begin + kept)

    # -- learning -----------------------------------------------------------------------------------

    def learn(self, timed: Timed, found: int, work: float, output: float) -> None:
        """From a sub-batch that did this part of the full probing, with this part of its results."""
        self._hope = 1.0
        self._compared += timed.compared
        if self.choice.z < 1 and self._costs is not None:
            costs, rows = self._costs, timed.rows
            each = costs.compare * self._planned[0] + costs.result * self._planned[1]
            wanted = each * rows / max(self._planned[2], 1) * work / max(self.choice.z, 1e-9)
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

    def end(self, rows: int, keeper: TimeKeeper, skipped: int) -> None:
        """A call with so many rows, admitted or not, is over, with so many results not built."""
        if 0 < self.choice.work < 1 and self._costs is not None and keeper.budget > 0:
            # Where fewer were built than was planned, it would have taken longer.
            taken = keeper.budget - keeper.spare + self._costs.result * skipped
            step = ((1 - RESERVE) * keeper.budget / max(taken, 1e-9)) ** 0.3
            self._trust = min(1.1, max(0.3, self._trust * min(1.1, max(0.7, step))))
        else:
            self._trust += 0.05 * (1 - self._trust)
        self._eased = self.choice.work >= 1
        *full, done = self._full
        if done and self._per_row is not None:
            # The less was looked at, the less it tells.
            part = 0.5 * min(1.0, max(0.1, 2 * self._shares[1] * self.choice.probes)) * min(1.0, done / rows)
            compared, results = (a + part * (b / done - a) for a, b in zip(self._per_row, full, strict=True))
            self._per_row = compared, results
            self._size_then += (part if self._size_then else 1.0) * (self._size - self._size_then)
        self._full = [0.0, 0.0, 0.0]

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        return {
            "per_row": None if self._per_row is None else list(self._per_row),
            "pieces": self._pieces,
            "hope": self._hope,
            "dearer": self._dearer,
            "trust": self._trust,
            "kept": self._kept,
            "size": self._size_then,
            "eased": self._eased,
            "trial": [self._since_trial, self._patience],
            "admitter": None if self.admitter is None else self.admitter.save(),
        }

    def load(self, saved: dict[str, Any], join: Join) -> None:
        self._per_row = None if saved["per_row"] is None else (saved["per_row"][0], saved["per_row"][1])
        self._pieces, self._hope, self._eased = saved["pieces"], saved["hope"], saved["eased"]
        self._dearer, self._trust, self._kept = saved["dearer"], saved["trust"], saved["kept"]
        self._size_then = saved["size"]
        self._since_trial, self._patience = saved["trial"]
        if saved["admitter"] is not None:
            self.admitter = Admitter(Units.of_join(join), self._seed, len(join.windows))
            self.admitter.load(saved["admitter"])
