"""Harvesting: rows look at those parts of the windows that yield most for the time there is (GrubJoin).

While there is time for everything, everything is looked at, and what is found tells how far apart in time
matching rows are. When there is not, it is decided for a call what saves most (`calls.py`): admitting fewer
units of rows, looking at parts of windows, or building fewer results. To look at parts of windows a harvest
is chosen for the throttle fraction, and just a share of the rows, drawn at random, looks at an even sample of
everything: from these the lags go on being learned, and it is known what the others miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.engine.ages import FOREVER, Ages
from windrow.engine.calls import Calls
from windrow.engine.flows import SECOND, Flows, orders_of, rows_held
from windrow.engine.probe import EVERYTHING, Look, Probe
from windrow.model.harvest import BasicWindows, Harvest
from windrow.model.plan import Plan
from windrow.model.query import Query
from windrow.model.time_policies import Harvesting
from windrow.planning.admission import ages_worth_keeping
from windrow.planning.costs import Timed
from windrow.planning.harvest_model import HarvestModel
from windrow.planning.harvest_solve import solve
from windrow.planning.lags import KINDS, Lags
from windrow.planning.load import Curve
from windrow.shed.missed import Draw, Missed
from windrow.shed.view import Notes
from windrow.window.window import Window

if TYPE_CHECKING:
    from windrow.engine.join import Arrivals, Join
    from windrow.engine.partials import Partials
    from windrow.engine.timekeeper import TimeKeeper

Array = np.ndarray
LEARNED_AT_ONCE = 512
LEARNED_AT_EASE = 128
"""Results of a probe that are learned from, at most; and while everything is looked at, when all of them tell
the same and there are more than enough."""
STRATA = 10
"""Parts of a window that an even sample looks into, at least."""
QUANTA_BETWEEN_PLANS = 8
ENOUGH, QUANTA_AT_EASE = 5_000, 4
"""With so many results known, and while everything is looked at, one quantum in so many is learned from."""
QUANTA_TO_KNOW, QUANTA_PLANNED = 16, 16
"""Where calls are planned: after so many quanta, one in so many."""
CURVE_AT = np.array([0.0, 0.02, 0.06, 0.15, 0.3, 0.5, 0.75, 1.0])
CALLS_BETWEEN_CURVES = 16
SHRUNK, GROWN = 0.5, 1.25
"""To which part or multiple the time that a counted window covers must come for lags to be learned anew:
those beyond what it covered are not known at all."""
_KINDS = {"per stream": "stream", "pairwise": "pair"}


class Harvester:
    notes: Notes = ()

    def __init__(self, policy: Harvesting, query: Query) -> None:
        self.policy = policy
        self.missed = Missed()
        self.calls = Calls(query.seed)
        self.harvest: Harvest | None = None
        """What is looked at; None until windows and orders are known."""
        self.latest: Harvest | None = None
        """The last one that was chosen, be there time for everything by now or not."""
        self._lags: Lags | None = None
        self._lags_fade = 1.0
        self.flows = Flows(len(query.streams), policy.half_life)
        self._seed = query.seed
        self._counts_rows = query.counts_rows
        self._basic: BasicWindows | None = None
        self._rng: np.random.Generator | None = None
        """Of this quantum; made when it is first asked for."""
        self._z = 1.0
        self._fade = 1.0
        self._ages: list[tuple[Ages, ...]] = []
        self._planned: Plan | None = None
        self._planned_at = 0
        self._planned_now = 0
        self._worth: Array | None = None
        """Per stream the greatest age that harvests of late look at, in microseconds."""
        self._curve: tuple[Plan, int, Curve] | None = None
        """What parts of windows give: by which plan, and in which call that was found."""
        self._found_before = 0
        self._arriving = 0
        self._call = 0

    # -- a call -------------------------------------------------------------------------------------

    def plan(
        self, join: Join, arrivals: Sequence[Arrivals], keeper: TimeKeeper
    ) -> Sequence[Array | None] | None:
        """Masks of the rows that are admitted, None for all."""
        if not self.policy.plans_calls:
            return None
        self._call = keeper.calls
        return self.calls.plan(join, arrivals, keeper, self._gives(join, keeper))

    def _gives(self, join: Join, keeper: TimeKeeper) -> Curve | None:
        """What looking at parts of windows gives: where windows are scanned, and there is little time."""
        assert join.plan is not None
        if any(d.steps[0].access.path != "scan" for d in join.plan.directions) or self.lags is None:
            return None
        known = self._curve
        if known is None or known[0] is not join.plan or keeper.calls - known[1] >= CALLS_BETWEEN_CURVES:
            if known is None and keeper.cost * keeper.rows_left <= keeper.spare:
                return None  # There may never be a need for it.
            model, omega = self.model(join), self.policy.shredding
            found = [solve(model, z, self.policy.method, parts=True).output for z in CURVE_AT[1:-1].tolist()]
            part = np.array([0.0, *found, model.full[1]]) / max(model.full[1], 1e-300)
            curve = Curve(CURVE_AT, (1 - omega) * np.maximum.accumulate(part) + omega * CURVE_AT)
            known = self._curve = join.plan, keeper.calls, curve
        return known[2]

    @property
    def tight(self) -> bool:
        return self.calls.tight

    def behind(self, keeper: TimeKeeper) -> bool:
        return self.policy.plans_calls and self.calls.behind(keeper)

    def affordable(self, join: Join, partials: Partials, keeper: TimeKeeper) -> Partials:
        """The results there is time to build."""
        if not self.policy.plans_calls:
            return partials
        return self.calls.affordable(join, partials, keeper, self._arriving)

    def learn(self, join: Join, timed: Timed) -> None:
        """From a sub-batch."""
        found, self._found_before = join.found - self._found_before, join.found
        recall = self.calls.choice.probes if self.harvest is None else self.harvest.recall
        self.calls.learn(timed, found, self.share, recall)

    def end(self, rows: int, keeper: TimeKeeper, skipped: int) -> None:
        self.calls.end(rows, keeper, skipped)

    # -- the data flow ------------------------------------------------------------------------------

    @property
    def share(self) -> float:
        """What drawn rows and the others do of the full work, by the model."""
        if self.harvest is None or self.harvest.everything or self.harvest.full_cost <= 0:
            return self.calls.choice.probes
        omega = self.policy.shredding
        return omega * self._z + (1 - omega) * self.harvest.cost / self.harvest.full_cost

    def begin(self, join: Join, arrived: Sequence[int], now: int, z: float) -> None:
        """A quantum begins, of so many rows per stream, at throttle fraction z. All rows are let in."""
        fade = self.flows.begin(join, arrived, now)
        self._fade = fade ** (4 * self.policy.half_life)
        self._lags_fade *= fade
        self._rng = None
        self._z = z
        self._follow_windows(join)
        if z < 1.0:
            if self._stale(join, z, now):
                self._plan(join, z, now)
        elif self.harvest is not None and not self.harvest.everything:
            self.harvest = None

    @property
    def lags(self) -> Lags | None:
        """How far apart matching rows are, lately; None until anything was found."""
        if self._lags is not None and self._lags_fade < 1:
            self._lags = self._lags.decayed(self._lags_fade)
        self._lags_fade = 1.0
        return self._lags

    @lags.setter
    def lags(self, lags: Lags | None) -> None:
        self._lags, self._lags_fade = lags, 1.0

    def _random(self) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng((self._seed, self.flows.quanta, 5))
        return self._rng

    def arrived(self, join: Join, stream: int, start: int) -> None:
        """Rows were appended."""

    def probe(self, join: Join, probe: Probe, start: int) -> Iterator[Partials]:
        """Results of the rows from position `start` on."""
        self._arriving = stream = probe.direction.arriving
        flow = np.zeros(len(probe.direction.steps) + 1)
        if self.harvest is None or self.harvest.everything:
            part, knows = self.calls.choice.probes, self._knows_enough
            look = EVERYTHING if knows else Look(flow=flow)
            if part < 1:
                probing = self.calls.prober(np.arange(start, join.windows[stream].end), self._call)
                found = probe.look(join.windows, probing, look)
            else:
                found = probe.run(join.windows, start, look)
            if knows:
                yield from found
                return
            for partials in found:
                self._learn_lags(join, partials, 1 / part, LEARNED_AT_EASE)
                yield partials
            self.flows.learn(probe, flow, self._rows(join), weight=1 / part)
            return
        rows = np.arange(start, join.windows[stream].end)
        self.missed.rows += len(rows)
        draw = self._draw(probe)
        drawn = self._random().random(len(rows)) < draw.omega
        yield from self._shred(join, probe, rows[drawn], flow, draw)
        self.flows.learn(probe, flow, self._rows(join), draw.z, draw.weight)
        if draw.omega == 0.0:
            self.missed.blind += len(rows)
        if not self.harvest.directions[stream].idle:
            yield from probe.look(join.windows, rows[~drawn], Look(self._ages[stream]))

    @property
    def _knows_enough(self) -> bool:
        """Whether this quantum's results, all of them found, need not be learned from."""
        if self.policy.plans_calls:
            scans = self.calls.scans and (self._lags is None or self._lags.weight < ENOUGH)
            each = QUANTA_AT_EASE if scans else QUANTA_PLANNED
            return self.flows.quanta > QUANTA_TO_KNOW and bool(self.flows.quanta % each)
        return (
            self.lags is not None and bool(self.flows.quanta % QUANTA_AT_EASE) and self.lags.weight > ENOUGH
        )

    def _draw(self, probe: Probe) -> Draw:
        """Through an index a look costs much the same however few ages are looked at; so there fewer rows are
        drawn, which look at everything."""
        if probe.direction.steps[0].access.path == "scan":
            return Draw(self.policy.shredding, self._z)
        return Draw(self.policy.shredding * self._z, 1.0)

    def _shred(self, join: Join, probe: Probe, rows: Array, flow: Array, draw: Draw) -> Iterator[Partials]:
        """An even sample of everything."""
        self.missed.draw(len(rows), draw)
        first = join.windows[probe.direction.steps[0].stream]
        if len(rows) == 0 or len(first) == 0:
            return
        ages: tuple[Ages | None, ...] = ()
        if draw.z < 1.0:
            sample = self._sample(join.windows[probe.direction.arriving].ts[rows], first, draw.z)
            ages = (sample, *[None] * (len(probe.direction.steps) - 1))
        for partials in probe.look(join.windows, rows, Look(ages, flow)):
            self._count(join, probe, rows, partials, draw)
            self._learn_lags(join, partials, draw.weight)
            yield partials

    def _sample(self, times: Array, window: Window, z: float) -> Ages:
        held = window.ts[window.first : window.end]
        youngest, oldest = int(times.min() - held.max()), int(times.max() - held.min())
        if window.span is not None:
            oldest = min(oldest, window.span)
        # Rows that came late, or were held long, make for more ages; but not for many more intervals.
        period = max(1, (window.span or 0) // STRATA, (oldest - youngest) // (2 * STRATA))
        return Ages.sampled(z, period, youngest, oldest, self._random().random(len(times)))

    def _count(self, join: Join, probe: Probe, rows: Array, partials: Partials, draw: Draw) -> None:
        """Takes account of what drawn rows found, and the harvest would not have."""
        stream = probe.direction.arriving
        anchor = join.windows[stream].ts[partials.rows[stream]]
        outside = np.zeros(len(partials), bool)
        assert self.harvest is not None
        if self.harvest.directions[stream].idle:
            outside[:] = True
        else:
            for step, ages in zip(probe.direction.steps, self._ages[stream], strict=True):
                age = anchor - join.windows[step.stream].ts[partials.rows[step.stream]]
                outside |= ~ages.contains(age)
        which = np.searchsorted(rows, partials.rows[stream])
        weights = join.shedder.weights(join, partials) if join.shedder else np.ones(len(partials))
        if self.calls.admitter is not None:
            weights = weights * self.calls.admitter.weights(join, partials)
        self.missed.add(which, len(rows), outside, weights, draw)

    # -- learning -----------------------------------------------------------------------------------

    def _learn_lags(self, join: Join, partials: Partials, weight: float, most: int = LEARNED_AT_ONCE) -> None:
        """How far apart the rows of results are, from some of them."""
        self._know_windows(join)
        assert self.lags is not None
        count = len(partials)
        chosen = np.arange(count)
        if count > most:
            chosen = np.sort(self._random().integers(0, count, most))
        times = np.stack([join.windows[s].ts[partials.rows[s][chosen]] for s in range(len(join.windows))], 1)
        lags = (times - times[:, :1]) / SECOND
        self.lags = self.lags.add(lags, np.full(len(chosen), weight * count / len(chosen)))

    # -- planning -----------------------------------------------------------------------------------

    def _know_windows(self, join: Join) -> None:
        """How long windows are, in seconds. Of those counted in rows: as long as their rows were coming."""
        if self._basic is not None and self.lags is not None:
            return
        spans = [window.covers for window in join.windows]
        basic = self.policy.basic_of(spans)
        sizes = [span / SECOND for span in spans]
        self._basic = BasicWindows(tuple(sizes), tuple(min(basic / SECOND, size) for size in sizes))
        if self.lags is None:
            buckets = max(64, 4 * max(self._basic.counts))
            self.lags = KINDS[_KINDS[self.policy.correlations]].empty(sizes, buckets)

    def _follow_windows(self, join: Join) -> None:
        """Where windows are counted in rows and these have come to cover much more or less time, lags are
        learned anew: they would all fall into a few of the basic windows, or beyond."""
        if self._basic is None or not self._counts_rows:
            return
        for window, size in zip(join.windows, self._basic.sizes, strict=True):
            if window.span is None and not SHRUNK < window.covers / SECOND / size < GROWN:
                self._basic = self.lags = self.harvest = self._curve = None
                return

    def model(self, join: Join) -> HarvestModel:
        """All that was learned."""
        self._know_windows(join)
        assert self._basic is not None and self.lags is not None
        scores = self.lags.scores(self._basic, orders_of(join))
        return self.flows.model(join, self._basic, scores, self._rows(join))

    def _rows(self, join: Join) -> Array:
        """Rows of each window; where old ones were let go, as many as there would be. Those that are left lie
        in its young part; spread over all of it they would make basic windows seem emptier than they are."""
        rows = rows_held(join)
        if self._worth is not None:
            for stream, window in enumerate(join.windows):
                if window.span is not None:
                    rows[stream] = self.flows.rates[stream] * window.span / SECOND
        return rows

    def _stale(self, join: Join, z: float, now: int) -> bool:
        """Whether the harvest is of another throttle fraction or plan, or old. With an interval it is chosen
        once in each, as GrubJoin does."""
        known, interval = self.harvest, self.policy.interval_micros
        if known is None or self._planned is not join.plan:
            return True
        if interval is not None:
            return z != known.throttle or now - self._planned_now >= interval
        return (
            abs(z / known.throttle - 1) > 0.02 or self.flows.quanta - self._planned_at >= QUANTA_BETWEEN_PLANS
        )

    def _plan(self, join: Join, z: float, now: int) -> None:
        """The harvest for this throttle fraction."""
        self._planned, self._planned_at, self._planned_now = join.plan, self.flows.quanta, now
        self.harvest = self.latest = solve(self.model(join), z, self.policy.method, parts=True)
        self._ages = [
            tuple(
                _micros(hop.ages(self.harvest.windows), self.harvest.windows.sizes[hop.stream])
                for hop in direction.hops
            )
            for direction in self.harvest.directions
        ]

    def worth_keeping(self) -> list[int] | None:
        """Per stream the greatest age in microseconds that is still looked at; None if all are.

        Harvests widen and narrow with the throttle from one quantum to the next. So what one leaves out goes
        only bit by bit, half of it in a quarter of a window: the next may look at it again.
        """
        if not self.policy.conserve or self.harvest is None or self.harvest.everything:
            self._worth = None
            return None
        ages = np.array(ages_worth_keeping(self.harvest)) * SECOND
        if self._worth is None:
            self._worth = ages
        self._worth = np.maximum(ages, ages + (self._worth - ages) * self._fade)
        return [round(age) for age in self._worth]

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        return {
            "missed": self.missed.save(),
            "lags": None if self.lags is None else self.lags.to_plain(),
            "basic": None if self._basic is None else [self._basic.sizes, self._basic.lengths],
            "flows": self.flows.save(),
            "worth": None if self._worth is None else self._worth.tolist(),
            "calls": self.calls.save(),
            "found": self._found_before,
        }

    def load(self, saved: dict[str, Any], join: Join) -> None:
        self.calls.load(saved["calls"], join)
        self._found_before = saved["found"]
        self.missed.load(saved["missed"])
        self.lags = None if saved["lags"] is None else Lags.from_plain(saved["lags"])
        if saved["basic"] is not None:
            self._basic = BasicWindows(*(tuple(each) for each in saved["basic"]))
        self.flows.load(saved["flows"])
        self._worth = None if saved["worth"] is None else np.array(saved["worth"])


def _micros(ages: Sequence[tuple[float, float]], size: float) -> Ages:
    """Ages in seconds, (from, to], as the engine takes them: low <= age < high. Where the end of the window
    is looked at, so is whatever is older."""
    return Ages(
        tuple(
            (
                -FOREVER if low == -np.inf else round(low * SECOND) + 1,
                FOREVER if high >= size else round(high * SECOND) + 1,
            )
            for low, high in ages
        )
    )
