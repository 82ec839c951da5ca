"""Ghosts: rows that the policy has given up, and that stay until they expire to tell what is lost.

When the policy gives rows up, a few of them are chosen to stay. Their results are ones that would have been
lost. A result none of whose rows was given up is always found; one with rows given up is found just if they
are all ghosts, and then stands for w results, the inverse of the chance of that. So the number of true
results is estimated without bias by

    results without a ghost  +  sum over results with ghosts of w

(Horvitz-Thompson), and its variance by  sum over units of (1 - chance) y^2,  with y the part of the sum that
hangs on the choice of the unit: of a ghost, or of a key. Its interval is that of a sum of few and unequal
parts (missed.py), with one part more than was seen; how large that may be: `unit`.

*Sizes.* Results come in clumps: of most rows nothing is lost, of a few much. So the chance of a row is half
the same for all, and half goes with the results it may be expected to bring yet, by how often its key comes
on the other streams. The first half bounds what a row can stand for, whatever the estimate misses.

*Together.* With three streams or more a result may have lost several rows. Were ghosts chosen each by itself,
it would be seen with the product of their chances: almost never. So keys are chosen, and ghosts with them.
Keys have places on a circle. A span of it begins at the turn that the circle has made so far, and is as long
as the chance; keys in it are chosen. The circle turns slowly (by one span in `VISIT` windows), so in the
course of time all keys have their visit, and rows less than a window apart are chosen together unless the
end of a visit comes between them: where spans overlap. So that a busy key does not take all the room, of its
rows only some are chosen, about `GROUP` at a time, and its span is the longer for it.

The number of ghosts is held between a quarter and the whole of what the policy's `monitor` allows: when there
are more, chances are halved, and those of the ghosts with them; when there are few, they are doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels import haunting
from windrow.kernels.selecting import marked
from windrow.shed.choices import NONE, Choices
from windrow.shed.context import Context
from windrow.shed.frequency import KeyRates
from windrow.shed.recall import Account, recall_interval
from windrow.shed.view import Found, View

Array = np.ndarray
GHOST = "ghost"
"""The note: 0, or a ghost's slot plus one."""
VISIT = 8.0
"""Windows that a key stays chosen, if it is not a busy one."""
GROUP = 4.0
"""Rows of a key, over all streams, that are worth choosing at a time."""
WIDTH, HALF_LIFE = 2048, 1.0
"""Of the counts of keys: cells, and windows."""


@dataclass(frozen=True)
class Ghosts:
    """The ghosts of a view."""

    rows: Array
    slots: Array
    leaving: Array
    """Rows that were ghosts, and must go."""


