"""Streams whose results come in clumps: few keys make most of them, all the time or for a short while.

Of such results a limit loses clumps, too, so what was lost is hard to tell from a few rows.
"""

from __future__ import annotations

import numpy as np

from windrow.lab.memory import Trace, table
from windrow.lab.memory_streams import arrivals, zipf

Array = np.ndarray


def bursts(
    streams: int,
    span: float,
    seed: int,
    rate: float,
    window: float,
    skew: float = 1.5,
    visits: float = 0.4,
    noise: float = 0.5,
    counted: bool = False,
) -> Trace:
    """Keys that come for a while and go: a few of them often, most of them once or twice.

    Parameters
    ----------
    rate, window
        Rows per second of each stream; seconds.
    skew
        Of the rows that a key brings in a visit: Pareto's exponent. The smaller, the more unequal.
    visits
        How long a key stays, in windows.
    noise
        The part of the rows whose key comes on no other stream.
    counted
        Windows hold as many rows as come in `window` seconds, however long that takes.
    """
    rng = np.random.default_rng(seed)
    aliases = "abcdefgh"[:streams]
    tables = {}
    # So many visits, of which one brings four rows to each stream on average.
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
        tables[alias] = table(ts, k=keys)
    return Trace(tables, dict.fromkeys(aliases, window), on=_equal(aliases), counted=counted)


def skewed(
    streams: int,
    span: float,
    seed: int,
    rate: float,
    window: float,
    values: int,
    skew: float,
    counted: bool = False,
) -> Trace:
    """One key, drawn by the same Zipf law on each stream; the most frequent values make most results."""
    rng = np.random.default_rng(seed)
    aliases, share = "abcdefgh"[:streams], zipf(values, skew)
    times = {alias: arrivals(rate, span, rng) for alias in aliases}
    tables = {alias: table(ts, k=rng.choice(values, len(ts), p=share)) for alias, ts in times.items()}
    return Trace(tables, dict.fromkeys(aliases, window), on=_equal(aliases), counted=counted)


def _equal(aliases: str) -> str:
    return " and ".join(f"{aliases[0]}.k = {alias}.k" for alias in aliases[1:])
