"""Common parts of rankings that sample: randomness by row, recent sizes, totals of the sample.

The row of a result that arrived last need not be stored; all its other rows had to be held. Of rows that
arrive in one sub-batch the newest counts as the last (at equal times that of the last stream), and rows of
earlier sub-batches come before them. So the sample does not depend on how the input is cut into sub-batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from windrow.estimation.missed import ResultSums
from windrow.estimation.recall import HANDFUL, UNKNOWN, recall_of
from windrow.eviction.ranking import MemoryBudget
from windrow.eviction.rates import WindowDemand
from windrow.eviction.window_view import ProbeResults, WindowView
from windrow.kernels.result_sums import CONTRIBUTING
from windrow.kernels.row_sampling import RowKeys, find_last_arrival, identify, uniforms
from windrow.model.metrics import Quality
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
ROW = "row"
"""Row state: the row's number among all rows that arrived."""
_LONG_AGO = np.iinfo(np.int64).min
RECENT = 1024
"""Recent rows of a stream whose sizes are kept."""
FILLING = 1 / 8
"""Until this fraction of the memory is first used, every row is kept: rates are not known yet."""
OUTLINE = 64
"""Sizes that represent all recent ones where a computation takes many steps."""
REVISIONS = 4
"""Revisions of probabilities while as many rows arrive as the memory holds."""
LEAST_ROWS = 16
"""Minimum number of rows between two revisions."""


def completing_stream(found: ProbeResults) -> Array:
    """The stream whose row completed each result; that row need not be stored."""
    last = np.full(len(found), len(found.views) - 1, np.int64)
    latest = np.full(len(found), _LONG_AGO)
    for view, rows in zip(found.views, found.rows, strict=True):
        find_last_arrival(rows, view.ts, view.first_new, view.stream, latest, last)
    return last


class RowIds(Stateful):
    """Numbers rows as they arrive. Random numbers drawn for a row depend on the row alone."""

    saved = ("_key", "_count")

    def __init__(self, streams: int) -> None:
        self._key: int | None = None
        self._count = [0] * streams
        self._drawn: dict[int, tuple[WindowView, int, Array]] = {}

    def forget(self) -> None:
        """Drops the numbers drawn for whole views."""
        self._drawn.clear()

    def number(self, view: WindowView) -> None:
        """Writes the row state of the new rows."""
        if self._key is None:
            self._key = int(view.rng.integers(1 << 62))
        numbers = self._count[view.stream] + np.arange(view.new_count)
        view.row_state[ROW][view.new] = numbers * len(self._count) + view.stream
        self._count[view.stream] += view.new_count

    def of(self, view: WindowView, rows: Array | slice) -> Array:
        """The identities of these rows."""
        return identify(self.keys(view, rows))

    def keys(self, view: WindowView, rows: Array | slice = slice(None)) -> RowKeys:
        """What identifies these rows."""
        column = next(iter(view.join_columns.values()), view.ts).view(np.int64)
        return RowKeys(self._key or 0, view.row_state[ROW][rows], view.ts[rows], column[rows])

    def draw(self, view: WindowView, number: int) -> Array:
        """A number in (0, 1) for each row, always the same; cached as long as the view lasts."""
        known = self._drawn.get(view.stream)
        if known is None or known[0] is not view or known[1] != number:
            drawn = uniforms(self.of(view, slice(None)), number)
            self._drawn[view.stream] = known = (view, number, drawn)
        return known[2]


