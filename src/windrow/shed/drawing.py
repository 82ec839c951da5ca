"""What rankings that sample have in common: chances by row, recent sizes, and what the sample tells.

Which row of a result was *not* stored: the last to arrive. Of rows that came in one quantum that is the
newest (at equal times the one whose stream takes its turn last), and rows of earlier quanta come before them;
so a result counts its rows the same whatever the quantum. All other rows had to be held for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels.chance import came_last, identify, uniforms
from windrow.model.measurements import Quality
from windrow.shed.ranking import Room
from windrow.shed.recall import recall_interval
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


@dataclass
class Tally:
    """What the sample tells of the whole."""

    sampled: float = 0.0
    weights: float = 0.0
    """An estimate of the number of all results, without bias."""
    variance: float = 0.0
    """Of that estimate."""
    largest: float = 0.0
    """The most of it that hangs on one row."""

    def add(self, weights: Array) -> None:
        self.sampled += len(weights)
        self.weights += float(weights.sum())

    def vary(self, variance: float, largest: float) -> None:
        self.variance += variance
        self.largest = max(self.largest, largest)

    def judge(self, known: Quality, sampling: float) -> Quality:
        sums = (self.sampled, self.weights, self.variance)
        recall, low, high = recall_interval(*sums, unit=self.largest)
        known = replace(known, recall=recall, low=low, high=high, sampling=sampling)
        return replace(known, found=sums[0], true=sums[1], variance=sums[2], unit=self.largest)

    def save(self) -> list[float]:
        return [self.sampled, self.weights, self.variance, self.largest]

    def load(self, plain: Sequence[float]) -> None:
        self.sampled, self.weights, self.variance, self.largest = plain


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
