"""Watched rows: a few that stay until they expire, whatever the policy thinks of them.

When the policy would evict a watched row it becomes a *ghost*: from then on its results are ones that would
have been lost. A ghost stands for `weight` rows, the inverse of the chance it had to be watched. A result
none of whose rows the policy has given up is always found; one with ghosts is found just if each row that
was given up is watched. So the number of true results is estimated without bias by

    results without a ghost  +  sum over results with ghosts of the product of their ghosts' weights

and its variance (Horvitz-Thompson, of rows drawn independently) by  sum over ghosts of (1 - 1/w) y^2,  with y
the part of the sum that the ghost takes part in. Two results that share two ghosts count twice in that, so it
errs to the safe side. The interval follows from means and variances by the number of ghosts: `Account`.

The number of ghosts is held near what the policy's `monitor` allows, and that of watched rows below twice as
many: when there are more, each stays watched with chance 4/5 and counts 5/4 as much; when there are fewer,
more of the new rows are watched. Watched rows that the policy keeps take nobody's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels import haunting
from windrow.kernels.selecting import marked
from windrow.shed.recall import HANDFUL, UNKNOWN, Account, Haunted
from windrow.shed.view import Found, View

Array = np.ndarray
WATCH = "watch"
"""The note: 0, or a watched row's slot plus one."""
STAYS = 0.8
"""The chance of each to stay watched when there are too many."""
FEW = 0.7
"""Below this part of what is allowed more rows are watched."""
FOR_A_GHOST = 2.0
"""Rows that may be watched for each ghost that is allowed."""


@dataclass(frozen=True)
class Watched:
    """The watched rows of a view."""

    rows: Array
    slots: Array
    ghost: Array
    """Mask over them: here only because they are watched."""
    leaving: Array
    """Rows that were ghosts and are no longer watched, and so must go."""


