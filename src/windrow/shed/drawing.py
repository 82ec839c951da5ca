"""What rankings that sample have in common: chances by row, recent sizes, and what the sample tells.

Which row of a result was *not* stored: the last to arrive. Of rows that came in one quantum that is the
newest (at equal times the one whose stream takes its turn last), and rows of earlier quanta come before them;
so a result counts its rows the same whatever the quantum. All other rows had to be held for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels.chance import came_last, identify, uniforms
from windrow.model.measurements import Quality
from windrow.shed.missed import missed_interval
from windrow.shed.ranking import Room
from windrow.shed.recall import HANDFUL, UNKNOWN, recall_between
from windrow.shed.view import Found, View

Array = np.ndarray
ROW = "row"
"""Note: the row's number among all rows that came."""
_LONG_AGO = np.iinfo(np.int64).min
RECENT = 1024
"""Rows of a stream whose sizes are remembered."""
FILLING = 1 / 8
"""Until this part of the memory is used for the first time every row is taken: rates are not known yet."""
OUTLINE = 64
"""Sizes that stand for all of them where many steps are needed."""
REVISIONS = 4
"""How often chances are looked at anew while as many rows come as the memory holds."""
LEAST_ROWS = 16
"""That come between two such looks."""


def last_to_arrive(views: Sequence[View], found: Found) -> Array:
    """The stream of the row that each result was found with, and that need not have been stored."""
    last = np.full(len(found), len(views) - 1, np.int64)
    latest = np.full(len(found), _LONG_AGO)
    for view, rows in zip(views, found.rows, strict=True):
        came_last(rows, view.ts, view.fresh, view.stream, latest, last)
    return last


class Identities:
    """Numbers rows as they come; what is drawn for a row depends on the row alone."""

    def __init__(self, streams: int) -> None:
        self._key: int | None = None
        self._count = [0] * streams
        self._drawn: dict[int, tuple[View, int, Array]] = {}

    def forget(self) -> None:
        """The numbers drawn for whole views, which hold on to the rows."""
        self._drawn.clear()

    def number(self, view: View, rng: np.random.Generator) -> None:
        """Writes the note of the new rows."""
        if self._key is None:
            self._key = int(rng.integers(1 << 62))
        fresh, streams = len(view) - view.fresh, len(self._count)
        numbers = self._count[view.stream] + np.arange(fresh)
        view.notes[ROW][view.fresh :] = numbers * streams + view.stream
        self._count[view.stream] += fresh

    def of(self, view: View, rows: Array | slice) -> Array:
        """Who these rows are."""
        key, numbers, ts, words = self.parts(view)
        return identify(key, numbers[rows], ts[rows], words[rows])

    def parts(self, view: View) -> tuple[int, Array, Array, Array]:
        """What tells who rows are, as kernels take it."""
        words = view.words[0].view(np.int64) if view.words else view.ts
        return self._key or 0, view.notes[ROW], view.ts, words

    def draw(self, view: View, number: int) -> Array:
        """A number in (0, 1) of each row, the same for life; remembered as long as the view lasts."""
        known = self._drawn.get(view.stream)
        if known is None or known[0] is not view or known[1] != number:
            drawn = uniforms(self.of(view, slice(None)), number)
            self._drawn[view.stream] = known = (view, number, drawn)
        return known[2]

    def save(self) -> dict[str, Any]:
        return {"key": self._key, "count": self._count}

    def load(self, plain: dict[str, Any]) -> None:
        self._key, self._count = plain["key"], list(plain["count"])


