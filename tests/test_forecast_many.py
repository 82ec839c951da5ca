"""Recall against memory of joins of three streams, as explained from data and as it comes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.eviction.forecast import AdditiveForecast, StreamModel
from windrow.eviction.joint_forecast import JointForecast
from windrow.eviction.models.match_rates import MatchRateModel
from windrow.memory_models.age_curve import AgeCurve

SECOND = 1_000_000
SECONDS, SPAN, CALLS = 60, 10, 90
LEARNED = 30
"""Seconds that are explained from; what comes after them is compared."""
Tables = dict[str, pa.Table]


def table(ts: np.ndarray, **columns: np.ndarray) -> pa.Table:
    inside = np.flatnonzero((ts >= 0) & (ts < SECONDS * SECOND))
    order = inside[np.argsort(ts[inside], kind="stable")]
    moments = pa.array(ts[order].astype(np.int64), pa.timestamp("us"))
    return pa.table({"ts": moments, **{name: values[order] for name, values in columns.items()}})


def keyed(skew: float, alike: bool = True) -> Tables:
    """Keys that come often on all streams, or each stream with favourites of its own."""
    random = np.random.default_rng(1)
    chances = np.arange(1.0, 301.0) ** -skew
    found = {}
    for stream in range(3):
        count = 60 * SECONDS
        keys = random.choice(300, count, p=chances / chances.sum())
        ts = random.integers(0, SECONDS * SECOND, count)
        found["abc"[stream]] = table(ts, k=keys if alike else (keys + 10 * stream) % 300)
    return found


def lagging(*lags: float) -> Tables:
    """Every stream sees the same events, each so many seconds late, and other things besides."""
    random = np.random.default_rng(2)
    count = 50 * SECONDS
    ts, x = random.integers(0, SECONDS * SECOND, count), 4000 * random.random(count)
    found = {}
    for stream, lag in enumerate(lags):
        late = ts + ((lag + 0.3 * random.standard_normal(count)) * SECOND).astype(np.int64)
        seen = x + random.normal(0, 0.1, count)
        other = random.random(count) < 0.3
        found["abc"[stream]] = table(late, x=np.where(other, 4000 * random.random(count), seen))
    return found


def between(data: Tables, begin: float, end: float) -> Tables:
    cut = {}
    for alias, rows in data.items():
        ts = rows["ts"].combine_chunks().view(pa.int64()).to_numpy()
        first, last = np.searchsorted(ts, [begin * SECOND, end * SECOND])
        cut[alias] = rows.slice(first, last - first)
    return cut


def found_later(query: wr.Query, data: Tables) -> int:
    """Results after the time that was explained from."""
    operator, edges = wr.Operator(query), np.linspace(0, SECONDS, CALLS + 1)
    counts = [operator.process(between(data, a, b)).num_rows for a, b in pairwise(edges)]
    return sum(counts[CALLS * LEARNED // SECONDS :])


EQUAL, NEAR = "a.k = b.k and b.k = c.k", "abs(a.x - b.x) < 0.5 and abs(b.x - c.x) < 0.5"


@pytest.mark.parametrize(
    ("policy", "on", "data"),
    [
        ("auto", EQUAL, lambda: keyed(0.5)),
        pytest.param("auto", EQUAL, lambda: keyed(0.5, alike=False), marks=pytest.mark.lab),
        pytest.param("frequency", EQUAL, lambda: keyed(0.5), marks=pytest.mark.lab),
        pytest.param("frequency", EQUAL, lambda: keyed(0.5, alike=False), marks=pytest.mark.lab),
        pytest.param("auto", NEAR, lambda: lagging(0, 2, 4), marks=pytest.mark.lab),
        ("age", NEAR, lambda: lagging(3, 0, 1)),
    ],
    ids=["keys", "unlike keys", "keys by frequency", "unlike keys by frequency", "lags", "lags by age"],
)
def test_what_is_explained_of_three_streams_comes_true(
    policy: str, on: str, data: Callable[[], Tables]
) -> None:
    tables = data()
    streams = {alias: wr.Stream("ts", f"{SPAN} s") for alias in tables}
    whole = sum(rows.num_rows for rows in tables.values()) * SPAN // SECONDS
    exact = found_later(wr.Query(streams, on), tables)
    query = wr.Query(streams, on, memory=f"{whole} rows", shed=policy)
    curve = wr.explain(query, sample=between(tables, 0, LEARNED)).recall
    assert curve is not None and curve.at(curve.memory[-1]) == pytest.approx(1.0)
    for part in (0.15, 0.3, 0.6):
        limit = int(part * whole)
        recall = found_later(wr.Query(streams, on, memory=f"{limit} rows", shed=policy), tables) / exact
        assert curve.at(limit) == pytest.approx(recall, abs=0.1), f"{limit} rows"


def test_of_two_streams_whole_results_tell_what_curves_do() -> None:
    """Each result needs one stored row, so what they need together is what they need one by one."""
    curves = AgeCurve((1.0, 0.0, 3.0, 1.0), 2.5), AgeCurve((4.0, 1.0), 5.0)
    ratios, shares = np.array([0.5, 2.0]), np.array([0.7, 0.3])
    known = [
        StreamModel(c, rate, 1.0, ratios, shares, np.ones(1)) for c, rate in zip(curves, (3, 5), strict=True)
    ]
    ages, scores, weights = [], [], []
    for stream, each in enumerate(known):
        for part, results in enumerate(each.curve.rates):
            for ratio, share in zip(ratios, shares, strict=True):
                ages.append([np.nan, np.nan])
                ages[-1][stream] = (part + 0.5) * each.curve.width
                scores.append([ratio, ratio])
                weights.append(each.rate * share * ratio * results)
    joint = JointForecast(known, np.array(ages), np.array(scores), np.array(weights), responds=False)
    added = AdditiveForecast(known)
    for memory, recall in zip(joint.curve("rows").memory, joint.curve("rows").recall, strict=True):
        assert added.curve("rows").at(memory) == pytest.approx(recall, abs=0.01)
        assert joint.shares(memory) == pytest.approx(added.shares(memory), abs=0.5)


def test_whole_results_are_remembered_over_a_restart() -> None:
    tables = keyed(0.5)
    streams = {alias: wr.Stream("ts", f"{SPAN} s") for alias in tables}
    operator = wr.Operator(wr.Query(streams, EQUAL, memory="5000 rows"))
    for begin in range(12):
        operator.process(between(tables, begin, begin + 1))
    before = operator.forecast()
    after = wr.Operator.restore(operator.query, operator.snapshot()).forecast()
    assert before is not None and after is not None
    assert after.recall == pytest.approx(before.recall)


def test_rows_without_a_score_are_a_group_of_their_own() -> None:
    calibration = MatchRateModel(4, 4.0, scored=True)
    scores = np.array([0.0, 5e-324, 1e-9, 1.0, 1e9])
    assert np.searchsorted(calibration.groups()[2], scores).tolist() == [0] * 5  # before there is a scale
    calibration.add_exposure(np.ones(64), np.zeros(64, np.int64), SECOND, 1.0, 1.0, 10.0)
    group = np.searchsorted(calibration.groups()[2], scores)
    assert group[0] == 0 and group[1:].tolist() == [1, 1, 12, 24]
