"""Settings of policies that make no sense are refused as such, wherever they were written."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

import windrow as wr
from windrow.model.policies.parse import POLICIES
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
            lambda: wr.policies.Age(age_bins="many"),
            "shed age: age_bins: must be a whole number of at least 1, got 'many'",
        ),
        (lambda: wr.policies.Age(age_bins=10**9), "age_bins: must be at most 10,000, got 1,000,000,000"),
        (lambda: wr.policies.Age(age_curves={"a": ()}), "age_curves: expected numbers from 0"),
        (lambda: wr.policies.Age(age_curves={"a": "12"}), "age_curves: expected numbers from 0"),
        (lambda: wr.policies.Age(age_curves={"z": (1,)}), "age_curves: unknown stream 'z'. Available: a, b"),
        (lambda: wr.policies.Uniform(age_curves=[1, 2]), "age_curves: expected results by alias"),
        (lambda: wr.policies.Frequency(sketch_width=1 << 40), "sketch_width: must be at most 16,777,216"),
        (
            lambda: wr.policies.Fifo(monitor_fraction="5 %"),
            "monitor_fraction: must be a fraction of the memory from 0 to 0.5, got '5 %'",
        ),
        (lambda: wr.policies.Fifo(split=["a"]), "split: must be one of shared, equal, or shares"),
        (lambda: wr.policies.Fifo(split={"a": "1", "b": 2}), "split: must give each stream a share above 0"),
        (lambda: wr.policies.Uniform(expected=5), "expected: must map aliases to results, got 5"),
        (
            lambda: wr.policies.Harvesting(conserve_memory="no"),
            "conserve_memory: expected true or false, got 'no'",
        ),
        (
            lambda: wr.policies.Harvesting(adaptation_interval=True),
            "adaptation_interval: expected a duration",
        ),
        (lambda: wr.policies.Harvesting(buffer_rows=True), "buffer_rows: must be a number of rows, got True"),
    ],
)
def test_what_is_wrong_is_told(make: Any, message: str) -> None:
    with pytest.raises(wr.QueryError) as told:
        ask(make())
    assert message in str(told.value)
