"""The frequency model: the results a row yields depend on its key alone (Memory s. 2.1, 3.3).

A fixed fraction of each stream's rows has each key value, so a window's rows of one value yield results at a
fixed rate. Keeping the values with the most results per byte is PROB.

The paper has two streams. Here m streams share one key. With complete windows, stream j completes T_j(v) =
r_j f_j(v) * product over i != j of N_i(v) results of value v per unit of time, where window i holds N_i(v) =
r_i W_i f_i(v) rows of it; a row of stream i takes part in every T_j but T_i. Rows of one value are therefore
best kept together: in all windows, or in all but one if that stream then completes all its results alone. For
each value the first step is the better of these (all windows, or the all-but-one with the most results per
byte), the second step is the rest. All steps, ordered by results per byte, are the ranking. For two streams
the steps are single windows and the ranking is PROB's in both at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from windrow.errors import QueryError
from windrow.memory_models.knapsack import Knapsack

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RetentionPlan:
    """Fraction of rows kept by stream and value, memory by stream, and expected recall."""

    share: Array
    memory: tuple[float, ...]
    recall: float

    def __str__(self) -> str:
        values = (self.share > 0).sum(axis=1)
        parts = (
            f"stream {i}: {values[i]} of {self.share.shape[1]} values in {memory:,.0f}"
            for i, memory in enumerate(self.memory)
        )
        return f"recall {100 * self.recall:.1f} %; {', '.join(parts)}"


@dataclass(frozen=True, eq=False)
class FrequencyModel:
    """Frequencies, rates and windows of streams that share one key.

    Parameters
    ----------
    frequencies
        By stream and value: the fraction of the stream's rows that have the value. Rows of values left
        out (the fractions may sum to less than 1) count neither as memory nor as results.
    rates
        Rows per unit of time, by stream.
    windows
        Length of the windows in units of time; 0 for a stream that is not stored.
    bytes_per_row
        By stream; without it memory is in rows.
    """

    frequencies: Array
    rates: Sequence[float]
    windows: Sequence[float]
    bytes_per_row: Sequence[float] | None = None

    def __post_init__(self) -> None:
        f = np.asarray(self.frequencies, dtype=float)
        if f.ndim != 2 or len(f) < 2 or not f.shape[1]:
            raise QueryError(f"frequencies: expected two or more streams by values, got shape {f.shape}")
        if not (f >= 0).all() or (f.sum(axis=1) > 1 + 1e-6).any():
            raise QueryError(
                f"frequencies: parts of a stream must lie in 0..1 and sum to at most 1, got {f.sum(axis=1)}"
            )
        put = object.__setattr__
        put(self, "frequencies", f)
        for name in ("rates", "windows", "bytes_per_row"):
            if getattr(self, name) is None:
                continue
            values = tuple(map(float, getattr(self, name)))
            if len(values) != len(f) or not all(0 <= each < np.inf for each in values):
                raise QueryError(f"frequencies: {name} must be {len(f)} numbers from 0 up, got {values}")
            put(self, name, values)

    @cached_property
    def rows(self) -> Array:
        """Rows of each value in each complete window (N)."""
        return self.frequencies * np.multiply(self.rates, self.windows)[:, np.newaxis]

    @cached_property
    def sizes(self) -> Array:
        """Memory of these rows."""
        if self.bytes_per_row is None:
            return self.rows
        return self.rows * np.asarray(self.bytes_per_row)[:, np.newaxis]

    @property
    def whole(self) -> float:
        """Memory of all windows together."""
        return float(self.sizes.sum())

    @cached_property
    def completed(self) -> Array:
        """Results per unit of time, by completing stream and value (T)."""
        return np.asarray(self.rates)[:, np.newaxis] * self.frequencies * _product_of_others(self.rows)

    @cached_property
    def yields(self) -> Array:
        """Results per unit of time of one row, by stream and value, with the other windows complete: the sum
        over j of r_j f_j(v) times the rows of v in the windows other than its own and j's."""
        taking_part = self.completed.sum(axis=0) - self.completed
        return _ratio(taking_part, self.rows)

    def recall(self, share: Array) -> float:
        """Fraction of all results found if these fractions of the rows are kept, by stream and value."""
        total = self.completed.sum()
        return float((self.completed * _product_of_others(share)).sum() / total) if total > 0 else 1.0

    def keep(self, memory: float) -> RetentionPlan:
        """What to keep in all windows together for the highest recall."""
        steps = self._steps
        taken = _ratio(steps.take(_checked(memory)), steps.sizes).reshape(2, -1)
        return self._kept(np.where(self._first, taken[0], taken[1]))

    def prob(self, memory: Sequence[float]) -> RetentionPlan:
        """PROB with separate memory per stream: each keeps the values with the highest `yields` (s. 3.3).

        A value whose rows do not all fit is kept in part.
        """
        if len(memory) != len(self.rates):
            raise QueryError(f"frequencies: memory for {len(self.rates)} streams, got {len(memory)}")
        filled = [
            _ratio(Knapsack(sizes, gains).take(_checked(limit)), sizes)
            for sizes, gains, limit in zip(self.sizes, self.yields * self.rows, memory, strict=True)
        ]
        return self._kept(np.stack(filled))

    @cached_property
    def priority(self) -> Array:
        """Results per unit of time and memory by which `keep` ranks rows, by stream and value."""
        first, second = self._steps.density.reshape(2, -1)
        return np.where(self._first, first, second)

    @property
    def levels(self) -> Array:
        """The amounts of memory at which another step is complete."""
        return self._steps.levels[1]

    def _kept(self, share: Array) -> RetentionPlan:
        memory = (share * self.sizes).sum(axis=1)
        return RetentionPlan(share, tuple(map(float, memory)), self.recall(share))

    @cached_property
    def _first(self) -> Array:
        """By stream and value: whether the stream's window is in the value's first step."""
        together = self.sizes.sum(axis=0)
        without = _ratio(self.completed, together - self.sizes)
        left_out = np.argmax(without, axis=0)
        alone = without.max(axis=0) > _ratio(self.completed.sum(axis=0), together)
        return ~alone | (np.arange(len(self.rates))[:, np.newaxis] != left_out)

    @cached_property
    def _steps(self) -> Knapsack:
        """The first steps of all values, then the second ones (of size 0 if the first is everything)."""
        sizes = np.stack([(self.sizes * self._first).sum(axis=0), (self.sizes * ~self._first).sum(axis=0)])
        total = self.completed.sum(axis=0)
        # After the first step only the stream left out, if any, completes results.
        gain = np.where(self._first.all(axis=0), total, (self.completed * ~self._first).sum(axis=0))
        return Knapsack(sizes.ravel(), np.stack([gain, total - gain]).ravel())


def _product_of_others(values: Array) -> Array:
    """For each stream the product over all other streams, value by value."""
    return np.stack([np.delete(values, i, axis=0).prod(axis=0) for i in range(len(values))])


def _ratio(upper: Array, lower: Array) -> Array:
    return np.divide(upper, lower, out=np.zeros(np.shape(upper)), where=lower > 0)


def _checked(memory: float) -> float:
    if not memory >= 0:
        raise QueryError(f"frequencies: memory must not be negative, got {memory}")
    return memory
