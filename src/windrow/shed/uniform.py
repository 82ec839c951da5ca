"""UNIFORM: every result of two streams is chosen with the same chance p, independently (Memory, section 4.2).

A stored row counts its results, `num`, and knows the number of the next chosen one, `next`, by geometric
skips; once that is beyond the results it is expected to bring, the row is of no more use and goes. The chance
may change with the streams: a result weighs 1 / p with the p its skip was drawn with.

The paper discards by the expected number itself, and what rows bring beyond it is lost. Here a row is
followed `reach` standard deviations further, and some rows are monitored: drawn with chance rho when they
come, they are followed until they expire, and what they bring beyond their bound weighs 1 / (p rho). So a sum
is unbiased whatever the model; a bad model makes it vary more. Age curves are learned from the same rows.

If windows are too large all the same, the rows with the greatest numbers v in (0, 1), one per row for life,
are evicted. The least of these becomes the chance of those that stay, and divides into their weights; that is
exact for the reason given in cluster.py, since v has no part in anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels.chance import enlist, follow, in_turn
from windrow.model.measurements import Quality
from windrow.model.samples import Uniform
from windrow.planning.age import AgeCurve
from windrow.planning.sampling import mean_within, uniform_fraction
from windrow.shed.context import Context
from windrow.shed.drawing import (
    ROW,
    Identities,
    Pace,
    Tally,
    last_to_arrive,
    limits,
    usable,
)
from windrow.shed.expectation import Expectation, expectation
from windrow.shed.need import Need
from windrow.shed.ranking import Ranking, Room, Selection
from windrow.shed.view import Found, Notes, View

Array = np.ndarray
NUM, NEXT, BOUND, CHANCE, EXTRA, THIN, SEEN = "num", "next", "bound", "chance", "extra", "thin", "seen"
"""Notes: results so far; number of the next chosen one, 0 for none; how many are followed; the chance the
next one is chosen with; 1 / rho for monitored rows, else 0; the chance to have stayed; the weights of its
chosen results, summed."""
MONITORED, STAYING, ROUNDED = -1, -2, -3
"""Numbers of draws."""
LEAST = 1e-9


@dataclass(frozen=True)
class Followed:
    """Memory of a stream whose rows stay as a model says, but for monitored ones."""

    rows: float
    """Of a whole window."""
    model: Expectation
    stream: int
    monitored: float

    def memory(self, fraction: float) -> float:
        stay = self.model.stay(self.stream, fraction) if fraction > 0 else 0.0
        return self.rows * ((1 - self.monitored) * stay + self.monitored)

    def variance(self, fraction: float, dispersion: float = 1.0) -> float:
        return dispersion * self.memory(fraction)


class UniformRanking(Ranking):
    samples = True
    notes: Notes = (
        *((name, np.float64) for name in (ROW, NUM, NEXT, CHANCE)),
        *((name, np.float32) for name in (BOUND, EXTRA, THIN, SEEN)),
    )

    def __init__(self, policy: Uniform, context: Context) -> None:
        self._policy = policy
        self._aliases = context.query.aliases
        self._model = expectation(policy, context)
        self._identities = Identities(2)
        self._need = Need(context)
        self._tally = Tally()
        self._p = 1.0 if policy.p is None else policy.p
        self._monitored = 1.0 if policy.monitor > 0 else 0.0
        self._pace = Pace()

    # -- the data flow ------------------------------------------------------------------------------

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        fresh = slice(view.fresh, len(view))
        self._identities.number(view, rng)
        self._need.arrive(view)
        self._pace.arrive(len(view) - view.fresh)
        results = self._model.arrive(view, self._need)
        who = self._identities.of(view, fresh)
        notes = (view.notes[name][fresh] for name in (NEXT, BOUND, CHANCE, EXTRA, THIN))
        monitored = max(self._monitored, LEAST) if self._monitored else 0.0
        enlist(who, results, self._policy.reach, self._p, monitored, (ROUNDED, MONITORED), *notes)

    def select(self, views: Sequence[View], found: Found, rng: np.random.Generator) -> Selection:
        last = last_to_arrive(views, found)
        weight = np.zeros(len(found))
        cluster = np.full(len(found), -1, np.int64)
        for s, view in enumerate(views):
            other = views[1 - s]
            which = in_turn(last, s, found.rows[1 - s], other.fresh, len(other))
            if not len(which):
                continue
            if self._model.learns:
                stored = found.rows[s][which]
                self._learn(view, stored, other.ts[found.rows[1 - s][which]])
            notes = (view.notes[name] for name in (NUM, NEXT, BOUND, CHANCE, EXTRA, THIN, SEEN))
            who = self._identities.parts(view)
            sums = (self._tally.sums, self._tally.met)
            follow(which, found.rows[s], *who, self._p, *notes, weight, cluster, *sums)
        chosen = weight > 0
        weight, cluster = weight[chosen], cluster[chosen]
        return Selection(chosen, weight, cluster)

    def settle(self, views: Sequence[View], room: Room) -> None:
        self._need.settle(views[0].now)
        if not self._need.known:
            return
        self._model.settle(views, self._standing, self._need)
        if self._pace.due(views, room):
            self._revise(views, room)

    def spent(self, view: View) -> Array:
        return view.notes[NEXT] == 0

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        return -self._drawn(view)

    def thinned(self, views: Sequence[View], gone: Sequence[Array]) -> None:
        for streams, _ in limits(self._policy.split, 1.0, self._aliases):
            drawn = [self._drawn(views[s])[gone[s]] for s in streams]
            level = min((float(each.min()) for each in drawn if len(each)), default=1.0)
            for s in streams:
                np.minimum(views[s].notes[THIN], level, out=views[s].notes[THIN])
        self._identities.forget()

    def judge(self, known: Quality) -> Quality:
        # Without monitored rows nobody sees what lies beyond the bounds, and it is lost.
        beyond = 1 / self._monitored if self._monitored else np.inf
        return self._tally.judge(known, self._p, beyond)

    # -- inside -------------------------------------------------------------------------------------

    def _learn(self, view: View, stored: Array, times: Array) -> None:
        weights = self._standing(view, stored)
        mine = weights > 0
        if mine.any():
            ages = np.maximum(times[mine] - view.ts[stored[mine]], 0) / 1e6
            self._model.found(view, ages, weights[mine])

    @staticmethod
    def _standing(view: View, rows: Array | slice = slice(None)) -> Array:
        """How many rows each monitored row stands for; 0 for others."""
        return view.notes[EXTRA][rows] / np.maximum(view.notes[THIN][rows], LEAST)

    def _revise(self, views: Sequence[View], room: Room) -> None:
        """The chance, and the monitored part, that fill the memory in the long run."""
        costs = usable(room.costs)
        rows = [self._need.rows(v, self._standing) for v in views]
        groups = limits(self._policy.split, room.size, self._aliases)
        margin, monitor = self._policy.margin, self._policy.monitor
        fractions, parts = [], []
        for streams, memory in groups:
            whole = sum(rows[s] * costs[s] for s in streams)
            mean = mean_within(memory, margin, fmean(costs))
            fits = mean >= whole
            part = 1.0 if fits and monitor > 0 else min(1.0, monitor * mean / max(whole, LEAST))
            held = [Followed(rows[s], self._model, s, part) for s in streams]
            sizes = [costs[s] for s in streams]
            fractions.append(1.0 if fits else uniform_fraction(held, memory, margin, 1.0, sizes))
            parts.append(part)
        self._monitored = min(parts)
        if self._policy.p is None:
            self._p = max(LEAST, min(fractions))

    def _drawn(self, view: View) -> Array:
        return self._identities.draw(view, STAYING)

    # -- over a restart -----------------------------------------------------------------------------

    def curves(self) -> Sequence[AgeCurve]:
        return self._model.curves()

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        model, parts = self._model.save()
        plain = {
            "identities": self._identities.save(),
            "need": self._need.save(),
            "tally": self._tally.save(),
            "model": model,
            "p": self._p,
            "monitored": self._monitored,
            "pace": self._pace.save(),
        }
        return plain, parts

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        self._identities.load(plain["identities"])
        self._need.load(plain["need"])
        self._tally.load(plain["tally"])
        self._model.load(plain["model"], parts)
        self._p, self._monitored = plain["p"], plain["monitored"]
        self._pace.load(plain["pace"])
