"""A call under a deadline depends on its rows and on the state it starts from, not on the clock: another
attempt at a micro-batch, a speculative twin or a second read of its frame returns the same results.

Clocks here advance by chance. Of the two attempts at each call one has been restored from a snapshot, and a
random one goes on, as on Spark.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.engine.limits import deadline_controller

CALLS, SPAN = 24, 6


def rows(seed: int, aliases: str, each: int, columns: Callable[[Any, Any, str], dict[str, Any]]) -> Any:
    random, calls = np.random.default_rng(seed), []
    for second in range(CALLS):
        call = {}
        # Calls differ in size, and some results surge.
        count = int(each * random.choice([0.3, 1.0, 1.0, 1.5]))
        for alias in aliases:
            times = np.sort(random.uniform(second, second + 1, count))
            ts = pa.array((times * 1e6).astype(np.int64), pa.timestamp("us"))
            call[alias] = pa.table({"ts": ts, "id": np.arange(count) + 10_000 * second})
            for name, column in columns(random, times, alias).items():
                call[alias] = call[alias].append_column(name, pa.array(column))
        calls.append(call)
    return calls


def keys(random: Any, times: Any, alias: str) -> dict[str, Any]:
    return {"k": random.integers(0, 800, len(times))}


def skewed(random: Any, times: Any, alias: str) -> dict[str, Any]:
    return {"k": np.minimum(random.zipf(1.3, len(times)), 10**6)}


def rising(random: Any, times: Any, alias: str) -> dict[str, Any]:
    ahead = 3.0 if alias == "b" else 0.0
    return {"v": (100 * (times + ahead) + 2 * random.standard_normal(len(times))) % 5000}


JOINS: dict[str, tuple[str, str, int, Any, dict[str, Any]]] = {
    "keys": ("ab", "a.k = b.k", 300, keys, {}),
    "skewed keys": ("ab", "a.k = b.k", 200, skewed, {}),
    "three streams": ("abc", "a.k = b.k and b.k = c.k", 200, keys, {}),
    "band": ("ab", "abs(a.v - b.v) <= 1", 200, rising, {}),
    "scan with lags": ("ab", "abs(a.v - b.v) <= 0.5", 200, rising, {"access": "scan"}),
    "scans of three": ("abc", "abs(a.v - b.v) <= 2 and abs(b.v - c.v) <= 2", 60, rising, {"access": "scan"}),
    "left": ("ab", "a.k = b.k", 200, keys, {"how": "left"}),
    "memory too": ("ab", "a.k = b.k", 300, keys, {"memory": "900 rows"}),
}
POLICIES: dict[str, Any] = {
    "harvest": "auto",
    "throttle": wr.policies.Harvesting(whole_calls=False),
    "conserve": wr.policies.Harvesting(conserve_memory=True),
    "interval": wr.policies.Harvesting(adaptation_interval="2 s"),
    "drop": "drop",
}


def streams(join: str) -> dict[str, wr.Stream]:
    aliases, *_, options = JOINS[join]
    return {alias: wr.Stream("ts", f"{SPAN} s", options.get("access")) for alias in aliases}


@cache
def calls_and_results(join: str) -> list[tuple[dict[str, pa.Table], int]]:
    """The calls, each with the number of its results without limits."""
    aliases, on, each, columns, options = JOINS[join]
    exact = wr.Operator(wr.Query(streams(join), on, how=options.get("how", "inner")))
    return [(call, exact.process(call).num_rows) for call in rows(3, aliases, each, columns)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("join", JOINS)
def test_attempts_at_a_call_return_the_same_results_whatever_the_clock(
    join: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, on, *_, options = JOINS[join]
    shed = POLICIES[policy]
    limits = {name: value for name, value in options.items() if name != "access"}
    pace = 0.0
    if "memory" in limits and policy != "harvest":
        shed = ("frequency", shed)
    query = wr.Query(streams(join), on, deadline="4 ms", shed=shed, **limits)
    random = np.random.default_rng(len(join) + 7 * len(policy))
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += float(random.exponential(pace))
        return now

    monkeypatch.setattr(deadline_controller, "perf_counter", clock)
    operator, lost = wr.Operator(query), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for number, (call, results) in enumerate(calls_and_results(join)):
            pace = (0.5e-3, 3e-3, 40e-3)[number // 8 % 3]
            twin = wr.Operator.restore(query, operator.snapshot())
            first, second = operator.process(call), twin.process(call)
            same = found(first) == found(second)
            assert same, f"call {number}: {first.num_rows} and {second.num_rows} results"
            lost += results - first.num_rows
            if random.random() < 0.5:
                operator = twin
    assert lost > 0, "the deadline did not bind"


def found(table: pa.Table) -> pa.Table:
    """The results in an order of their own."""
    flat = table.flatten()
    return flat.sort_by([(name, "ascending") for name in flat.column_names])
