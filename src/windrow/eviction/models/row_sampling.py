"""Common parts of rankings that sample: probabilities by row, recent sizes, totals of the sample.

Which row of a result was *not* stored: the last to arrive. Of rows that came in one sub-batch that is the
newest (at equal times the one whose stream takes its turn last), and rows of earlier sub-batches come before
them; so a result counts its rows the same whatever the sub-batch. All other rows had to be held for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from windrow.estimation.missed import missed_interval
from windrow.estimation.recall import HANDFUL, UNKNOWN, recall_between
from windrow.eviction.ranking import MemoryBudget
from windrow.eviction.window_view import ProbeResults, WindowView
from windrow.kernels.row_sampling import find_last_arrival, identify, uniforms
from windrow.model.metrics import Quality
from windrow.model.stateful import Stateful

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


def completing_stream(views: Sequence[WindowView], found: ProbeResults) -> Array:
    """The stream of the row that each result was found with, and that need not have been stored."""
    last = np.full(len(found), len(views) - 1, np.int64)
    latest = np.full(len(found), _LONG_AGO)
    for view, rows in zip(views, found.rows, strict=True):
        find_last_arrival(rows, view.ts, view.first_new, view.stream, latest, last)
    return last


class RowIds(Stateful):
    """Numbers rows as they come; what is drawn for a row depends on the row alone."""

    saved = ("_key", "_count")

    def __init__(self, streams: int) -> None:
        self._key: int | None = None
        self._count = [0] * streams
        self._drawn: dict[int, tuple[WindowView, int, Array]] = {}

    def forget(self) -> None:
        """The numbers drawn for whole views, which hold on to the rows."""
        self._drawn.clear()

    def number(self, view: WindowView, rng: np.random.Generator) -> None:
        """Writes the note of the new rows."""
        if self._key is None:
            self._key = int(rng.integers(1 << 62))
        fresh, streams = len(view) - view.first_new, len(self._count)
        numbers = self._count[view.stream] + np.arange(fresh)
        view.row_state[ROW][view.first_new :] = numbers * streams + view.stream
        self._count[view.stream] += fresh

    def of(self, view: WindowView, rows: Array | slice) -> Array:
        """Who these rows are."""
        key, numbers, ts, words = self.parts(view)
        return identify(key, numbers[rows], ts[rows], words[rows])

    def parts(self, view: WindowView) -> tuple[int, Array, Array, Array]:
        """What tells who rows are, as kernels take it."""
        words = view.join_columns[0].view(np.int64) if view.join_columns else view.ts
        return self._key or 0, view.row_state[ROW], view.ts, words

    def draw(self, view: WindowView, number: int) -> Array:
        """A number in (0, 1) of each row, the same for life; remembered as long as the view lasts."""
        known = self._drawn.get(view.stream)
        if known is None or known[0] is not view or known[1] != number:
            drawn = uniforms(self.of(view, slice(None)), number)
            self._drawn[view.stream] = known = (view, number, drawn)
        return known[2]


class RecentSizes(Stateful):
    """Sizes of the rows that came lately, per stream."""

    saved = ("_sizes",)

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


class RevisionTimer(Stateful):
    """When chances are looked at anew."""

    saved = ("_filling", "_rows")

    def __init__(self) -> None:
        self._filling = True
        self._rows = 0

    def on_arrival(self, rows: int) -> None:
        self._rows += rows

    def due(self, views: Sequence[WindowView], room: MemoryBudget) -> bool:
        """At the end of a sub-batch."""
        held = sum(cost * len(view) for cost, view in zip(room.costs, views, strict=True))
        self._filling = self._filling and held < FILLING * room.size
        if self._filling or not held:
            return False
        fit = room.size * sum(map(len, views)) / held
        if self._rows < max(LEAST_ROWS, fit / REVISIONS):
            return False
        self._rows = 0
        return True


ORDINARY, BEYOND = 0, 1
"""Kinds of sampled results: those that are followed as planned; and those of a few monitored rows that stand
for many, which tell what rows bring beyond the results they are followed for (`uniform`)."""
TOTAL, VARIANCE, LARGEST, BRINGING, SAMPLED = range(5)
"""Of a kind: an estimate of the number of all its results, without bias; the variance of that; the most of it
that hangs on one row; rows that brought any by chance; and results given out."""


class SampleTotals(Stateful):
    """What the sample tells of the whole.

    Each kind has its own way of being uncertain, as results of several shadow rows have (`recall.Account`):
    what the few rows of a kind might have brought, and did not, must not be hidden by what many of another
    kind did."""

    saved = ("sums", "rows_in_results")

    def __init__(self) -> None:
        self.sums = np.zeros((2, 5))
        """By kind, as kernels take it."""
        self.rows_in_results = np.zeros(2)
        """Results that rows had, sampled or not, summed over the rows; and their squares."""

    def add_quality(self, known: Quality, sampling: float, beyond: float = 1.0) -> Quality:
        """Adds what is known to what is `known`: whether anything was lost. What lies beyond is seen by rows
        that stand for so many each (infinite: by none)."""
        found, true = self.sums[:, SAMPLED].sum(), self.sums[:, TOTAL].sum()
        spread = float(self.sums[:, VARIANCE].sum())
        known = replace(
            known,
            sampling_fraction=sampling,
            results_found=float(found),
            results_estimated=float(true),
            results_variance=spread,
        )
        if known.results_max_weight == 0.0 and true == found:
            return known
        if self.sums[:, BRINGING].sum() < HANDFUL or beyond == np.inf:
            nan = float("nan")
            return replace(known, recall=nan, recall_low=0.0, recall_high=1.0, results_max_weight=UNKNOWN)
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
        return replace(known, recall=recall, recall_low=low, recall_high=high, results_max_weight=float(unit))

    @property
    def _clump(self) -> float:
        """Results that hang on one row together, from the point of view of a result."""
        return (
            float(max(1.0, self.rows_in_results[1] / self.rows_in_results[0]))
            if self.rows_in_results[0]
            else 1.0
        )


def memory_groups(
    split: str | Mapping[str, float], size: float, aliases: Sequence[str]
) -> list[tuple[list[int], float]]:
    """Groups of streams that share memory, with what each group has."""
    streams = list(range(len(aliases)))
    if split == "together":
        return [(streams, size)]
    shares = [1.0 if isinstance(split, str) else float(split[a]) for a in aliases]
    return [([s], size * shares[s] / sum(shares)) for s in streams]


def row_costs(costs: Sequence[float]) -> list[float]:
    """What a row takes, with the mean of the others for streams that hold none yet."""
    known = [cost for cost in costs if cost > 0] or [1.0]
    return [cost if cost > 0 else sum(known) / len(known) for cost in costs]
