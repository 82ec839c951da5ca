"""EQ-CLUSTER and PPS-CLUSTER: whole rows are sampled, with all their results (Memory, section 4.3).

A row has a number u in (0, 1) for life and a size s: 1, or the results it is expected to bring. It is in the
sample while  u / s < c,  c being the lowest level in force since it came; that has the chance
pi = min(1, c s),  and its weight is 1 / pi. The level for new rows follows from the memory, with a margin,
and goes up and down with the streams. If windows are too large all the same, the rows with the greatest u / s
are evicted, and the least of these is a level for all that stay.

A result of m streams needs m - 1 stored rows, and weighs the product of their weights. That is unbiased for
any m. For let the u of those rows be 0: they stay, and memory and levels take some course. With their own u
the course is the same as long as they all stay, which is as long as each one's u / s is below the levels of
that course; so, all else given, the chance that they are in the sample is the product of their pi. Levels may
therefore follow what is held, and sizes may be wrong: neither biases a sum, both decide how much it varies.

Rows outside the sample go at the end of their quantum, and are not used inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels.chance import spread, uniforms, weigh
from windrow.model.measurements import Quality
from windrow.model.samples import Cluster, PpsCluster, Sampled
from windrow.planning.sampling import mean_within, pps_constant
from windrow.shed.context import Context
from windrow.shed.drawing import (
    ORDINARY,
    ROW,
    SAMPLED,
    TOTAL,
    Identities,
    Pace,
    Recent,
    Tally,
    last_to_arrive,
    limits,
    usable,
)
from windrow.shed.need import Need
from windrow.shed.ranking import Ranking, Room, Selection
from windrow.shed.sizes import Sizes
from windrow.shed.view import Found, View

Array = np.ndarray
WEIGHT, SEEN, SIZE = "weight", "seen", "size"
"""Notes: the inverse of the row's chance, 0 if it is not sampled; the weights of its results so far, and
what it is expected to bring."""


class ClusterRanking(Ranking):
    """
    Parameters
    ----------
    sizes
        What rows are expected to bring; None: the same for all.
    """

    samples = True

    def __init__(self, policy: Sampled, context: Context, sizes: Sizes | None = None) -> None:
        self._policy = policy
        self._aliases = context.query.aliases
        self._sizes = sizes
        streams = len(self._aliases)
        self.notes = ((ROW, np.float64), (WEIGHT, np.float64), (SEEN, np.float32))
        if sizes is not None:
            self.notes += ((SIZE, np.float32),)
        self._identities = Identities(streams)
        self._need = Need(context)
        self._recent = Recent(streams)
        self._tally = Tally()
        self._level = [np.inf if policy.p is None or sizes else policy.p] * streams
        self._pace = Pace()

    # -- the data flow ------------------------------------------------------------------------------

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        fresh = slice(view.fresh, len(view))
        self._identities.number(view, rng)
        self._need.arrive(view)
        self._pace.arrive(len(view) - view.fresh)
        chance = self._chances(self._measured(view, fresh), view.stream)
        drawn = uniforms(self._identities.of(view, fresh), 0)
        weight = np.divide(1.0, chance, out=np.zeros(len(chance)), where=drawn < chance)
        view.notes[WEIGHT][fresh] = weight

    def select(self, views: Sequence[View], found: Found, rng: np.random.Generator) -> Selection:
        last = last_to_arrive(views, found)
        weight = np.ones(len(found))
        heaviest = np.ones(len(found))
        cluster = np.full(len(found), -1, np.int64)
        for s, (view, rows) in enumerate(zip(views, found.rows, strict=True)):
            who = self._identities.parts(view)
            weigh(last, s, rows, view.notes[WEIGHT], *who, weight, heaviest, cluster)
        chosen, sums = weight > 0, self._tally.sums[ORDINARY]
        # A row adds (1 - pi) y^2 in all, y being the weights of its results; of several rows of a result
        # first-order terms only are counted.
        for s, (view, rows) in enumerate(zip(views, found.rows, strict=True)):
            spread(last, s, rows, weight, view.notes[WEIGHT], view.notes[SEEN], sums)
        sums[TOTAL] += weight.sum()
        sums[SAMPLED] += np.count_nonzero(chosen)
        return Selection(chosen, weight[chosen], cluster[chosen])

    def settle(self, views: Sequence[View], room: Room) -> None:
        self._need.settle(views[0].now)
        if not self._need.known:
            return
        if self._sizes:
            self._sizes.settle(views[0].now, max(map(self._need.span, range(len(views)))))
        fixed = self._policy.p is not None and self._sizes is None
        if not fixed and self._pace.due(views, room):
            self._revise(views, room)

    def spent(self, view: View) -> Array:
        return view.notes[WEIGHT] == 0

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        return -self._drawn(view)

    def thinned(self, views: Sequence[View], gone: Sequence[Array]) -> None:
        for streams, _ in limits(self._policy.split, 1.0, self._aliases):
            drawn = {s: self._drawn(views[s]) for s in streams}
            level = min((drawn[s][gone[s]].min() for s in streams if gone[s].any()), default=np.inf)
            for s in streams if level < np.inf else []:
                weight = views[s].notes[WEIGHT]
                # Rows outside the sample may have size 0.
                kept = weight > 0
                stands = np.divide(1 / level, self._size(views[s]), out=np.zeros(len(weight)), where=kept)
                np.maximum(weight, stands, out=weight)
        self._identities.forget()

    def judge(self, known: Quality) -> Quality:
        return self._tally.judge(known, self._fraction() ** (len(self._aliases) - 1))

    # -- inside -------------------------------------------------------------------------------------

    def _measured(self, view: View, fresh: slice) -> Array:
        """Sizes of the new rows, which are noted."""
        if self._sizes is None:
            return np.ones(len(view) - view.fresh)
        self._sizes.arrive(view)
        sizes = self._sizes.relative(self._sizes.of(view, fresh, self._need.span(view.stream)))
        self._recent.add(view.stream, sizes)
        view.notes[SIZE][fresh] = sizes
        return sizes

    def _size(self, view: View) -> Array:
        return np.ones(len(view)) if self._sizes is None else view.notes[SIZE]

    def _lately(self, stream: int) -> Array:
        """Sizes of rows that came lately."""
        return np.ones(1) if self._sizes is None else self._recent.of(stream)

    def _revise(self, views: Sequence[View], room: Room) -> None:
        """The level that fills the memory in the long run."""
        costs = usable(room.costs)
        for streams, memory in limits(self._policy.split, room.size, self._aliases):
            sizes, counts = [], []
            for s in streams:
                lately = self._lately(s)
                rows = self._need.rows(views[s], lambda view: view.notes[WEIGHT])
                sizes.append(lately)
                counts.append(np.full(len(lately), rows * costs[s] / max(1, len(lately))))
            level = self._solved(np.concatenate(sizes), np.concatenate(counts), memory, fmean(costs))
            for s in streams:
                self._level[s] = level

    def _solved(self, sizes: Array, counts: Array, memory: float, row: float) -> float:
        """The level at which rows of these sizes, taking so much memory in all, are expected to fit."""
        mean = mean_within(memory, self._policy.margin, row)
        if self._policy.p is not None:
            mean = self._policy.p * counts.sum()
        return pps_constant(sizes, counts, mean) if mean < counts.sum() else np.inf

    def _fraction(self) -> float:
        """The part of the results of two streams that is sampled at present."""
        part = whole = 0.0
        for s in range(len(self._aliases)):
            sizes = self._lately(s)
            if len(sizes):
                whole += self._need.rate(s) * float(sizes.mean())
                part += self._need.rate(s) * float((sizes * self._chances(sizes, s)).mean())
        return part / whole if whole > 0 else 1.0

    def _chances(self, sizes: Array, stream: int) -> Array:
        level = self._level[stream]
        return (sizes > 0) * 1.0 if level == np.inf else np.minimum(1.0, level * sizes)

    def _drawn(self, view: View) -> Array:
        """u / s of each row; those that are not in the sample come last."""
        drawn = self._identities.draw(view, 0)
        kept = view.notes[WEIGHT] > 0
        return np.divide(drawn, self._size(view), out=np.full(len(view), np.inf), where=kept)

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        plain = {
            "identities": self._identities.save(),
            "need": self._need.save(),
            "tally": self._tally.save(),
            "level": [None if level == np.inf else level for level in self._level],
            "pace": self._pace.save(),
        }
        if self._sizes is None:
            return plain, []
        plain["sizes"], parts = self._sizes.save()
        return plain, [*self._recent.save(), *parts]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        self._identities.load(plain["identities"])
        self._need.load(plain["need"])
        self._tally.load(plain["tally"])
        self._level = [np.inf if level is None else level for level in plain["level"]]
        self._pace.load(plain["pace"])
        if self._sizes:
            streams = len(self._aliases)
            self._recent.load(parts[:streams])
            self._sizes.load(plain["sizes"], parts[streams:])


def cluster(policy: Cluster, context: Context) -> Ranking:
    return ClusterRanking(policy, context)


def pps_cluster(policy: PpsCluster, context: Context) -> Ranking:
    return ClusterRanking(policy, context, Sizes(context, policy.expected, policy.width, policy.half_life))
