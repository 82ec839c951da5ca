"""Recall against memory, foretold from what was learned, and memory divided by it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from test_memory_limit import calls, two
from windrow.errors import QueryError

LEARNING = ("auto", "age", "frequency")


def ran(memory: str, policy: str, keys: int = 20, count: int = 20) -> tuple[wr.Operator, float]:
    """An operator that has run, and the recall it really had."""
    data = calls(count, rows=400, keys=keys)
    exact, limited = wr.Operator(two(None)), wr.Operator(two(memory, policy))
    true = sum(exact.process(tables).num_rows for tables in data)
    return limited, sum(limited.process(tables).num_rows for tables in data) / true


@pytest.mark.parametrize("policy", LEARNING)
def test_the_forecast_agrees_with_what_happens(policy: str) -> None:
    operator, recall = ran("400 rows", policy)
    curve = operator.forecast()
    assert curve is not None and curve.unit == "rows"
    assert curve.memory[-1] == pytest.approx(1600, rel=0.15)  # two windows of 800 rows
    assert curve.at(400) == pytest.approx(recall, abs=0.1)
    assert curve.at(curve.memory[-1]) == pytest.approx(1.0)


def test_no_forecast_without_a_model_or_a_limit() -> None:
    operator, _ = ran("400 rows", "random", count=2)
    assert operator.forecast() is None
    exact = wr.Operator(two(None))
    exact.process(calls(1)[0])
    assert exact.forecast() is None
    assert wr.Operator(two("400 rows")).forecast() is None


def test_memory_goes_where_it_is_needed() -> None:
    """Few keys are served by few rows; the join with many keys gets more, and both do equally well."""
    skewed, even = ran("400 rows", "frequency", keys=100)[0], ran("400 rows", "age", keys=100)[0]
    found = wr.allocate({"skewed": skewed, "even": even}, "800 rows")
    assert found.memory["even"].size > found.memory["skewed"].size
    assert found.recall["even"] == pytest.approx(found.recall["skewed"], abs=0.02)
    assert found.memory["even"].size + found.memory["skewed"].size <= 800
    favoured = wr.allocate([skewed, even], "800 rows", weights=[2.0, 1.0])
    assert favoured.recall["0"] > 1.5 * favoured.recall["1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, "9 rows"), "expected one or more joins"),
        (({"x": wr.RecallCurve(np.array([1.0]), np.array([1.0]), "rows")}, "9 MiB"), "counts rows"),
        (({"x": wr.Operator(two("400 rows", "random"))}, "9 rows"), "'x' has no forecast"),
        (({"x": wr.RecallCurve(np.array([1.0]), np.array([1.0]), "rows")}, "9 rows", {"y": 1.0}), "weight"),
    ],
)
def test_what_cannot_be_divided(arguments: tuple, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        wr.allocate(*arguments)


def test_explain_tells_what_memory_buys() -> None:
    schema = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "p": pa.string()})
    text = str(
        wr.explain(
            two("100 rows"),
            {"a": schema, "b": schema},
            rates={"a": 50.0, "b": 50.0},
            age_curves={"a": (1, 2, 8)},
        )
    )
    assert "95 % needs" in text and "100 rows give about" in text
    assert "Memory for an exact answer: about" in text
    operator, _ = ran("400 rows", "auto", count=4)
    assert "95 % needs" in str(wr.explain(operator))
    with pytest.raises(QueryError, match="process some rows first"):
        wr.explain(wr.Operator(two("400 rows")))
