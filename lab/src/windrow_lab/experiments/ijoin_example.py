"""iJoin Tables 1 to 4: the worked example of s. 1.1 and 4.

A row of each stream comes every time unit, windows are 8 units, and each stream may hold two rows. In the
paper both rows of a time are stored, both streams are cut down to two rows, and only then is the join of what
is left computed: a row that is dropped on arrival, or is dropped for one that comes at the same time, finds
nothing. Windrow takes the row of R and then that of S, and each finds its matches before anything is evicted;
so it finds more. Both are reported here: results as the operator gives them, and as the paper counts them,
which are those whose rows are all held at the end of their time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import windrow as wr
from windrow.engine.operator import runner_of
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo
from windrow.model.policies.importance import Greedy, Lookup
from windrow.model.policies.importance import Size as SizePolicy
from windrow_lab.driver import drive
from windrow_lab.experiment import Claim, Row
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept
from windrow_lab.timed_rows import timed

TABLE_1 = {"r": "abcddbac", "s": "babbccda"}
IMPORTANCE = {"a": 1, "b": 2, "c": 3, "d": 4}
WITHIN = 8
MEMORY = 4
PAPER = {"EXACT": (16, 36), "FIFO": (4, 6), "SIZE": (6, 11), "GREEDY": (5, 13)}
"""Results, and their total importance."""
_BY = dict.fromkeys(TABLE_1, Lookup("value", IMPORTANCE))
POLICIES: dict[str, MemoryPolicy] = {
    "FIFO": Fifo(split="equal", monitor_fraction=0.0),
    "SIZE": SizePolicy(split="equal", monitor_fraction=0.0),
    "GREEDY": Greedy(by=_BY, split="equal", monitor_fraction=0.0),
}


def measure(scheme: str) -> list[Row]:
    exact = scheme == "EXACT"
    query = wr.Query(
        streams={alias: wr.Stream("ts", f"{WITHIN} seconds") for alias in TABLE_1},
        on="r.value = s.value",
        memory=None if exact else f"{MEMORY} rows",
        shed="fifo" if exact else POLICIES[scheme],
        evaluate="eager",
    )
    times = np.arange(1, 9)
    tables = {a: timed(times, time=times, value=list(values)) for a, values in TABLE_1.items()}
    rows, reached = [], 0
    for time, (operator, found) in enumerate(drive(query, tables, np.arange(1, 10)), start=1):
        held = _held(operator)
        results = [{alias: _name(result[alias]) for alias in TABLE_1} for result in found.to_pylist()]
        counted = [result for result in results if all(result[alias] in held[alias] for alias in TABLE_1)]
        importance = _importance(counted)
        reached += importance
        rows.append(
            {
                "time": time,
                **held,
                "results": [result["r"][0] for result in counted],
                "importance": importance,
                "so far": reached,
                "importance of the operator": _importance(results),
            }
        )
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    totals: dict[str, tuple[int, int]] = {}
    operator: dict[str, int] = {}
    for scheme in PAPER:
        own = [row for row in rows if row["scheme"] == scheme]
        totals[scheme] = (sum(len(row["results"]) for row in own), sum(row["importance"] for row in own))
        operator[scheme] = sum(row["importance of the operator"] for row in own)
    return [
        Claim(
            "I1",
            "total importance as the paper counts: Exact 36 (16 results), FIFO 6, SIZE 11, GREEDY 13",
            {scheme: list(total) for scheme, total in totals.items()},
            totals == PAPER,
        ),
        Claim(
            "I1'",
            "the operator, where rows find their matches before any is evicted, finds no less",
            operator,
            all(operator[scheme] >= total for scheme, (_, total) in PAPER.items()),
        ),
    ]


def _held(operator: wr.Operator) -> dict[str, list[str]]:
    """What each window holds."""
    join = runner_of(operator).join
    assert join is not None
    return {
        alias: [_name(row) for row in window.live_payload().to_pylist()]
        for alias, window in zip(TABLE_1, join.windows, strict=True)
    }


def _name(row: Mapping[str, Any]) -> str:
    """As in the paper: b of time 6 is b6."""
    return f"{row['value']}{row['time']}"


def _importance(results: Sequence[Mapping[str, str]]) -> int:
    return sum(IMPORTANCE[result["r"][0]] for result in results)


EXPERIMENT = swept(
    "ijoin-example",
    "A worked example: importance under four schemes",
    ("I1", "I1'"),
    measure,
    full={"scheme": tuple(PAPER)},
    quick={},
    assess=assess,
    plot=Lines("time", "so far", "scheme", ylabel="total importance so far"),
    fixed={"rows": TABLE_1, "importance": IMPORTANCE, "window": WITHIN, "memory": MEMORY},
)
