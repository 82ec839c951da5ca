"""Memory, Theorems 4.2 and 4.3: the rows that UNIFORM holds, measured and foretold.

The sampling fraction is given, the memory is not limited, and the model is known: the frequencies of the
values (Zipf, 50 values), or the age curve (n = 5). Streams as in s. 6.2; rows of the first stream are stored.

Theorem 4.3 takes every row to find its n results at the very ages the curve says. Streams that do so are one
case; on those of s. 6.2.1 the results of a row come at random, the last of them earlier than the curve says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import windrow as wr
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory import seconds
from windrow.lab.memory_samples import VALUES, WINDOW, Averaged
from windrow.lab.memory_streams import BUCKETS, SHAPES, N, age_based, evenly
from windrow.lab.memory_theory import FrequencySample
from windrow.memory_models.age_curve import AgeCurve
from windrow.memory_models.sampling import AgeSample, SampledStream
from windrow.model.policies.sampling import Uniform

SPAN = {"full": 5000.0, "quick": 2500.0}
SEEDS = {"full": 2, "quick": 1}
FRACTIONS = {"full": (0.03, 0.1, 0.3, 0.9), "quick": (0.03, 0.3)}
OFF = {"full": 0.08, "quick": 0.15}
"""By how much measured and foretold rows may differ."""
STEP = 24.7
"""Seconds between two looks at the windows: not whole, or rows that come every second would always be
equally old then."""
FREQUENCIES = {"DC": 1.0, "UC": 1.0}
EVEN = (0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1)
"""Results of a row in each second of its window, where it finds them on time."""
CASES = ("Zipf DC", "Zipf UC", "on time", *SHAPES)


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": (1, 5),
        "window": WINDOW,
        "values": VALUES,
        "Zipf": FREQUENCIES,
        "n": N,
        "seconds": SPAN[size],
        "looked at every": STEP,
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, str, int]]:
    return [(size, case, seed) for case in CASES for seed in range(SEEDS[size])]


def run(task: tuple[Size, str, int]) -> list[Row]:
    size, case, seed = task
    model: SampledStream
    if case == "on time":
        trace, curve = evenly(EVEN, int(SPAN[size])), AgeCurve(tuple(map(float, EVEN)), 1.0)
        model, known = AgeSample(curve, 1.0), Uniform(curves={"a": curve.rates}, model="age")
    elif case in SHAPES:
        trace = age_based([SHAPES[case]], SPAN[size], seed)
        curve = AgeCurve(tuple(N * SHAPES[case] / SHAPES[case].sum()), WINDOW / BUCKETS)
        model, known = AgeSample(curve, trace.rates["a"]), Uniform(curves={"a": curve.rates}, model="age")
    else:
        order = case.split()[1]
        streams = Averaged.frequency(FREQUENCIES[order], order, SPAN[size], seed)
        trace, known = streams.trace, Uniform(expected=streams.expected)
        keys, counts = np.unique(trace.tables["a"]["k"].to_numpy(), return_counts=True)
        results = np.array([streams.expected["a"][key] for key in keys.tolist()])
        model = FrequencySample(trace.rates["a"], WINDOW, counts / counts.sum(), results).rounded()
    rows = []
    for fraction in FRACTIONS[size]:
        policy = replace(known, p=fraction, reach=0.0, monitor=0.0)
        operator = wr.Operator(trace.query(8 * trace.whole, policy, seed))
        held = []
        times = {alias: seconds(table) for alias, table in trace.tables.items()}
        for until in np.arange(STEP, SPAN[size], STEP):
            ends = {alias: np.searchsorted(ts, (until - STEP, until)) for alias, ts in times.items()}
            operator.process({a: trace.tables[a].slice(i, j - i) for a, (i, j) in ends.items()})
            if until > 2 * WINDOW:
                held.append(operator.metrics().streams["a"].window_rows)
        rows.append(
            {
                "case": case,
                "fraction": fraction,
                "seed": seed,
                "measured": float(np.mean(held)) / trace.whole,
                "foretold": model.memory(fraction) / trace.whole,
                "off": OFF[size],
            }
        )
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    found = average(rows, by=("case", "fraction"), of=("measured", "foretold"))
    over = {
        case: {row["fraction"]: row["measured"] / row["foretold"] - 1 for row in found if row["case"] == case}
        for case in CASES
    }
    off, claims = rows[0]["off"], []
    for theorem, cases in (("4.2", CASES[:2]), ("4.3", CASES[2:3])):
        mine = {case: over[case] for case in cases}
        says = f"Theorem {theorem}: the rows held are as many as it says, but for a part of"
        claims.append(Claim("A8", says, mine, all(abs(x) <= off for o in mine.values() for x in o.values())))
    mine = {case: over[case] for case in SHAPES}
    says = "Theorem 4.3 where results come at random: no more rows are held than it says; by a part of"
    claims.append(Claim("A8", says, mine, all(x <= off for o in mine.values() for x in o.values())))
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    found = average(rows, by=("case", "fraction"), of=("measured", "foretold"))
    for number, case in enumerate(CASES):
        mine = [row for row in found if row["case"] == case]
        fractions = [row["fraction"] for row in mine]
        axes.plot(fractions, [100 * row["measured"] for row in mine], f"C{number}o", label=case)
        axes.plot(fractions, [100 * row["foretold"] for row in mine], f"C{number}-")
    axes.set(xscale="log", xlabel="sampling fraction", ylabel="rows held (% of the window); lines: foretold")
    axes.legend()


EXPERIMENT = Experiment(
    "memory-sample-size",
    "Rows that UNIFORM holds, measured and foretold",
    ("A8",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
