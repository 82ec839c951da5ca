"""The streams of Memory's sections 3 and 6, and some of our own.

Times between rows are the paper's: uniform from 1/(2r) to 2/r, which is 0.8 r rows per unit of time on
average. Here a unit is one second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow_lab.memory import JoinWorkload
from windrow_lab.timed_rows import timed

Array = np.ndarray
N, BUCKETS = 5, 20
"""Results of a row, and parts of its window, in the paper's age curves."""


def rising(power: float = 2.0) -> Array:
    """INC, p(k) ~ k^2, or another power (s. 6.2.2, 6.2.5)."""
    return np.arange(1.0, BUCKETS + 1) ** power


def falling(power: float = 2.0) -> Array:
    """DEC, p(k) ~ (m - k)^2."""
    return (BUCKETS - np.arange(1.0, BUCKETS + 1)) ** power


SHAPES = {
    "INC": rising(),
    "DEC": falling(),
    "BELL": np.concatenate([rising()[: BUCKETS // 2], falling()[BUCKETS // 2 :]]),
}


def age_based(
    shapes: Sequence[Array], span: float, seed: int, rates: Sequence[float] = (1, 5), window: float = 500
) -> JoinWorkload:
    """Rows of `b` that refer to rows of `a` by age (s. 6.2.1); only rows of `a` need to be stored.

    Parameters
    ----------
    shapes
        Weight of each of equally long parts of the window, youngest first; one after the other, each for an
        equal part of the run.
    span
        Seconds.
    rates, window
        r1 and r2; W1.
    """
    rng = np.random.default_rng(seed)
    a, b = (arrivals(rate, span, rng) for rate in rates)
    phase = (b / span * len(shapes)).astype(np.int64)
    key = np.select(
        [phase == number for number in range(len(shapes))],
        [followed(a, b, shape, window, rng) for shape in shapes],
    )
    return JoinWorkload(
        {"a": timed(a, k=np.arange(len(a))), "b": timed(b, k=key)}, {"a": window, "b": 1.0}, probing=("b",)
    )


def frequency_based(
    skew: float,
    order: str,
    span: float,
    seed: int,
    rates: Sequence[float] = (1, 5),
    window: float = 500,
    values: int = 50,
    phases: int = 1,
) -> JoinWorkload:
    """Keys by Zipf's law on either stream (s. 6.2.3); only rows of `a` are stored.

    Parameters
    ----------
    order
        "DC": the same values are frequent on both streams; "IC": those rare on the one are frequent on the
        other; "UC": neither.
    phases
        Equal parts of the run; with each the values change places.
    """
    rng = np.random.default_rng(seed)
    share = zipf(values, skew)
    ranks = {"DC": np.arange(values), "IC": np.arange(values)[::-1], "UC": rng.permutation(values)}[order]
    names = np.stack([rng.permutation(values) for _ in range(phases)])
    tables = {}
    for alias, rate, shares in zip("ab", rates, (share, share[ranks]), strict=True):
        ts = arrivals(rate, span, rng)
        drawn = rng.choice(values, len(ts), p=shares)
        tables[alias] = timed(ts, k=names[(ts / span * phases).astype(np.int64), drawn])
    return JoinWorkload(tables, {"a": window, "b": 1e-6}, probing=("b",))


def shared_key(
    streams: int, span: float, seed: int, rate: float, window: float, values: int, skew: float
) -> JoinWorkload:
    """Streams of one rate joined on one key, which is drawn by the same Zipf law on each; all are stored."""
    rng = np.random.default_rng(seed)
    share = zipf(values, skew)
    aliases = "abcdefgh"[:streams]
    times = {alias: arrivals(rate, span, rng) for alias in aliases}
    return JoinWorkload(
        {alias: timed(ts, k=rng.choice(values, len(ts), p=share)) for alias, ts in times.items()},
        dict.fromkeys(aliases, window),
        on=" and ".join(f"a.k = {alias}.k" for alias in aliases[1:]),
    )


def following(streams: int, span: float, seed: int, rate: float, window: float, lag: float) -> JoinWorkload:
    """Every stream sees the same events, about `lag` seconds after the stream before it, each by a key of its
    own; three in ten rows are of other events. All streams are stored."""
    rng = np.random.default_rng(seed)
    aliases = "abcdefgh"[:streams]
    begins = arrivals(rate, span, rng)
    tables = {}
    for stream, alias in enumerate(aliases):
        times = begins + stream * lag + rng.normal(0, lag / 7, len(begins))
        keys = np.where(
            rng.random(len(times)) < 0.3, rng.integers(10**6, 10**9, len(times)), np.arange(len(times))
        )
        order = np.argsort(times)
        order = order[(times[order] >= 0) & (times[order] < span)]
        tables[alias] = timed(times[order], k=keys[order])
    on = " and ".join(f"a.k = {alias}.k" for alias in aliases[1:])
    return JoinWorkload(tables, dict.fromkeys(aliases, window), on=on)


def mixed(span: float, seed: int, rate: float = 4, window: float = 250, values: int = 2000) -> JoinWorkload:
    """Both models at once; both streams are stored.

    Half of the rows have keys by Zipf's law (exponent 0.8), the same on both streams. Of the others one in
    ten has a key of its own, and nine have that of such a row of the other stream that arrived 40 to 60 % of
    a window before.
    """
    rng = np.random.default_rng(seed)
    share, shape = zipf(values, 0.8), np.repeat((0.0, 1.0, 0.0), (8, 4, 8))
    times = {alias: arrivals(rate, span, rng) for alias in "ab"}
    kinds = {alias: rng.choice(3, len(ts), p=(0.5, 0.05, 0.45)) for alias, ts in times.items()}
    keys = {alias: rng.choice(values, len(ts), p=share) for alias, ts in times.items()}
    for own, other, offset in (("a", "b", 1), ("b", "a", 2)):
        leads, follows = kinds[own] == 1, kinds[other] == 2
        keys[own][leads] = values + 2 * np.arange(leads.sum()) + offset
        row = followed(times[own][leads], times[other][follows], shape, window, rng)
        keys[other][follows] = np.where(row >= 0, values + 2 * row + offset, -offset)
    return JoinWorkload(
        {alias: timed(times[alias], k=keys[alias]) for alias in "ab"}, {"a": window, "b": window}
    )


def two_sources(span: float, seed: int, tail: float, rate: float = 50, window: float = 120) -> JoinWorkload:
    """Two sources of `rate` rows per second, one of them far away (s. 6.1).

    A row of `b` goes with the rows of `a` that were sent a minute before it, within 0.1 s. Rows of `a` come
    at once. Those of `b` come later by 2 s between the clocks and a log-normal delay, independent for each
    row, whose mode is 1 s: so the age curve has its peak near 63 s, as in the paper's trace. The paper says
    nothing of the delays but this; `tail` is the deviation of their logarithm.
    """
    rng = np.random.default_rng(seed)
    sent = np.arange(0, span, 1 / rate)
    arrived = sent + 2.0 + rng.lognormal(tail**2, tail, len(sent))
    order = np.argsort(arrived)
    millis = (sent * 1000).round().astype(np.int64)
    return JoinWorkload(
        {"a": timed(sent, sent=millis), "b": timed(arrived[order], sent=millis[order])},
        {"a": window, "b": 1e-6},
        on="abs(b.sent - (a.sent + 60000)) <= 100",
        probing=("b",),
    )


def evenly(curve: Sequence[int], units: int) -> JoinWorkload:
    """A row of `a` every second, and rows of `b` for it in the middle of each second of its age, as many as
    the curve says: the streams of the worked examples (s. 3.2.1).

    A row of `b` that finds nothing comes each second as well, so that `evaluate="1 second"` begins with rows
    of `b` and ends with a row of `a`: the operator then decides after every row of `a`.
    """
    arrived = np.arange(1.0, units + 1)
    ages = np.repeat(np.arange(len(curve)), curve) + 0.5
    times = np.concatenate([arrived - 0.5, (arrived[:, np.newaxis] + ages).ravel()])
    key = np.concatenate([np.full(units, -1), np.repeat(np.arange(units), len(ages))])
    order = np.argsort(times, kind="stable")
    return JoinWorkload(
        {"a": timed(arrived, k=np.arange(units)), "b": timed(times[order], k=key[order])},
        {"a": float(len(curve)), "b": 1e-6},
        probing=("b",),
    )


def arrivals(rate: float, span: float, rng: np.random.Generator) -> Array:
    """Times of rows, in seconds, with the paper's times between them (s. 6.2)."""
    gaps = rng.uniform(0.5 / rate, 2 / rate, int(2 * rate * span) + 16)
    times = np.cumsum(gaps)
    return times[times < span]


def followed(arrived: Array, at: Array, shape: Array, window: float, rng: np.random.Generator) -> Array:
    """For each time in `at` the row (of those that `arrived`) which is referred to: of a random part of the
    window, drawn by `shape`, any row; -1 if there is none."""
    width = window / len(shape)
    part = rng.choice(len(shape), len(at), p=shape / shape.sum())
    first = np.searchsorted(arrived, at - (part + 1) * width)
    count = np.searchsorted(arrived, at - part * width) - first
    chosen = first + (rng.random(len(at)) * count).astype(np.int64)
    return np.where(count > 0, chosen, -1)


def zipf(values: int, skew: float) -> Array:
    weight = np.arange(1, values + 1, dtype=np.float64) ** -skew
    return weight / weight.sum()