class Recent:
    """Sizes of the rows that came lately, per stream."""

    def __init__(self, streams: int) -> None:
        self._sizes = [np.empty(0) for _ in range(streams)]

    def add(self, stream: int, sizes: Array) -> None:
        step = max(1, len(sizes) // RECENT)
        self._sizes[stream] = np.concatenate([self._sizes[stream], sizes[::step]])[-RECENT:]

    def __len__(self) -> int:
        """How many streams there are."""
        return len(self._sizes)

    def of(self, stream: int) -> Array:
        return self._sizes[stream]

    def outline(self, stream: int) -> Array:
        """A few sizes that stand for all."""
        sizes = self._sizes[stream]
        step = max(1, len(sizes) // OUTLINE)
        return np.sort(sizes)[step // 2 :: step]

    def save(self) -> list[pa.RecordBatch]:
        return [pa.record_batch({"sizes": sizes}) for sizes in self._sizes]

    def load(self, parts: Sequence[pa.RecordBatch]) -> None:
        self._sizes = [part.column(0).to_numpy().copy() for part in parts]


class Pace:
    """When chances are looked at anew."""

    def __init__(self) -> None:
        self._filling = True
        self._rows = 0

    def arrive(self, rows: int) -> None:
        self._rows += rows

    def due(self, views: Sequence[View], room: Room) -> bool:
        """At the end of a quantum."""
        held = sum(cost * len(view) for cost, view in zip(room.costs, views, strict=True))
        self._filling = self._filling and held < FILLING * room.size
        if self._filling or not held:
            return False
        fit = room.size * sum(map(len, views)) / held
        if self._rows < max(LEAST_ROWS, fit / REVISIONS):
            return False
        self._rows = 0
        return True

    def save(self) -> list[Any]:
        return [self._filling, self._rows]

    def load(self, plain: Sequence[Any]) -> None:
        self._filling, self._rows = plain


ORDINARY, BEYOND = 0, 1
"""Kinds of sampled results: those that are followed as planned; and those of a few monitored rows that stand
for many, which tell what rows bring beyond the results they are followed for (`uniform`)."""
TOTAL, VARIANCE, LARGEST, BRINGING, SAMPLED = range(5)
"""Of a kind: an estimate of the number of all its results, without bias; the variance of that; the most of it
that hangs on one row; rows that brought any by chance; and results given out."""


class Tally:
    """What the sample tells of the whole.

    Each kind has its own way of being uncertain, as results of several ghosts have (`recall.Account`): what
    the few rows of a kind might have brought, and did not, must not be hidden by what many of another kind
    did."""

    def __init__(self) -> None:
        self.sums = np.zeros((2, 5))
        """By kind, as kernels take it."""
        self.met = np.zeros(2)
        """Results that rows had, sampled or not, summed over the rows; and their squares."""

    def judge(self, known: Quality, sampling: float, beyond: float = 1.0) -> Quality:
        """Adds what is known to what is `known`: whether anything was lost. What lies beyond is seen by rows
        that stand for so many each (infinite: by none)."""
        found, true = self.sums[:, SAMPLED].sum(), self.sums[:, TOTAL].sum()
        spread = float(self.sums[:, VARIANCE].sum())
        known = replace(known, sampling=sampling, found=float(found), true=float(true), variance=spread)
        if known.unit == 0.0 and true == found:
            return known
        if self.sums[:, BRINGING].sum() < HANDFUL or beyond == np.inf:
            return replace(known, recall=float("nan"), low=0.0, high=1.0, unit=UNKNOWN)
        below = above = unit = 0.0
        for kind, (total, variance, largest, _, sampled) in enumerate(self.sums):
            missed, size = max(0.0, total - sampled), largest
            if kind == BEYOND:
                # As far as it hung on one row, or if none brought anything: what any monitored row may bring.
                share = min(1.0, largest / missed) if missed > 0 else 1.0
                size += share * max(0.0, (beyond - 1.0) * self._clump - largest)
            low, high = missed_interval(missed, variance, size)
            below, above, unit = below + (missed - low) ** 2, above + (high - missed) ** 2, max(unit, size)
        lost = max(0.0, true - found)
        recall, low, high = recall_between(found, lost, lost - below**0.5, lost + above**0.5)
        return replace(known, recall=recall, low=low, high=high, unit=float(unit))

    @property
    def _clump(self) -> float:
        """Results that hang on one row together, from the point of view of a result."""
        return float(max(1.0, self.met[1] / self.met[0])) if self.met[0] else 1.0

    def save(self) -> list[list[float]]:
        return [*self.sums.tolist(), self.met.tolist()]

    def load(self, plain: Sequence[Sequence[float]]) -> None:
        self.sums, self.met = np.array(plain[:2]), np.array(plain[2])


def limits(
    split: str | Mapping[str, float], size: float, aliases: Sequence[str]
) -> list[tuple[list[int], float]]:
    """Groups of streams that share memory, with what each group has."""
    streams = list(range(len(aliases)))
    if split == "together":
        return [(streams, size)]
    shares = [1.0 if isinstance(split, str) else float(split[a]) for a in aliases]
    return [([s], size * shares[s] / sum(shares)) for s in streams]


def usable(costs: Sequence[float]) -> list[float]:
    """What a row takes, with the mean of the others for streams that hold none yet."""
    known = [cost for cost in costs if cost > 0] or [1.0]
    return [cost if cost > 0 else sum(known) / len(known) for cost in costs]
