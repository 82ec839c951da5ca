"""Settings of policies that make no sense are refused as such, wherever they were written."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

import windrow as wr
from windrow.model.policies.baselines import POLICIES
from windrow.model.policies.time_policies import TIME_POLICIES

ALL = {**POLICIES, **TIME_POLICIES}
NONSENSE = ["x", None, True, float("nan"), float("inf"), -1, 0, 1.5, [], {}, (), b"x", {"z": 1}, 10**12]


def ask(policy: Any) -> wr.Query:
    limit = {"deadline": "1 s"} if policy.name in TIME_POLICIES else {"memory": "10 rows"}
    streams = {alias: wr.Stream("ts", "5 s") for alias in "ab"}
    return wr.Query(streams, "a.k = b.k", shed=policy, **limit)


@pytest.mark.filterwarnings("ignore:shed harvest")
@pytest.mark.parametrize("name", ALL)
def test_whatever_is_set_is_taken_or_refused_by_name(name: str) -> None:
    for field in fields(ALL[name]):
        for value in NONSENSE:
            try:
                ask(ALL[name](**{field.name: value}))
            except wr.QueryError as error:
                assert "shed" in str(error) and field.name in str(error), f"{field.name}={value!r}: {error}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: wr.policies.Age(buckets="many"),
            "shed age: buckets: must be a whole number of at least 1, got 'many'",
        ),
        (lambda: wr.policies.Age(buckets=10**9), "buckets: must be at most 10,000, got 1,000,000,000"),
        (lambda: wr.policies.Age(curves={"a": ()}), "curves: expected numbers from 0"),
        (lambda: wr.policies.Age(curves={"a": "12"}), "curves: expected numbers from 0"),
        (lambda: wr.policies.Age(curves={"z": (1,)}), "curves: unknown stream 'z'. Available: a, b"),
        (lambda: wr.policies.Uniform(curves=[1, 2]), "curves: expected results by alias"),
        (lambda: wr.policies.Frequency(width=1 << 40), "width: must be at most 16,777,216"),
        (
            lambda: wr.policies.Fifo(monitor="5 %"),
            "monitor: must be a fraction of the memory from 0 to 0.5, got '5 %'",
        ),
        (lambda: wr.policies.Fifo(split=["a"]), "split: must be one of together, equal, or shares"),
        (lambda: wr.policies.Fifo(split={"a": "1", "b": 2}), "split: must give each stream a share above 0"),
        (lambda: wr.policies.Uniform(expected=5), "expected: must map aliases to results, got 5"),
        (lambda: wr.policies.Harvesting(conserve="no"), "conserve: expected true or false, got 'no'"),
        (lambda: wr.policies.Harvesting(interval=True), "interval: expected a duration"),
        (lambda: wr.policies.Harvesting(buffer=True), "buffer: must be a number of rows, got True"),
    ],
)
def test_what_is_wrong_is_told(make: Any, message: str) -> None:
    with pytest.raises(wr.QueryError) as told:
        ask(make())
    assert message in str(told.value)
