"""MultiJoin Table 3: the worked example of s. 3.1.

Windows of 100 seconds hold the rows of Table 2, and the join is evaluated at time 210 for the two new rows
of S3. An evaluation that takes windows as they stand returns eight results; six of them pair rows that had
expired when the newest of them came. The operator must return the other two, whatever its algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pyarrow as pa
from matplotlib.figure import Figure

import windrow as wr
from windrow.lab.experiment import Claim, Experiment, Row, Size

TABLE_2 = {"s1": (90, 100), "s2": (150, 180), "s3": (195, 205)}
CORRECT = {(100, 150, 195), (100, 180, 195)}
EPOCH = datetime(1970, 1, 1)
WITHIN = 100


def parameters(size: Size) -> Mapping[str, Any]:
    return {"windows (seconds)": WITHIN, "times of the rows": {k: list(v) for k, v in TABLE_2.items()}}


def tasks(size: Size) -> Sequence[tuple[str, str]]:
    return [
        (algorithm, pace)
        for algorithm in ("eager", "naive", "general")
        for pace in ("eager", "every 20 seconds")
    ]


def run(task: tuple[str, str]) -> list[Row]:
    algorithm, pace = task
    query = wr.Query(
        streams={alias: wr.Stream("ts", timedelta(seconds=WITHIN)) for alias in TABLE_2},
        on="s1.attr = s2.attr and s2.attr = s3.attr",
        evaluate=pace,
        expire=pace,
        order=("s1", "s2", "s3"),
        algorithm=algorithm,
    )
    found = wr.Operator(query).process({alias: _table(times) for alias, times in TABLE_2.items()})
    correct = [[_seconds(result[alias]["ts"]) for alias in TABLE_2] for result in found.to_pylist()]
    return [
        {
            "algorithm": algorithm,
            "evaluated": pace,
            "results": sorted(correct),
            "windows as they stand": sorted(map(list, product(*TABLE_2.values()))),
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    returned = [sorted(map(tuple, row["results"])) for row in rows]
    taken_as_is = {tuple(each) for row in rows for each in row["windows as they stand"]}
    return [
        Claim(
            "M1",
            "the worked example returns exactly the two correct results, under every algorithm and pace",
            {"results": returned[0], "runs that agree": f"{returned.count(sorted(CORRECT))} of {len(rows)}"},
            all(each == sorted(CORRECT) for each in returned),
        ),
        Claim(
            "M1",
            "windows taken as they stand would return eight, six of them wrong",
            {"results": len(taken_as_is), "wrong": len(taken_as_is - set(returned[0]))},
            len(taken_as_is) == 8 and len(taken_as_is - set(returned[0])) == 6,
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    correct = {tuple(each) for each in rows[0]["results"]}
    shown = sorted(map(tuple, rows[0]["windows as they stand"]), key=lambda each: (each not in correct, each))
    for place, each in enumerate(shown):
        colour = "tab:green" if each in correct else "tab:red"
        axes.plot(each, [place] * 3, "o-", color=colour)
        axes.axvspan(each[2] - WITHIN, each[2], (place + 0.3) / 8, (place + 0.7) / 8, color=colour, alpha=0.1)
    axes.set(
        ylim=(-0.5, 7.5), xlabel="event time (s); shaded: 100 s before the newest row", ylabel="combination"
    )
    axes.set_yticks(range(8), ["correct" if each in correct else "expired" for each in shown])


def _table(times: Sequence[int]) -> pa.Table:
    instants = [EPOCH + timedelta(seconds=t) for t in times]
    return pa.table({"ts": pa.array(instants, pa.timestamp("us")), "attr": [1] * len(times)})


def _seconds(instant: datetime) -> int:
    return round((instant - EPOCH).total_seconds())


EXPERIMENT = Experiment(
    "multijoin-table3",
    "A worked example: only rows that were still there join",
    ("M1",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
