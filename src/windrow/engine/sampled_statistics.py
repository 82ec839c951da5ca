"""Statistics for the planner, from small samples of rows: distinct counts and selectivities.

Nothing is kept per row. When a plan is reviewed, recent rows of each window are sampled. Repeated values
among them give the distinct count; conditions tried on pairs of them give the selectivities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import expm1

import numpy as np

from windrow.engine.conditions import holds
from windrow.model.access import Access
from windrow.model.predicate import Atom, Band, Class, Equality, JoinColumn, Predicate, Residual
from windrow.model.query import Query
from windrow.planning.statistics import JoinStatistics, StreamStatistics

Array = np.ndarray
SAMPLE = 1024
PAIRS = 64
UNKNOWN_RESIDUAL = 0.25
"""Selectivity of a residual that was never tried."""

Sample = Mapping[JoinColumn, Array]
"""Recent values of each join column of one stream."""


def distinct_values(sample: Array) -> float:
    """Number of values the sample was drawn from, if all are equally likely (MultiJoin s. 4.2): n rows of v
    values show d = v (1 - exp(-n / v)) different ones."""
    n = len(sample)
    if n == 0:
        return 1.0
    ordered = np.sort(sample)  # np.unique takes ten times as long
    d = 1 + np.count_nonzero(ordered[1:] != ordered[:-1])
    if d >= n:
        return float(n) ** 2  # with fewer values than that, one would probably have occurred twice
    low, high = float(d), float(n) ** 2
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if middle * -expm1(-n / middle) < d:
            low = middle
        else:
            high = middle
    return high


def selectivity(atom: Atom, samples: Sequence[Sample]) -> float:
    """Selectivity of a comparison or band, measured on all pairs of a few rows of both streams."""
    left, right = (samples[w.stream].get(w, np.empty(0))[-PAIRS:] for w in atom.columns)
    if len(left) == 0 or len(right) == 0:
        return 1 / 3
    hits = int(holds(atom, np.repeat(left, len(right)), np.tile(right, len(left))).sum())
    return (hits + 0.5) / (len(left) * len(right) + 1)


def statistics(
    query: Query,
    predicate: Predicate,
    classes: Sequence[Class],
    rates: Sequence[float],
    samples: Sequence[Sample],
    residuals: Mapping[Residual, float],
) -> JoinStatistics:
    """All inputs of the cost model."""
    distinct = tuple({w.stream: distinct_values(samples[w.stream][w]) for w in each} for each in classes)
    streams = []
    for stream, (rate, described) in enumerate(zip(rates, query.streams.values(), strict=True)):
        window = described.window
        access = described.path or _usual_access(stream, predicate)
        rows = float(window.size)
        if window.kind == "rows per key":
            rows *= max((known[stream] for known in distinct if stream in known), default=1.0)
        span = window.size / 1e6 if window.is_time else rows / max(rate, 1e-9)
        streams.append(StreamStatistics(rate, span, access.path, access.buckets))
    others = [
        (frozenset(w.stream for w in atom.columns), selectivity(atom, samples))
        for atom in predicate.atoms
        if not isinstance(atom, Equality)
    ]
    others += [(r.streams, residuals.get(r, UNKNOWN_RESIDUAL)) for r in predicate.residuals]
    return JoinStatistics(tuple(streams), distinct, tuple(others))


def _usual_access(stream: int, predicate: Predicate) -> Access:
    mine = [a for a in predicate.atoms if any(w.stream == stream for w in a.columns)]
    if any(isinstance(a, Equality) for a in mine):
        return Access("hash")
    if predicate.sets_of(stream) and not any(isinstance(a, Band) for a in mine):
        return Access("inverted")
    return Access("sorted" if mine else "scan")


def changed(before: JoinStatistics, now: JoinStatistics, factor: float) -> bool:
    """Whether a rate, distinct count or selectivity differs by more than `factor`."""
    pairs = [(a.rate, b.rate) for a, b in zip(before.streams, now.streams, strict=True)]
    for a, b in zip(before.classes, now.classes, strict=True):
        pairs += [(a[s], b[s]) for s in a]
    pairs += [(a[1], b[1]) for a, b in zip(before.others, now.others, strict=True)]
    return any(max(a, b) > factor * max(min(a, b), 1e-12) for a, b in pairs)
