"""Snapshots that an earlier version of Windrow took are still read.

`tests/snapshots` holds, for each of `JOINS`, the snapshot after its first half and, in `quality.json`, what
the operator reported then.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from results import ids

SNAPSHOTS = Path(__file__).parent / "snapshots"
CALLS = 16


def query(within: str, on: str = "a.k = b.k", **more: Any) -> wr.Query:
    return wr.Query({alias: wr.Stream("ts", within) for alias in "ab"}, on, **more)


EXACT = {
    "rows per key": query("4 rows per key", late="300 ms"),
    "rows per text key": query("3 rows per key", "a.k = b.k and a.note = b.note", late="300 ms"),
    "rows": query("30 rows"),
    "left": query("5 s", "a.k = b.k and a.v < b.v", how="left"),
}
LIMITED = {
    "evict": query("5 s", memory="120 rows", shed=wr.policies.Frequency(monitor_fraction=0.2)),
    "evict rows": query("40 rows per key", memory="120 rows", shed=wr.policies.Age(monitor_fraction=0.2)),
    "auto": query("5 s", memory="120 rows", shed=wr.policies.Auto(monitor_fraction=0.2)),
    "sample": query("5 s", memory="120 rows", shed=wr.policies.Uniform()),
    "cluster": query("5 s", memory="120 rows", shed=wr.policies.Cluster()),
    "pps": query("5 s", memory="120 rows", shed=wr.policies.PpsCluster()),
    "given": query(
        "5 s",
        memory="120 rows",
        shed=wr.policies.PpsCluster(expected={a: {k: 3.0 + k for k in range(12)} for a in "ab"}),
    ),
    "importance": query("5 s", memory="120 rows", shed=wr.policies.Importance(by={"a": "a.v"})),
    "harvest": query("5 s", deadline="3 ms", shed=wr.policies.Harvesting(whole_calls=False)),
    "whole calls": query("5 s", deadline="1 ms"),
    "drop": query("5 s", deadline="2 ms", shed="drop"),
}
JOINS = EXACT | LIMITED


def calls() -> list[dict[str, pa.Table]]:
    random, found = np.random.default_rng(16), []
    for second in range(CALLS):
        call = {}
        for alias in "ab":
            ts = (np.sort(random.uniform(second, second + 1, 40)) * 1e6).astype(np.int64)
            key = (12 * random.random(40) ** 2).astype(np.int64)
            columns = {"id": np.arange(40) + 40 * second, "ts": pa.array(ts, pa.timestamp("us")), "k": key}
            call[alias] = pa.table(columns | {"v": random.random(40), "note": [f"key {k % 5}" for k in key]})
        found.append(call)
    return found


def clock() -> Any:
    """Time passes when it is asked for, so that calls are short of it."""
    reads = iter(range(10**9))
    return lambda: next(reads) * 0.4e-3


def played(operator: wr.Operator, some: list[dict[str, pa.Table]]) -> list[pa.Table]:
    return [operator.process(call) for call in some]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", JOINS)
def test_a_snapshot_of_an_earlier_version_is_read(name: str) -> None:
    half = CALLS // 2
    snapshot = (SNAPSHOTS / f"{name}.bin").read_bytes()
    restored = wr.Operator.restore(JOINS[name], snapshot, clock=clock())
    known = json.loads((SNAPSHOTS / "quality.json").read_text())[name]
    assert json.loads(json.dumps(asdict(restored.metrics().quality))) == known
    found = played(restored, calls()[half:])
    whole = wr.Operator(EXACT.get(name) or query(str(LIMITED[name].streams["a"].within)))
    exact = played(whole, calls())[half:]
    for mine, theirs in zip(found, exact, strict=True):
        assert not ids(mine.select(["a", "b"])) - ids(theirs)
        assert name in LIMITED or ids(mine) == ids(theirs)
    assert sum(table.num_rows for table in found)
