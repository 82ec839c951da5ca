"""iJoin Tables 1 to 4: the worked example of s. 1.1 and 4.

A row of each stream comes every time unit, windows are 8 units, and each stream may hold two rows. In the
paper both rows of a time are stored, both streams are cut down to two rows, and only then is the join of what
is left computed: a row that is dropped on arrival, or is dropped for one that comes at the same time, finds
nothing. Windrow takes the row of R and then that of S, and each finds its matches before anything goes; so
it finds more. Both are reported here: results as the operator gives them, and as the paper counts them, which
are those whose rows are all held at the end of their time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from matplotlib.figure import Figure

import windrow as wr
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.ijoin import COLOURS
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo
from windrow.model.policies.importance import Greedy, Lookup
from windrow.model.policies.importance import Size as SizePolicy
from windrow.model.units import SECOND

TABLE_1 = {"r": "abcddbac", "s": "babbccda"}
IMPORTANCE = {"a": 1, "b": 2, "c": 3, "d": 4}
WITHIN = 8
MEMORY = 4
PAPER = {"EXACT": (16, 36), "FIFO": (4, 6), "SIZE": (6, 11), "GREEDY": (5, 13)}
"""Results, and their total importance."""
_BY = dict.fromkeys(TABLE_1, Lookup("value", IMPORTANCE))
POLICIES: dict[str, MemoryPolicy] = {
    "FIFO": Fifo(split="equal", monitor=0.0),
    "SIZE": SizePolicy(split="equal", monitor=0.0),
    "GREEDY": Greedy(by=_BY, split="equal", monitor=0.0),
}


def parameters(size: Size) -> Mapping[str, Any]:
    return {"rows": TABLE_1, "importance": IMPORTANCE, "window": WITHIN, "memory": MEMORY}


def tasks(size: Size) -> Sequence[str]:
    return list(PAPER)


def run(scheme: str) -> list[Row]:
    exact = scheme == "EXACT"
    query = wr.Query(
        streams={alias: wr.Stream("ts", f"{WITHIN} seconds") for alias in TABLE_1},
        on="r.value = s.value",
        memory=None if exact else f"{MEMORY} rows",
        shed="fifo" if exact else POLICIES[scheme],
        evaluate="eager",
    )
    operator = wr.Operator(query)
    rows = []
    for time in range(1, len(TABLE_1["r"]) + 1):
        found = operator.process({alias: _row(values[time - 1], time) for alias, values in TABLE_1.items()})
        held = _held(operator)
        results = [{alias: _name(result[alias]) for alias in TABLE_1} for result in found.to_pylist()]
        counted = [result for result in results if all(result[alias] in held[alias] for alias in TABLE_1)]
        rows.append(
            {
                "scheme": scheme,
                "time": time,
                **held,
                "results": [_value(result) for result in counted],
                "importance": sum(IMPORTANCE[_value(result)] for result in counted),
                "results of the operator": [_value(result) for result in results],
                "importance of the operator": sum(IMPORTANCE[_value(result)] for result in results),
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
            "results and total importance as the paper counts: Exact 16 with 36, FIFO 6, SIZE 11, GREEDY 13",
            {scheme: list(total) for scheme, total in totals.items()},
            totals == PAPER,
        ),
        Claim(
            "I1",
            "the operator, where rows find their matches before any is dropped, finds no less",
            operator,
            all(operator[scheme] >= total for scheme, (_, total) in PAPER.items()),
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for scheme in PAPER:
        own = [row for row in rows if row["scheme"] == scheme]
        reached = [sum(row["importance"] for row in own[: k + 1]) for k in range(len(own))]
        axes.step([row["time"] for row in own], reached, where="post", color=COLOURS[scheme], label=scheme)
    axes.set(xlabel="time", ylabel="total importance so far")
    axes.legend()


def _row(value: str, time: int) -> pa.Table:
    return pa.table({"ts": pa.array([time * SECOND], pa.timestamp("us")), "time": [time], "value": [value]})


def _held(operator: wr.Operator) -> dict[str, list[str]]:
    """What each window holds."""
    join = operator.runner.join
    assert join is not None
    return {
        alias: [_name(row) for row in window.live_payload().to_pylist()]
        for alias, window in zip(TABLE_1, join.windows, strict=True)
    }


def _name(row: Mapping[str, Any]) -> str:
    """As in the paper: b of time 6 is b6."""
    return f"{row['value']}{row['time']}"


def _value(result: Mapping[str, str]) -> str:
    return result["r"][0]


EXPERIMENT = Experiment(
    "ijoin-example",
    "A worked example: importance under four schemes",
    ("I1",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
