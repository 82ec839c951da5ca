"""Streams whose results are clustered: a few keys produce most of them, or all occur after a silence.

A limit then loses whole clusters, so the loss is hard to estimate from a few rows.
"""

from __future__ import annotations

import numpy as np

from windrow_lab.memory import JoinWorkload
from windrow_lab.memory_streams import arrivals, zipf
from windrow_lab.timed_rows import timed


def bursts(
    streams: int,
    span: float,
    seed: int,
    rate: float,
    window: float,
    skew: float = 1.5,
    visits: float = 0.4,
    noise: float = 0.5,
) -> JoinWorkload:
    """Short-lived keys: a few of them occur often, most of them once or twice.

    Parameters
    ----------
    rate, window
        r, and seconds.
    skew
        Of the rows that a key brings in a visit: Pareto's exponent. The smaller, the more unequal.
    visits
        How long a key stays, in windows; a half more or less.
    noise
        The fraction of the rows whose key occurs on no other stream.
    """
    rng = np.random.default_rng(seed)
    aliases = "abcdefgh"[:streams]
    tables = {}
    # One visit brings four rows to each stream on average.
    count = int(rate * span / 4)
    begins = rng.uniform(-window, span, count)
    share = rng.pareto(skew, count) + 0.2
    stays = visits * window * rng.uniform(0.5, 1.5, count)
    for number, alias in enumerate(aliases):
        ts = arrivals(rate, span, rng)
        keys = -(np.arange(len(ts)) * streams + number) - 1
        rows = np.flatnonzero(rng.random(len(ts)) >= noise)
        at = ts[rows, np.newaxis]
        upto = np.cumsum(np.where((begins <= at) & (at < begins + stays), share, 0.0), axis=1)
        drawn = (upto < rng.random((len(rows), 1)) * upto[:, -1:]).sum(axis=1)
        there = upto[:, -1] > 0
        keys[rows[there]] = drawn[there]
        tables[alias] = timed(ts, k=keys)
    on = " and ".join(f"a.k = {alias}.k" for alias in aliases[1:])
    return JoinWorkload(tables, dict.fromkeys(aliases, window), on=on)


def silence(
    span: float, seed: int, rate: float, window: float, values: int, skew: float, silent: tuple[float, float]
) -> JoinWorkload:
    """Two streams with keys by the same Zipf law; `b` has no rows in the time interval `silent`."""
    rng = np.random.default_rng(seed)
    share = zipf(values, skew)
    times = {alias: arrivals(rate, span, rng) for alias in "ab"}
    times["b"] = times["b"][(times["b"] < silent[0]) | (times["b"] >= silent[1])]
    tables = {alias: timed(ts, k=rng.choice(values, len(ts), p=share)) for alias, ts in times.items()}
    return JoinWorkload(tables, {"a": window, "b": window})