class RecentSizes(Stateful):
    """Sizes of recent rows, per stream."""

    saved = ("_sizes",)

    def __init__(self, streams: int) -> None:
        self._sizes = [np.empty(0) for _ in range(streams)]

    def add(self, stream: int, sizes: Array) -> None:
        step = max(1, len(sizes) // RECENT)
        self._sizes[stream] = np.concatenate([self._sizes[stream], sizes[::step]])[-RECENT:]

    def of(self, stream: int) -> Array:
        return self._sizes[stream]

    def outline(self, stream: int) -> Array:
        """A few sizes that represent all recent ones."""
        sizes = self._sizes[stream]
        step = max(1, len(sizes) // OUTLINE)
        return np.sort(sizes)[step // 2 :: step]


ORDINARY, BEYOND = 0, 1
"""Kinds of sampled results: those within the bound of their row, and those beyond it, which only monitored
rows measure (`uniform`)."""


class SampleTotals(ResultSums):
    """Estimates of all results from the sample, by kind."""

    saved = ("rows_in_results",)

    def __init__(self) -> None:
        super().__init__(2)
        self.rows_in_results = np.zeros(2)
        """The number of results of a row, sampled or not, summed over rows; and its square."""

    def add_quality(self, known: Quality, sampling: float, beyond: float = 1.0) -> Quality:
        """Adds the estimate to `known`. `sampling` is the current sampling fraction of the results, `beyond`
        how many rows a monitored row represents, infinite if none is monitored."""
        known = replace(
            known,
            sampling_fraction=sampling,
            results_found=self.found,
            results_estimated=self.estimated,
            results_variance=self.variance,
        )
        if known.results_max_weight == 0.0 and self.estimated == self.found:
            return known
        if self.sums[:, CONTRIBUTING].sum() < HANDFUL or beyond == np.inf:
            nan = float("nan")
            return replace(known, recall=nan, recall_low=0.0, recall_high=1.0, results_max_weight=UNKNOWN)
        losses = [self.loss(ORDINARY, 0.0), self.loss(BEYOND, (beyond - 1.0) * self._clump)]
        recall, low, high = recall_of(self.found, losses)
        unit = max(loss.max_weight for loss in losses)
        return replace(known, recall=recall, recall_low=low, recall_high=high, results_max_weight=unit)

    @property
    def _clump(self) -> float:
        """The number of results of a row, averaged over results."""
        results, squares = self.rows_in_results
        return float(max(1.0, squares / results)) if results else 1.0


class Sampler(Stateful):
    """Common parts of sampling policies: identities of rows, rows of complete windows, the time to revise
    probabilities, and the totals of the sample."""

    saved = ("ids", "demand", "totals", "_filling", "_rows")

    def __init__(self, split: str | Mapping[str, float], bound: BoundQuery) -> None:
        self._split, self._aliases = split, bound.query.aliases
        self.ids = RowIds(len(self._aliases))
        self.demand = WindowDemand(bound)
        self.totals = SampleTotals()
        self._filling = True
        self._rows = 0
        """Rows since the last revision."""

    def on_arrival(self, view: WindowView) -> Array:
        """Numbers the new rows; returns their identities."""
        self.ids.number(view)
        self.demand.on_arrival(view)
        self._rows += view.new_count
        return self.ids.of(view, view.new)

    def end_sub_batch(self, views: Sequence[WindowView]) -> bool:
        """A sub-batch ends; returns whether rates are known."""
        self.demand.end_sub_batch(views)
        return self.demand.rates.known

    def revision_due(self, views: Sequence[WindowView], budget: MemoryBudget) -> bool:
        """Whether probabilities are to be revised at the end of this sub-batch."""
        held = sum(cost * len(view) for cost, view in zip(budget.costs, views, strict=True))
        self._filling = self._filling and held < FILLING * budget.size
        if self._filling or not held:
            return False
        fit = budget.size * sum(map(len, views)) / held
        if self._rows < max(LEAST_ROWS, fit / REVISIONS):
            return False
        self._rows = 0
        return True

    def groups(self, size: float = 1.0) -> list[tuple[list[int], float]]:
        """Groups of streams that share memory, each with its part of `size`."""
        return memory_groups(self._split, size, self._aliases)


def memory_groups(
    split: str | Mapping[str, float], size: float, aliases: Sequence[str]
) -> list[tuple[list[int], float]]:
    """Groups of streams that share memory, each with its part of `size`."""
    streams = list(range(len(aliases)))
    if split == "shared":
        return [(streams, size)]
    shares = [1.0 if isinstance(split, str) else float(split[a]) for a in aliases]
    return [([s], size * shares[s] / sum(shares)) for s in streams]


def row_costs(costs: Sequence[float]) -> list[float]:
    """Memory of a row by stream; the mean of the others for streams without rows."""
    known = [cost for cost in costs if cost > 0] or [1.0]
    return [cost if cost > 0 else sum(known) / len(known) for cost in costs]
