"""The age model: the results a row still yields depend on its age alone (Memory s. 2.2, 3.2).

An age curve is the number of results that an average stored row takes part in, per span of its age. Inside a
span results are evenly spaced, so the cumulative curve is piecewise linear.

Which ages to keep rows for is a linear program: choose a distribution of retention times with a given mean
(the memory, by Little's law) that has the most results. Its optimum is the upper concave envelope of the
cumulative curve, reached by mixing the two retention times at the ends of one edge. It holds for any curve.

The paper's priority, a heuristic there, gives the same where rows arrive evenly. Before the edge and along
it, every row has a priority above the edge's slope; at its start the priority equals the slope, at its end it
is lower. Rows are therefore discarded only at the two ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from windrow.errors import QueryError
from windrow.kernels.importance_priority import toward_goals
from windrow.memory_models.knapsack import Knapsack
from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(frozen=True)
class Retention(Stateful):
    """Keep a fraction `share` of the rows until age `long`, the others until age `short`."""

    short: float
    long: float
    share: float


@dataclass(frozen=True)
class AgeCurve(Stateful):
    """Results of a stored row by age."""

    rates: tuple[float, ...]
    """Results of an average row in each span of its age, youngest first."""
    width: float = 1.0
    """Length of a span, in the unit of ages and retention times. `len(rates) * width` is the window."""

    def __post_init__(self) -> None:
        given = np.asarray(self.rates, dtype=float)
        if given.ndim != 1 or not len(given):
            raise QueryError(f"an age curve is a list of at least one span, got shape {given.shape}")
        if not np.isfinite(given).all() or (given < 0).any():
            bad = next(each for each in given if not (np.isfinite(each) and each >= 0))
            raise QueryError(f"results per span must be numbers from 0 up, got {bad}")
        if not (np.isfinite(self.width) and self.width > 0):
            raise QueryError(f"the width of a span must be positive, got {self.width}")
        object.__setattr__(self, "rates", tuple(map(float, given)))

    @cached_property
    def ages(self) -> Array:
        """Boundaries of the spans."""
        return _fixed(np.arange(len(self.rates) + 1) * self.width)

    @cached_property
    def cumulative(self) -> Array:
        """Results of a row up to each of `ages` (C of Definition 2.2)."""
        return _fixed(np.concatenate(([0.0], np.cumsum(self.rates))))

    @property
    def window(self) -> float:
        """The greatest age at which a row is still in its window."""
        return float(self.ages[-1])

    @property
    def n(self) -> float:
        """Results of a row in its lifetime."""
        return float(self.cumulative[-1])

    def age_at(self, results: float | Array) -> Array:
        """The age by which a row has this many results (the inverse of C, s. 4.2.2)."""
        wanted = np.clip(np.asarray(results, dtype=float), 0.0, self.n)
        after = np.searchsorted(self.cumulative, wanted, side="left")
        before = np.maximum(after - 1, 0)
        step = self.cumulative[after] - self.cumulative[before]
        part = np.divide(
            wanted - self.cumulative[before], step, out=np.zeros(np.shape(wanted)), where=step > 0
        )
        return self.ages[before] + part * self.width

    def retention(self, mean: float) -> Retention:
        """The best retention times with this mean: a mix of the two ends of an envelope edge."""
        corners, _ = self.envelope
        right = int(np.clip(np.searchsorted(corners, mean, side="right"), 1, len(corners) - 1))
        short, long = float(corners[right - 1]), float(corners[right])
        return Retention(short, long, min(max((mean - short) / (long - short), 0.0), 1.0))

    def results(self, mean: float | Array) -> Array:
        """The most results per row of any retention with this mean."""
        return np.interp(mean, *self.envelope)

    def priority(self, ages: Array) -> Array:
        """The highest rate at which rows of these ages can still yield results (s. 3.2.1): Priority(i) = max
        over j > i of (C(j) - C(i)) / (j - i). 0 beyond the window."""
        age = np.asarray(ages, dtype=float)
        out = np.empty(age.shape)
        toward_goals(age.ravel(), *self._goals, out.reshape(-1))
        return out

    @cached_property
    def _walk(self) -> tuple[list[int], list[tuple[float, int, int]]]:
        """Walk from the oldest span to the youngest, with the envelope of everything older as a stack of
        corners.

        Seen from an age, the best j is where a line from there touches that envelope. As the age moves left
        through a span, the touching point moves on to the next corner where the span's own line meets the
        edge between the two; the same event pops the corner. There are thus at most two pieces per span.
        Returns the corners from 0 up, and the pieces (start, span, best j).
        """
        X, C = self.ages.tolist(), self.cumulative.tolist()
        stack, pieces = [len(self.rates)], []
        for span in range(len(self.rates) - 1, -1, -1):
            right, slope, upto = span + 1, self.rates[span] / self.width, X[span + 1]
            while len(stack) > 1:
                near, far = stack[-1], stack[-2]
                edge = (C[far] - C[near]) / (X[far] - X[near])
                gap = C[near] - edge * (X[near] - X[right]) - C[right] if near != right else 0.0
                if gap > (edge - slope) * self.width:
                    break
                meets = max(X[right] - (gap / (edge - slope) if gap > 0 else 0.0), X[span])
                if meets < upto:
                    pieces.append((meets, span, near))
                    upto = meets
                stack.pop()
            if X[span] < upto:
                pieces.append((X[span], span, stack[-1]))
            stack.append(span)
        return stack[::-1], pieces[::-1]

    @cached_property
    def envelope(self) -> tuple[Array, Array]:
        """The upper concave envelope of `cumulative`: ages and values of its corners, from 0 on."""
        corners = self._walk[0]
        return _fixed(self.ages[corners]), _fixed(self.cumulative[corners])

    @cached_property
    def _goals(self) -> tuple[Array, ...]:
        """Priorities by piece: from age x they are (rise + rate * (end - x)) / (goal - x)."""
        starts, spans, goals = (np.array(each) for each in zip(*self._walk[1], strict=True))
        rise = self.cumulative[goals] - self.cumulative[spans + 1]
        rate = np.asarray(self.rates)[spans] / self.width
        beyond = (self.window, 0.0, 0.0, 0.0, np.inf)
        inside = (starts, rise, rate, self.ages[spans + 1], self.ages[goals])
        return tuple(_fixed(np.append(each, last)) for each, last in zip(inside, beyond, strict=True))


@dataclass(frozen=True)
class MemorySplit:
    """Memory and mean retention time by stream, and the expected recall of the join."""

    memory: tuple[float, ...]
    retention: tuple[float, ...]
    recall: float


def split(
    curves: Sequence[AgeCurve],
    rates: Sequence[float],
    memory: float,
    bytes_per_row: Sequence[float] | None = None,
) -> MemorySplit:
    """The split of memory between the streams of a join with the highest recall (s. 3.2.2).

    With two streams each result needs one stored row and results add up, so taking the edges of all envelopes
    by results per byte is optimal. With more, a result completed by stream k needs a stored row of every
    other stream. Their presence is assumed independent, so its probability is the product of the streams' own
    recalls. The curves determine how many results each stream completes: rows of stream i take part in all
    results except those that i completes. Starting from several splits, streams then exchange memory while
    that raises the recall.

    Parameters
    ----------
    curves, rates
        By stream; rates in rows per unit of time, in the unit of the curves' ages. A single curve
        describes a join that stores only one stream.
    memory
        In bytes, or in rows without `bytes_per_row`.
    """
    sizes = np.ones(len(rates)) if bytes_per_row is None else np.asarray(bytes_per_row, dtype=float)
    per_second = np.asarray(rates, dtype=float)
    return _Sharing(tuple(curves), per_second, per_second * sizes).split(memory)


_ROUNDS, _GAIN = 200, 1e-5
_PARTS = 0.5 ** np.arange(13)


@dataclass(frozen=True, eq=False)
class _Sharing:
    """A join whose streams share memory; `costs` is the memory of a stream per unit of mean retention."""

    curves: tuple[AgeCurve, ...]
    rates: Array
    costs: Array

    def split(self, memory: float) -> MemorySplit:
        held = self._by_density(memory, np.ones(len(self.costs), dtype=bool))
        if len(held) > 2:
            others = ~np.eye(len(held), dtype=bool)
            whole = self.costs * np.array([curve.window for curve in self.curves])
            even = whole * min(1.0, memory / max(float(whole.sum()), 1e-300))
            starts = [held, even, *(self._by_density(memory, each) for each in others)]
            held = max(map(self._exchanged, starts), key=lambda each: float(self._recalls(each)[0]))
        retention = np.where(self.costs > 0, held / np.where(self.costs > 0, self.costs, 1.0), np.inf)
        kept = (min(float(r), curve.window) for r, curve in zip(retention, self.curves, strict=True))
        return MemorySplit(tuple(map(float, held)), tuple(kept), float(self._recalls(held)[0]))

    def _exchanged(self, held: Array) -> Array:
        """Move memory from one stream to another, the best pair and amount each time."""
        gives, takes = np.nonzero(~np.eye(len(held), dtype=bool))
        moves = (np.eye(len(held))[takes] - np.eye(len(held))[gives])[:, np.newaxis]
        for _ in range(_ROUNDS):
            moved = (held + moves * (held[gives][:, np.newaxis] * _PARTS)[..., np.newaxis]).reshape(
                -1, len(held)
            )
            recalls = self._recalls(moved)
            best = int(np.argmax(recalls))
            if recalls[best] <= self._recalls(held)[0] * (1 + _GAIN):
                break
            held = moved[best]
        return held

    def _by_density(self, memory: float, among: Array) -> Array:
        """Memory by stream when the envelope edges of some streams are taken by results per byte."""
        edges = [curve.envelope for curve in self.curves]
        owner = np.repeat(np.arange(len(edges)), [len(ages) - 1 for ages, _ in edges])
        sizes = (self.costs * among)[owner] * np.concatenate([np.diff(ages) for ages, _ in edges])
        gains = (self.rates * among)[owner] * np.concatenate([np.diff(values) for _, values in edges])
        return np.bincount(owner, Knapsack(sizes, gains).take(memory), minlength=len(edges))

    def _recalls(self, held: Array) -> Array:
        """The recall of each division of memory between the streams (last axis)."""
        held = np.atleast_2d(held)
        # Fraction of its results for which a stream has its row.
        shares = np.ones(held.shape)
        for i, curve in enumerate(self.curves):
            if curve.n > 0 and self.costs[i] > 0:
                shares[:, i] = curve.results(held[:, i] / self.costs[i]) / curve.n
        return joint_recall(shares, self.rates * np.array([curve.n for curve in self.curves]))


def joint_recall(shares: Array, stored: Array) -> Array:
    """The recall if each stream has its row for these fractions of its results (last axis), independently of
    the other streams.

    Parameters
    ----------
    stored
        By stream, the results in which its stored rows take part: all except those the stream completes.
        In the sum every result counts once for each of its m - 1 stored rows. Learned values may be
        inconsistent, so the results a stream completes are clipped at 0.
    """
    streams = len(stored)
    if streams == 1:
        return shares[..., 0]
    completed = np.maximum(stored.sum() / (streams - 1) - stored, 0.0)
    completed = completed / completed.sum() if completed.sum() > 0 else np.full(streams, 1 / streams)
    others = [np.prod(np.delete(shares, k, axis=-1), axis=-1) for k in range(streams)]
    return np.stack(others, axis=-1) @ completed


def _fixed(values: Array) -> Array:
    values.flags.writeable = False
    return values
