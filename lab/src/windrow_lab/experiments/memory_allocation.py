"""Memory Fig. 10 and 11: memory for two joins, divided so that the worse of them is as good as it can be.

Streams as in s. 6.2. Of the frequency model (20 % of the memory that both need, shed by PROB): the same
values are frequent on both streams of the one join (DC) and opposite ones on those of the other (IC), with
Zipf's exponent swept. Of the age model (50 %, shed by AGE): the one join's curve rises with a power of the
age (INC), the other's falls with it (DEC), the power swept. ALLOC divides by the models' recalls, PROP by
what each join needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from windrow.memory_models.age_curve import AgeCurve
from windrow.memory_models.allocation import RecallCurve, allocate_max_min
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.learned import Age, Frequency
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.frequency_model import FrequencyModel
from windrow_lab.memory import JoinWorkload
from windrow_lab.memory_streams import BUCKETS, N, age_based, falling, frequency_based, rising, zipf
from windrow_lab.memory_theory import proportional, recall_of_ages, recall_of_frequencies
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

WINDOW, VALUES = 500.0, 50
EXPONENTS = {"frequency": (0.5, 1.0, 1.5, 1.75, 2.0), "age": (0.0, 1.0, 2.0, 3.0, 4.0)}
MEMORY = {"frequency": 0.2, "age": 0.5}
JOINS = {"frequency": ("DC", "IC"), "age": ("INC", "DEC")}
SAME = 0.02
"""Recalls that differ by less are the same: what two runs differ by."""
NEARLY, RISES = 0.15, 0.1
Join = tuple[JoinWorkload, RecallCurve, MemoryPolicy]


def measure(model: str, exponent: float, seed: int, span: float, pace: str) -> list[Row]:
    make = _frequency if model == "frequency" else _age
    joins = [make(name, exponent, span, seed) for name in JOINS[model]]
    curves = [curve for _, curve, _ in joins]
    memory = MEMORY[model] * sum(float(curve.memory[-1]) for curve in curves)
    rows = []
    for scheme, divided in (
        ("ALLOC", allocate_max_min(curves, memory)),
        ("PROP", proportional(curves, memory)),
    ):
        found = [
            trace.under(given, policy, seed, pace).recall(trace.exact, 2 * WINDOW)
            for (trace, _, policy), given in zip(joins, divided.memory, strict=True)
        ]
        given = {"forecast": divided.worst, "first": divided.memory[0] / memory}
        rows.append({"scheme": scheme, "worst": min(found), "recalls": found, **given})
    return rows


def _frequency(name: str, skew: float, span: float, seed: int) -> Join:
    trace = frequency_based(skew, name, span, seed)
    share = zipf(VALUES, skew)
    shares = np.stack([share, share if name == "DC" else share[::-1]])
    model = FrequencyModel(shares, [trace.rates[a] for a in "ab"], [WINDOW, 1e-6])
    return trace, recall_of_frequencies(model), Frequency(monitor_fraction=0)


def _age(name: str, power: float, span: float, seed: int) -> Join:
    shape = rising(power) if name == "INC" else falling(power)
    trace = age_based([shape], span, seed)
    curve = AgeCurve(tuple(N * shape / shape.sum()), WINDOW / BUCKETS)
    policy = Age(age_curves={"a": curve.rates}, monitor_fraction=0)
    return trace, recall_of_ages([curve], [trace.rates["a"]]), policy


def assess(rows: Sequence[Row]) -> list[Claim]:
    worst = pivot(rows, "model", "scheme", "exponent", of="worst")
    claims = []
    for model, by in worst.items():
        ahead = {s: each - by["PROP"][s] for s, each in by["ALLOC"].items()}
        says = f"{model}: the worse recall under ALLOC is never below that under PROP; ahead by"
        claims.append(Claim("A7", says, ahead, min(ahead.values()) >= 0))
    frequency, age = worst["frequency"], worst["age"]
    return [
        *claims,
        Claim(
            "A7",
            f"Fig. 10: as the skew grows ALLOC is nearly constant (within {NEARLY}), PROP falls",
            frequency,
            _range(frequency["ALLOC"]) < NEARLY
            and frequency["PROP"][max(EXPONENTS["frequency"])] < min(frequency["PROP"].values()) + SAME
            and _range(frequency["PROP"]) > NEARLY,
        ),
        Claim(
            "A7",
            "Fig. 11: with the exponent ALLOC rises, PROP stays flat",
            age,
            age["ALLOC"][max(age["ALLOC"])] - age["ALLOC"][min(age["ALLOC"])] > RISES
            and _range(age["PROP"]) < 2 * SAME,
        ),
    ]


def _range(values: Mapping[float, float]) -> float:
    return max(values.values()) - min(values.values())


EXPERIMENT = swept(
    "memory-allocation",
    "Memory divided between two joins",
    ("A7",),
    measure,
    full={
        "model": tuple(EXPONENTS),
        "exponent": sorted({each for values in EXPONENTS.values() for each in values}),
        "seed": range(3),
        "span": 4000.0,
        "pace": "every 60 rows",
    },
    quick={"exponent": (0.0, 0.5, 1.0, 2.0, 4.0), "seed": 0, "span": 2000.0, "pace": "every 150 rows"},
    where=lambda point: point["exponent"] in EXPONENTS[point["model"]],
    assess=assess,
    plot=Lines("exponent", ("worst", "first"), "scheme", "model", ylabel="worse recall; memory of the first"),
    fixed={"rates": (1, 5), "window": WINDOW, "values": VALUES, "n": N, "memory": MEMORY},
)
