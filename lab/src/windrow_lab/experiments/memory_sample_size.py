"""Memory, Theorems 4.2 and 4.3: the rows that UNIFORM holds, measured and forecast.

The sampling fraction is given, the memory is not limited, and the model is known: the frequencies of the
values (Zipf, 50 values), or the age curve (n = 5). Streams as in s. 6.2; rows of the first stream are stored.

Theorem 4.3 takes every row to find its n results at the very ages the curve says. Streams that do so are one
case; on those of s. 6.2.1 the results of a row come at random, the last of them earlier than the curve says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from windrow.memory_models.age_curve import AgeCurve
from windrow.model.policies.sampling import Uniform
from windrow_lab.averages import pivot
from windrow_lab.driver import drive
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory import JoinWorkload
from windrow_lab.memory_samples import VALUES, WINDOW, Averaged
from windrow_lab.memory_streams import BUCKETS, SHAPES, N, age_based, evenly
from windrow_lab.memory_theory import AgeSample, FrequencySample
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

AGREES = 0.05
"""By how much measured and forecast rows may differ, as a part of these."""
STEP = 24.7
"""Seconds between two looks at the windows: not whole, or rows that come every second would always be
equally old then."""
EVEN = (0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1)
"""Results of a row in each second of its window, where it finds them on time."""
FREQUENCY, ON_TIME = ("Zipf DC", "Zipf UC"), "on time"


def measure(case: str, fraction: float, span: float, seed: int) -> Row:
    trace, model, known = _case(case, span, seed)
    policy = replace(known, p=fraction, reach=0.0, monitor_fraction=0.0)
    bounds = np.arange(0.0, span, STEP)
    driven = drive(trace.query(8 * trace.whole, policy, seed), trace.tables, bounds)
    held = [
        operator.metrics().streams["a"].window_rows
        for until, (operator, _) in zip(bounds[1:], driven, strict=True)
        if until > 2 * WINDOW
    ]
    return {"measured": float(np.mean(held)) / trace.whole, "forecast": model.memory(fraction) / trace.whole}


def _case(case: str, span: float, seed: int) -> tuple[JoinWorkload, AgeSample | FrequencySample, Uniform]:
    if case in FREQUENCY:
        streams = Averaged.frequency(1.0, case.split()[1], span, seed)
        trace = streams.trace
        keys, counts = np.unique(trace.tables["a"]["k"].to_numpy(), return_counts=True)
        results = np.array([streams.expected["a"][key] for key in keys.tolist()])
        model = FrequencySample(trace.rates["a"], WINDOW, counts / counts.sum(), results).rounded()
        return trace, model, Uniform(expected=streams.expected)
    if case == ON_TIME:
        trace, curve = evenly(EVEN, int(span)), AgeCurve(tuple(map(float, EVEN)), 1.0)
        return trace, AgeSample(curve, 1.0), Uniform(age_curves={"a": curve.rates}, model="age")
    trace = age_based([SHAPES[case]], span, seed)
    curve = AgeCurve(tuple(N * SHAPES[case] / SHAPES[case].sum()), WINDOW / BUCKETS)
    return trace, AgeSample(curve, trace.rates["a"]), Uniform(age_curves={"a": curve.rates}, model="age")


def assess(rows: Sequence[Row]) -> list[Claim]:
    measured, forecast = (pivot(rows, "case", "fraction", of=name) for name in ("measured", "forecast"))
    over = {
        case: {f: rows / forecast[case][f] - 1 for f, rows in found.items()}
        for case, found in measured.items()
    }
    claims = []
    for case, found in over.items():
        theorem = "4.2" if case in FREQUENCY else "4.3"
        says = (
            f"Theorem {theorem}, {case}: the rows held agree with it (within {AGREES:.0%}); off by a part of"
        )
        claims.append(Claim("A8", says, found, max(map(abs, found.values())) <= AGREES))
    most = max(each for found in over.values() for each in found.values())
    says = f"no more rows are held than the theorems say (by {AGREES:.0%}), whatever the streams"
    return [*claims, Claim("A8'", says, most, most <= AGREES)]


EXPERIMENT = swept(
    "memory-sample-size",
    "Rows that UNIFORM holds, measured and forecast",
    ("A8", "A8'"),
    measure,
    full={
        "case": (*FREQUENCY, ON_TIME, *SHAPES),
        "fraction": (0.03, 0.1, 0.3, 0.9),
        "span": 5000.0,
        "seed": range(2),
    },
    quick={"fraction": (0.03, 0.3, 0.9), "span": 2500.0, "seed": 0},
    assess=assess,
    plot=Lines("fraction", ("measured", "forecast"), panel="case", ylabel="rows held, of the window"),
    fixed={"rates": (1, 5), "window": WINDOW, "values": VALUES, "n": N, "looked at every": STEP},
)
