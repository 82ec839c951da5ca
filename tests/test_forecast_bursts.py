"""Forecasts of streams that come in bursts: a limit binds in peaks, and most results come in peaks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.eviction.recall_forecast import Measured
from windrow.eviction.window_contents import WindowContentsOverTime
from windrow.model.stateful import decode, encode

SPAN, SECONDS, CALLS = 10, 240, 40


def bursts(seed: int = 0) -> dict[str, pa.Table]:
    """A window in six brings 20 times as many rows as the others."""
    rng, tables = np.random.default_rng(seed), {}
    for alias in "ab":
        quiet, busy = rng.uniform(0, SECONDS, 400), rng.uniform(0, SECONDS, 8000)
        times = np.sort(np.concatenate([quiet, busy[busy % (6 * SPAN) < SPAN]]))
        keys = (60 * rng.random(len(times)) ** 2).astype(np.int64)
        at = pa.array((times * 1e6).astype(np.int64), pa.timestamp("us"))
        tables[alias] = pa.table({"ts": at, "k": keys})
    return tables


def query(**limits: object) -> wr.Query:
    streams = {alias: wr.Stream("ts", f"{SPAN} s") for alias in "ab"}
    return wr.Query(streams, on="a.k = b.k", **limits)


def run(asked: wr.Query, tables: dict[str, pa.Table]) -> tuple[wr.Operator, int]:
    operator, found = wr.Operator(asked, {a: t.schema for a, t in tables.items()}), 0
    times = {a: t["ts"].cast(pa.int64()).to_numpy() for a, t in tables.items()}
    at = dict.fromkeys(tables, 0)
    for edge in np.linspace(0, SECONDS * 1e6, CALLS + 1)[1:]:
        upto = {a: int(np.searchsorted(t, edge)) for a, t in times.items()}
        found += operator.process({a: t.slice(at[a], upto[a] - at[a]) for a, t in tables.items()}).num_rows
        at = upto
    return operator, found


@pytest.mark.parametrize(
    "policy", ["auto", *(pytest.param(p, marks=pytest.mark.lab) for p in ("age", "frequency"))]
)
def test_what_is_foretold_of_bursts_comes_true(policy: str) -> None:
    tables = bursts()
    exact = run(query(), tables)[1]
    times = np.sort(np.concatenate([t["ts"].cast(pa.int64()).to_numpy() for t in tables.values()]))
    most = int((np.arange(len(times)) + 1 - np.searchsorted(times, times - SPAN * 10**6)).max())
    explained = wr.explain(query(memory=f"{most // 4} rows", shed=policy), sample=tables)
    assert explained.recall is not None and explained.recall.memory[-1] == pytest.approx(most, rel=0.15)
    for part in (0.1, 0.25, 0.5):
        limit = round(part * most)
        operator, found = run(query(memory=f"{limit} rows", shed=policy), tables)
        curve = operator.forecast()
        assert curve is not None
        assert explained.recall.at(limit) == pytest.approx(found / exact, abs=0.1)
        # What a running operator foretells of its own limit is what it measures, where that is known.
        told = operator.metrics()
        if told.recall_high - told.recall_low < 0.5:
            assert curve.at(limit) == pytest.approx(told.recall, abs=0.02)
    # A burst fills the windows for two of six windows; the mean of the rates would never reach the limit.
    assert explained.binds is not None and 0.1 < explained.binds < 0.5
    assert "the limit binds" in str(explained)


def test_contents_are_those_of_whole_windows() -> None:
    """Two rows a second for 40 s, then none: a window of 10 s holds 20, and is empty 10 s later."""
    contents = WindowContentsOverTime(1)
    for second in range(80):
        contents.on_arrival(0, 2 if second < 40 else 0)
        contents.end_sub_batch(1.0, [10.0], 5.0 if second < 40 else 0.0, 8.0)
    known = contents.known()
    assert known is not None and contents.limit == 8.0
    assert known.rows[-1] == pytest.approx(20, rel=0.15)
    assert known.results[known.rows > 15].sum() == pytest.approx(1.0)
    assert known.binding_fraction(15) == pytest.approx(34 / 71, abs=0.08)
    again = WindowContentsOverTime(1)
    arrays: list[np.ndarray] = []
    decode(encode(contents, arrays), arrays, again)
    other = again.known()
    assert other is not None and other.time.tolist() == known.time.tolist()


def test_a_curve_goes_through_what_was_measured() -> None:
    curve = wr.RecallCurve(np.array([0.0, 50.0, 100.0]), np.array([0.0, 0.9, 1.0]), "rows")
    moved = curve.through({25.0: 0.2, 50.0: 0.4})
    assert (moved.at(25), moved.at(50), moved.at(0), moved.at(100)) == (0.2, 0.4, 0.0, 1.0)
    assert moved.at(40) <= 0.4 and 0.4 < moved.at(75) < 1
    assert curve.through({}) is curve and curve.through({200.0: 0.5}) is curve


def test_a_wide_interval_corrects_only_a_curve_outside_of_it() -> None:
    curve = wr.RecallCurve(np.array([0.0, 50.0, 100.0]), np.array([0.0, 0.9, 1.0]), "rows")
    assert not Measured(50.0, 0.7, 0.3, 0.95).corrects(curve)
    assert Measured(50.0, 0.7, 0.3, 0.85).corrects(curve)
    assert Measured(50.0, 0.88, 0.8, 0.95).corrects(curve)
    assert not Measured(50.0, float("nan"), 0.0, 1.0).corrects(curve)