class Monitor:
    """
    Parameters
    ----------
    even
        Rows of all keys are chosen with the same chance.
    """

    def __init__(self, context: Context, even: bool = False) -> None:
        streams = len(context.words)
        self.chance = 1.0
        """That a row of mean size becomes a ghost when it is given up."""
        self.watching = False
        """Whether the limit was ever reached: until then nothing is lost."""
        self.results = Account(depths=streams - 1)
        """A result has at most so many ghosts: its newest row is none."""
        self.worth: Account | None = None
        """Where results are not all worth the same: the sum of their worth."""
        self._depths = streams - 1
        self._seed = context.query.seed
        self._keys = KeyRates(context, WIDTH, HALF_LIFE)
        self._even = even
        self._words = self._keys.widest() if streams > 2 else {}
        """Where ghosts are chosen with their keys: of each stream the class of the key, and its word."""
        self.rows = 0
        """That came so far."""
        self._expected = 0.0
        """Results that the rows given up could be expected to bring yet, summed."""
        self._choices = Choices()
        self._until = 0
        self._changed = 0
        """Event times: of the last quantum, and of the last change of the chance."""

    # -- what it tells ------------------------------------------------------------------------------

    def recall(self, worth: bool = False) -> tuple[float, float, float]:
        """Estimate, low and high, of the results or of their worth."""
        account = self.worth if worth and self.worth else self.results
        if not self.watching:
            return 1.0, 1.0, 1.0
        unit = self.unit(account)
        return recall_interval(account.found, account.true, float(account.variance[0]), unit=unit)

    def unit(self, account: Account) -> float:
        """What one choice more could have told: the most that was seen to hang on one, and as far as all that
        was seen does, a third of what the rows given up could be expected to bring, or what a ghost stands
        for that is like any row."""
        if not self.watching:
            return 0.0
        together = len(self._words) > self._depths
        largest = account.unit(1 / self.least, together)
        missed = float(account.missed[0])
        # The more of what was seen hangs on one choice, the less it tells of what was not seen.
        share = min(1.0, largest / missed) ** 0.5 if missed > 0 else 1.0
        each = account.found / account.count if account.count else 1.0
        usual = account.found / max(self.rows, 1) / self.least
        return largest + share * max(usual, self._expected * each / 3)

    @property
    def least(self) -> float:
        """The least chance of a row to become a ghost."""
        return self.chance if self._uniform else self.chance / 2

    @property
    def count(self) -> int:
        """Ghosts at present."""
        return self._choices.count

    @property
    def _uniform(self) -> bool:
        return self._even or not self._keys.known

    # -- the data flow ------------------------------------------------------------------------------

    def arrive(self, view: View) -> None:
        """Rows from `view.fresh` on are new."""
        if self.watching and self._keys.known:
            self._keys.arrive(view)

    def found(self, found: Found, worth: Array | None = None) -> None:
        """Counts results; `worth` is what each is worth, where that is not the same for all."""
        if worth is not None:
            self.worth = self.worth or Account(self._choices.units, self._depths)
        noted = [(view.notes[GHOST], rows) for view, rows in zip(found.views, found.rows, strict=True)]
        which, slots = self._haunting(noted)
        if not len(which):
            self.results.add(len(found), len(found))
            if self.worth is not None and worth is not None:
                self.worth.add(float(worth.sum()), len(found))
            return
        weights, depth, counts = self._choices.weigh(which, slots, len(found))
        which, slots = which[counts], slots[counts]
        hangs = (depth, which, self._choices.units_of(slots), 1 - self._choices.chances(slots))
        self.results.haunted(np.ones(len(found)), weights, *hangs)
        if self.worth is not None and worth is not None:
            self.worth.haunted(worth, worth * weights, *hangs)

    def stands_for(self, rows: Sequence[tuple[Array, Array]]) -> Array:
        """How many results each of some results stands for: by stream, the column of notes and its rows."""
        return self._choices.weigh(*self._haunting(rows), len(rows[0][1]))[0]

    def begin(self, views: Sequence[View], cap: float) -> None:
        """The limit is reached for the first time."""
        self.watching, self.chance = True, 1.0
        now = views[0].now
        first = min((int(view.ts.min()) for view in views if len(view)), default=now)
        longest = max(view.span for view in views)
        rows = sum(map(len, views)) * max(1.0, longest / max(now - first, 1))
        while self.chance * rows > cap and self.chance > 1e-9:
            self.chance /= 2
        self._until = self._changed = now
        self._keys.begin(views, (now - first) / 1e6)

    def adjust(self, views: Sequence[View], cap: float, rng: np.random.Generator) -> list[Ghosts]:
        """Holds the number of ghosts near `cap`; returns those of each view."""
        if not self.watching:
            self.begin(views, cap)
        self._go_on(views)
        found = [self._ghosts(view) for view in views]
        self._choices.tidy(np.concatenate([ghosts.slots for ghosts in found]))
        while (count := sum(len(ghosts.rows) for ghosts in found)) > max(cap, 1):
            self._change(0.5)
            found = [self._halved(view, ghosts, rng) for view, ghosts in zip(views, found, strict=True)]
        # It takes time until there are as many ghosts as the chance is good for.
        if count < cap / 4 and self._until - self._changed > max(view.span for view in views) / 4:
            self._change(2.0)
        return found

    def choose(self, view: View, rows: Array, cap: float, rng: np.random.Generator) -> Array:
        """The policy gives up these rows of a view; returns those of them that stay, as ghosts."""
        if not len(rows):
            return rows
        alone, span, place = self._draw(view, rows)
        chosen = np.flatnonzero(self._choices.inside(place, span) & (rng.random(len(rows)) < alone))
        # What is too much is seen to by `adjust`, for all ghosts alike; here only that it does not get far.
        while len(chosen) > max(1.0, 2 * cap - self.count):
            self._change(0.5)
            alone = alone / 2
            chosen = chosen[rng.random(len(chosen)) < 0.5]
        slots, fresh = self._choices.enter(alone[chosen], span[chosen], place[chosen])
        view.notes[GHOST][rows[chosen]] = slots + 1
        for account in self._accounts:
            account.begin(fresh, self._choices.units)
        return rows[chosen]

    # -- inside -------------------------------------------------------------------------------------

    def _draw(self, view: View, rows: Array) -> tuple[Array, Array, Array]:
        """Of each row the chance by itself, the span of its key (1: it is chosen by itself) and its place."""
        chance = np.full(len(rows), self.chance)
        if self._keys.known:
            left = np.maximum(view.span / 1e6 - view.ages(rows), 0.0)
            size = self._keys.rates(view, rows) * left * self._keys.sure(view.span / 1e6)
            if not self._even:
                chance = np.minimum(1.0, self.least * (1 + size / max(float(size.mean()), 1e-300)))
            self._expected += float(size.sum())
        span, place = np.ones(len(rows)), np.zeros(len(rows))
        if view.stream not in self._words:
            return chance, span, place
        c, word = self._words[view.stream]
        words = view.words[word][rows]
        alone = np.minimum(1.0, GROUP / np.maximum(self._keys.held(c, words), 1e-9))
        with_key = 2 * chance < alone
        span[with_key] = (chance / alone)[with_key]
        place[with_key] = haunting.places(words[with_key].view(np.int64), self._seed)
        return np.where(with_key, alone, chance), span, place

    def _haunting(self, rows: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Which results have ghosts, and their slots; by stream the column of notes and its rows."""
        if not self.watching:
            return NONE, NONE
        parts = [haunting.haunted(column, at) for column, at in rows]
        return np.concatenate([which for which, _ in parts]), np.concatenate([slots for _, slots in parts])

    @property
    def _accounts(self) -> list[Account]:
        return [self.results] if self.worth is None else [self.results, self.worth]

    def _go_on(self, views: Sequence[View]) -> None:
        """Time passes: the circle turns."""
        passed = max(0, views[0].now - self._until)
        self._until += passed
        longest = max(view.span for view in views)
        self._choices.turn += self.least * min(1.0, passed / longest) / VISIT
        self._keys.settle(self._until)

    def _change(self, by: float) -> None:
        self.chance = min(1.0, max(self.chance * by, 1e-12))
        self._changed = self._until

    def _ghosts(self, view: View) -> Ghosts:
        column = view.notes[GHOST]
        rows = marked(column)
        return Ghosts(rows, column[rows].astype(np.int64) - 1, NONE)

    def _halved(self, view: View, ghosts: Ghosts, rng: np.random.Generator) -> Ghosts:
        """Each stays with chance 1/2, with its key or by itself, and counts double."""
        stays = self._choices.halve(ghosts.slots, rng)
        gone = ghosts.rows[~stays]
        view.notes[GHOST][gone] = 0
        return Ghosts(ghosts.rows[stays], ghosts.slots[stays], np.concatenate([ghosts.leaving, gone]))

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        keys, sketches = self._keys.save()
        turn, choices = self._choices.save()
        plain = {
            "chance": self.chance,
            "watching": self.watching,
            "turn": turn,
            "until": self._until,
            "changed": self._changed,
            "rows": self.rows,
            "expected": self._expected,
            "accounts": [account.sums() for account in self._accounts],
            "keys": keys,
        }
        seen = {
            f"{k} {depth}": part
            for k, account in enumerate(self._accounts)
            for depth, part in enumerate(account.seen)
        }
        return plain, [*choices, pa.record_batch(seen), *sketches]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        self.chance, self.watching = plain["chance"], plain["watching"]
        self._until, self._changed = plain["until"], plain["changed"]
        self.rows, self._expected = plain["rows"], plain["expected"]
        slots, units, seen, *sketches = parts
        self._choices.load(plain["turn"], slots, units)
        self.worth = Account(depths=self._depths) if len(plain["accounts"]) > 1 else None
        for k, (account, sums) in enumerate(zip(self._accounts, plain["accounts"], strict=True)):
            columns = [seen.column(f"{k} {depth}").to_numpy() for depth in range(self._depths + 1)]
            account.load(sums, np.stack(columns))
        self._keys.load(plain["keys"], sketches)
