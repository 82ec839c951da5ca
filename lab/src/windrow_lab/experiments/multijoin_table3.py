"""MultiJoin Table 3: the worked example of s. 3.1.

Windows of 100 seconds hold the rows of Table 2, and the join is evaluated at time 210 for the two new rows
of S3. NAIVE MULTI-WAY NLJ takes the windows as they are: for each row of S1 it joins S2 with the new rows,
whatever their times. It is run here beside the operator, which must return only what is correct, whatever its
algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow_lab.driver import run_whole
from windrow_lab.experiment import Claim, Row
from windrow_lab.plots import Bars
from windrow_lab.sweep import swept
from windrow_lab.timed_rows import since_start, timed

TABLE_2 = {"s1": (90, 100), "s2": (150, 180), "s3": (195, 205)}
CORRECT = [(100, 150, 195), (100, 180, 195)]
NAIVE = [(i, j, k) for i in (90, 100) for j in (150, 180) for k in (195, 205)]
"""The upper half of Table 3."""
WITHIN = 100


def measure(algorithm: str, evaluated: str) -> Row:
    tables = {alias: timed(np.array(times), attr=[1] * len(times)) for alias, times in TABLE_2.items()}
    query = wr.Query(
        streams={alias: wr.Stream("ts", timedelta(seconds=WITHIN)) for alias in TABLE_2},
        on="s1.attr = s2.attr and s2.attr = s3.attr",
        evaluate=evaluated,
        expire=evaluated,
        order=("s1", "s2", "s3"),
        algorithm=algorithm,
    )
    found = run_whole(query, tables)[1].combine_chunks()
    times = [since_start(found[alias].combine_chunks().field("ts")).round().astype(int) for alias in TABLE_2]
    results = sorted(zip(*(each.tolist() for each in times), strict=True))
    naive = naive_multi_way(*tables.values())
    return {"results": results, "naive": naive, "count": len(results), "naive count": len(naive)}


def naive_multi_way(s1: pa.Table, s2: pa.Table, s3: pa.Table) -> list[tuple[int, int, int]]:
    """Times of what NAIVE MULTI-WAY NLJ returns for new rows of S3, with the order S1, S2, S3 (s. 3.1)."""
    rows = [
        [(round(time), attr) for time, attr in zip(since_start(t["ts"]), t["attr"].to_pylist(), strict=True)]
        for t in (s1, s2, s3)
    ]
    return [
        (i, j, k)
        for i, first in rows[0]
        for j, second in rows[1]
        if first == second
        for k, third in rows[2]
        if second == third
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    returned, naive = ([sorted(map(tuple, row[name])) for row in rows] for name in ("results", "naive"))
    wrong = sorted(set(naive[0]) - set(returned[0]))
    return [
        Claim(
            "M1",
            "the worked example returns exactly the two correct results, under every algorithm and pace",
            {"results": returned[0], "runs that agree": f"{returned.count(CORRECT)} of {len(rows)}"},
            all(each == CORRECT for each in returned),
        ),
        Claim(
            "M1",
            "the naive algorithm returns the eight of Table 3, six of them wrong",
            {"wrong": wrong},
            all(each == NAIVE for each in naive) and len(wrong) == 6,
        ),
    ]


EXPERIMENT = swept(
    "multijoin-table3",
    "A worked example: only rows that were still there join",
    ("M1",),
    measure,
    full={"algorithm": ("eager", "naive", "general"), "evaluated": ("eager", "every 20 seconds")},
    quick={},
    assess=assess,
    plot=Bars("algorithm", "count", "evaluated", ylabel="results (the naive algorithm as it stands: 8)"),
    fixed={"windows (seconds)": WITHIN, "times of the rows": TABLE_2},
)
