"""What an operator tells of what it learned: right, small, and without changing anything by telling."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from page_runs import limited
from windrow.model.learned_models import MOST_SPANS, Histogram

SECOND = 1_000_000
TIMES = pa.timestamp("us")


def lagging(batch: int, lag: float, rate: int = 200) -> dict[str, pa.Table]:
    """Two streams of ten seconds a batch: each key comes on b `lag` seconds after it came on a."""
    at = batch * 10 + np.arange(rate) * 10 / rate
    keys = batch * rate + np.arange(rate)
    return {
        alias: pa.table({"at": pa.array(((at + late) * SECOND).astype(np.int64), TIMES), "k": keys})
        for alias, late in (("a", 0.0), ("b", lag))
    }


@pytest.mark.parametrize("policy", ["age", "auto", wr.policies.Uniform(model="age")], ids=str)
def test_age_curves_have_their_results_where_the_streams_have_their_lag(policy):
    streams = {alias: wr.Stream("at", "20 seconds") for alias in "ab"}
    operator = wr.Operator(wr.Query(streams, "a.k = b.k", memory="300 rows", shed=policy))
    for batch in range(12):
        operator.process(lagging(batch, 3.0))
    curve = operator.learned_models().ages["a"]
    peak = curve.low + (int(np.argmax(curve.values)) + 0.5) * curve.width
    assert abs(peak - 3.0) <= 2 * curve.width
    assert len(curve.values) <= MOST_SPANS and curve.low + curve.width * len(curve.values) >= 20


def test_lags_and_harvest_are_told_under_a_deadline():
    run = limited()
    for _ in range(12):
        told = run.next()["joins"]["sensors"]["partitions"][0]["learned_models"]
    lags = {(g["of"], g["behind"]): g for g in told["lags"]}
    assert set(lags) == {("b", "a"), ("c", "a"), ("c", "b")}
    peak = lags["b", "a"]["low"] + (np.argmax(lags["b", "a"]["values"]) + 0.5) * lags["b", "a"]["width"]
    assert abs(peak - 4.0) <= 1.0
    plan = told["harvest"]
    assert 0 < plan["throttle"] < 1 and len(plan["directions"]) == 3
    for direction in plan["directions"]:
        for hop in direction["hops"]:
            looked_at = sum(high - low for low, high in hop["pieces"])
            assert looked_at == pytest.approx(hop["fraction"] * plan["counts"][hop["stream"]], abs=0.01)
    assert told["plan"].startswith("Plan for 3 streams") and told["windows"]["c"] == "20 seconds"
    assert len(json.dumps(told)) < 8_000


def test_without_limits_there_is_just_the_plan():
    streams = {alias: wr.Stream("at", "20 seconds") for alias in "ab"}
    operator = wr.Operator(wr.Query(streams, "a.k = b.k"))
    assert operator.learned_models().plan is None
    operator.process(lagging(0, 1.0))
    told = operator.learned_models()
    assert (dict(told.ages), told.lags, told.harvest, told.shed, told.memory) == ({}, (), None, "", None)
    assert told.plan is not None and "when a arrives" in told.plan


@pytest.mark.parametrize("policy", ["age", "auto", "frequency", wr.policies.Uniform(model="age")], ids=str)
def test_telling_changes_nothing(policy):
    streams = {alias: wr.Stream("at", "20 seconds") for alias in "ab"}
    query = wr.Query(streams, "a.k = b.k", memory="300 rows", shed=policy)
    asked, left = wr.Operator(query), wr.Operator(query)
    for batch in range(6):
        for operator in (asked, left):
            operator.process(lagging(batch, 3.0))
            if operator is asked:
                operator.learned_models().to_dict()
    assert asked.snapshot() == left.snapshot()


def test_spans_are_taken_together_until_there_are_few():
    values = [float(k) for k in range(150)]
    counts, rates = (Histogram.of(-5.0, 0.1, values, averaged) for averaged in (False, True))
    assert len(counts.values) == len(rates.values) == 50 and counts.width == pytest.approx(0.3)
    assert sum(counts.values) == sum(values) and rates.values[0] == 1.0
    few = Histogram.of(0.0, 1.0, [1.0, 2.0], averaged=False)
    assert (few.low, few.width, few.values) == (0.0, 1.0, (1.0, 2.0))