class Monitor:
    def __init__(self, streams: int = 2) -> None:
        self._depths = streams - 1
        """A result has at most so many ghosts: its newest row is none."""
        self.chance = 1.0
        """That a new row is watched."""
        self.watching = False
        """Nothing needs watching until the limit is first reached: until then nothing is lost."""
        self.results = Account(depths=self._depths)
        self.worth: Account | None = None
        """Where results are not all worth the same: the sum of their worth."""
        self._weight = np.ones(0)
        self._ghost = np.zeros(0, bool)
        self._free = np.empty(0, np.int64)
        self._came = 0
        """Rows since the number of watched ones was last seen to."""
        self._met = np.zeros(0)
        """By slot: results of the row in quanta after its own, which can be lost."""
        self._clumps = np.zeros(2)
        """Their sum over all rows ever watched, and the sum of their squares."""
        self._drawn = 0
        """Rows ever watched, without those that were thinned out: what all of it rests on."""

    # -- what it tells ------------------------------------------------------------------------------

    def recall(self, worth: bool = False) -> tuple[float, float, float]:
        """Estimate, low and high, of the results or of their worth."""
        if self.blind:
            return float("nan"), 0.0, 1.0
        account = self.worth if worth and self.worth else self.results
        return account.recall(self._stands_for, self.clump)

    @property
    def unit(self) -> float:
        """The most results that may hang on one ghost, for whoever adds up the sums of several joins."""
        return UNKNOWN if self.blind else max(self.results.sizes(self._stands_for, self.clump))

    @property
    def blind(self) -> bool:
        """Whether rows went and too few were watched to tell what went with them."""
        return self.watching and self._drawn < HANDFUL

    @property
    def clump(self) -> float:
        """Results that hang on one row together, from the point of view of a result."""
        met, squares = self._clumps
        return max(1.0, squares / met) if met else 1.0

    @property
    def _stands_for(self) -> float:
        """Rows, a ghost; a new one, or one such as there have been lately."""
        if not self.watching:
            return 1.0
        weights = self._weight[self._ghost]
        return max(1 / self.chance, float((weights**2).sum() / max(weights.sum(), 1.0)))

    @property
    def count(self) -> int:
        """Rows watched at present."""
        return len(self._weight) - len(self._free)

    # -- the data flow ------------------------------------------------------------------------------

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        if self.watching:
            self._came += len(view) - view.fresh
            fresh = view.notes[WATCH][view.fresh :]
            self._watch(fresh, drawn(len(fresh), self.chance, rng))

    def found(self, found: Found, worth: Array | None = None) -> None:
        """Counts results; `worth` is what each is worth, where that is not the same for all."""
        ghosts = self._haunting(found)
        if worth is not None:
            self.worth = self.worth or Account(len(self._weight), self._depths)
        if not ghosts.where:
            self.results.add(len(found), len(found))
            if self.worth is not None and worth is not None:
                self.worth.add(float(worth.sum()), len(found))
            return
        self.results.haunted(np.ones(len(found)), ghosts, self._weight)
        if self.worth is not None and worth is not None:
            self.worth.haunted(worth, ghosts, self._weight)

    def _haunting(self, found: Found) -> Haunted:
        weights, depth = np.ones(len(found)), np.zeros(len(found), np.int64)
        where = []
        for view, rows in zip(found.views, found.rows, strict=True) if self.watching else ():
            watch = (view.notes[WATCH], rows, view.fresh, self._ghost, self._weight)
            which, slots = haunting.haunted(*watch, weights, depth, self._met, self._clumps)
            if len(which):
                where.append((which, slots))
        return Haunted(weights, depth, where)

    def stands_for(self, rows: Sequence[tuple[Array, Array]]) -> Array:
        """How many results each of some results stands for: by stream, the column of notes and its rows."""
        found = np.ones(len(rows[0][1]))
        for column, at in rows:
            slots = column[at].astype(np.int64) - 1
            haunted = np.flatnonzero(slots >= 0)
            haunted = haunted[self._ghost[slots[haunted]]]
            found[haunted] *= self._weight[slots[haunted]]
        return found

    def begin(self, views: Sequence[View], cap: float, rng: np.random.Generator) -> None:
        """The limit is reached for the first time: any row may be the one to watch."""
        rows = sum(map(len, views))
        self.watching, self.chance = True, max(min(1.0, STAYS * cap / max(rows, 1)), 1e-9)
        for view in views:
            self._watch(view.notes[WATCH], drawn(len(view), self.chance, rng))

    def adjust(self, views: Sequence[View], cap: float, rng: np.random.Generator) -> list[Watched]:
        """Holds the number of ghosts near `cap`; returns the watched rows of each view."""
        found = [self._watched(view) for view in views]
        # Slots of rows that have expired are free again.
        held = np.zeros(len(self._weight), bool)
        for watched in found:
            held[watched.slots] = True
        self._free = np.flatnonzero(~held)
        while (taken := _taken(found)) > max(cap, 1):
            self.chance = max(self.chance * STAYS, 1e-12)
            found = [self._thinned(view, watched, rng) for view, watched in zip(views, found, strict=True)]
        if taken < FEW * cap:
            # New rows take their time to become ghosts: twice as many within a window are enough.
            live = max(sum(map(len, views)), float(self._weight[held].sum()), 1.0)
            self.chance = min(1.0, self.chance * 2.0 ** min(1.0, self._came / live))
        self._came = 0
        return found

    def haunt(self, slots: Array) -> None:
        """The policy gives up the watched rows of these slots."""
        self._ghost[slots] = True

    def ghosts(self, column: Array) -> int:
        """How many rows are here only because they are watched; `column` is the rows' note."""
        return int(self._ghost[column[marked(column)].astype(np.int64) - 1].sum())

    # -- inside -------------------------------------------------------------------------------------

    @property
    def _accounts(self) -> list[Account]:
        return [self.results] if self.worth is None else [self.results, self.worth]

    def _watch(self, column: Array, rows: Array) -> None:
        if len(rows) > len(self._free):
            size, more = len(self._weight), max(64, len(self._weight), len(rows))
            self._weight = np.concatenate([self._weight, np.ones(more)])
            self._ghost = np.concatenate([self._ghost, np.zeros(more, bool)])
            self._met = np.concatenate([self._met, np.zeros(more)])
            for account in self._accounts:
                account.seen = np.pad(account.seen, ((0, 0), (0, more)))
            self._free = np.concatenate([self._free, np.arange(size, size + more)])
        slots, self._free = self._free[: len(rows)], self._free[len(rows) :]
        self._drawn += len(rows)
        self._weight[slots] = 1 / self.chance
        self._ghost[slots] = False
        self._met[slots] = 0.0
        for account in self._accounts:
            account.seen[:, slots] = 0.0
        column[rows] = slots + 1

    def _watched(self, view: View) -> Watched:
        column = view.notes[WATCH]
        rows = marked(column)
        slots = column[rows].astype(np.int64) - 1
        return Watched(rows, slots, self._ghost[slots], np.empty(0, np.int64))

    def _thinned(self, view: View, watched: Watched, rng: np.random.Generator) -> Watched:
        """Some stay watched, and count for the others, too."""
        stays = rng.random(len(watched.rows)) < STAYS
        rows, slots, ghost = watched.rows[stays], watched.slots[stays], watched.ghost[stays]
        self._weight[slots] /= STAYS
        self._drawn -= len(watched.rows) - len(rows)
        self._free = np.concatenate([self._free, watched.slots[~stays]])
        view.notes[WATCH][watched.rows[~stays]] = 0
        leaving = watched.rows[~stays & watched.ghost]
        return Watched(rows, slots, ghost, np.concatenate([watched.leaving, leaving]))

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], pa.RecordBatch]:
        plain = {
            "chance": self.chance,
            "watching": self.watching,
            "accounts": [account.sums() for account in self._accounts],
            "came": self._came,
            "clumps": self._clumps.tolist(),
            "drawn": self._drawn,
        }
        seen = {
            f"seen {k} {depth}": part
            for k, account in enumerate(self._accounts)
            for depth, part in enumerate(account.seen)
        }
        free = np.zeros(len(self._weight), bool)
        free[self._free] = True
        slots = {"weight": self._weight, "ghost": self._ghost, "free": free, "met": self._met}
        return plain, pa.record_batch({**slots, **seen})

    def load(self, plain: dict[str, Any], slots: pa.RecordBatch) -> None:
        self.chance, self.watching = plain["chance"], plain["watching"]
        self._weight = slots.column("weight").to_numpy().copy()
        self._ghost = slots.column("ghost").to_numpy(zero_copy_only=False).copy()
        self._met, self._clumps = slots.column("met").to_numpy().copy(), np.array(plain["clumps"])
        self._came, self._drawn = plain["came"], plain["drawn"]
        self.worth = Account(depths=self._depths) if len(plain["accounts"]) > 1 else None
        for k, (account, sums) in enumerate(zip(self._accounts, plain["accounts"], strict=True)):
            seen = [slots.column(f"seen {k} {depth}").to_numpy() for depth in range(self._depths)]
            account.load(sums, np.stack(seen))
        # Were they taken for used, there would be as many again after each restart.
        self._free = np.flatnonzero(slots.column("free").to_numpy(zero_copy_only=False))


def _taken(watched: Sequence[Watched]) -> float:
    """What part of what is allowed is used, in ghosts."""
    rows, ghosts = sum(len(w.rows) for w in watched), sum(np.count_nonzero(w.ghost) for w in watched)
    return max(float(ghosts), rows / FOR_A_GHOST)


def drawn(rows: int, chance: float, rng: np.random.Generator) -> Array:
    """Which of so many rows are chosen, each with the same chance; by skips where it is small."""
    if chance > 1 / 8:
        return np.flatnonzero(rng.random(rows) < chance)
    parts, at = [], -1
    expected = rows * chance
    while at < rows:
        steps = rng.geometric(chance, int(expected + 4 * expected**0.5) + 4)
        # A step may be as long as an integer can be; beyond the last row all are the same.
        parts.append(at + np.cumsum(np.minimum(steps, rows + 1)))
        at = int(parts[-1][-1])
    places = np.concatenate(parts)
    return places[: np.searchsorted(places, rows)]
