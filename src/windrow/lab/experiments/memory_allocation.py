"""Memory Fig. 10 and 11: memory for two joins, divided so that the worse of them is as good as it can be.

Streams as in s. 6.2. Of the frequency model (20 % of the memory that both need, shed by PROB): the same
values are frequent on both streams of the one join (DC) and opposite ones on those of the other (IC), with
Zipf's exponent swept. Of the age model (50 %, shed by AGE): the one join's curve rises with a power of the
age (INC), the other's falls with it (DEC), the power swept. ALLOC divides by the models' recalls, PROP by
what each join needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.frequency_model import FrequencyModel
from windrow.lab.memory import JoinWorkload
from windrow.lab.memory_streams import BUCKETS, N, age_based, falling, frequency_based, rising, zipf
from windrow.lab.memory_theory import proportional, recall_of_ages, recall_of_frequencies
from windrow.memory_models.age_curve import AgeCurve
from windrow.memory_models.allocation import RecallCurve, allocate_max_min
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.learned import Age, Frequency

WINDOW, VALUES = 500.0, 50
SPAN = {"full": 4000.0, "quick": 2000.0}
SEEDS = {"full": 3, "quick": 1}
SWEEPS: dict[Size, dict[str, tuple[float, ...]]] = {
    "full": {"frequency": (0.5, 1.0, 1.5, 1.75, 2.0), "age": (0.0, 1.0, 2.0, 3.0, 4.0)},
    "quick": {"frequency": (1.0, 1.5, 2.0), "age": (0.0, 2.0, 4.0)},
}
MEMORY = {"frequency": 0.2, "age": 0.5}
JOINS = {"frequency": ("DC", "IC"), "age": ("INC", "DEC")}
PACE = {"full": "every 60 rows", "quick": "every 150 rows"}
SAME = 0.02
"""Recalls that differ by less are the same: what two runs differ by."""


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": (1, 5),
        "window": WINDOW,
        "values": VALUES,
        "n": N,
        "memory": MEMORY,
        "seconds": SPAN[size],
        "evaluated": PACE[size],
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, str, float, int]]:
    return [
        (size, model, sweep, seed)
        for model, sweeps in SWEEPS[size].items()
        for sweep in sweeps
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[Size, str, float, int]) -> list[Row]:
    size, model, sweep, seed = task
    joins = {
        name: (_frequency if model == "frequency" else _age)(name, sweep, SPAN[size], seed)
        for name in JOINS[model]
    }
    curves = [curve for _, curve, _ in joins.values()]
    memory = MEMORY[model] * sum(float(curve.memory[-1]) for curve in curves)
    rows = []
    for scheme, divided in (
        ("ALLOC", allocate_max_min(curves, memory)),
        ("PROP", proportional(curves, memory)),
    ):
        found = {
            name: trace.under(given, policy, seed, PACE[size]).recall(trace.exact, 2 * WINDOW)
            for (name, (trace, _, policy)), given in zip(joins.items(), divided.memory, strict=True)
        }
        shares = dict(zip(joins, divided.memory, strict=True))
        rows.append(
            {
                "model": model,
                "sweep": sweep,
                "seed": seed,
                "scheme": scheme,
                "worst": min(found.values()),
                "foretold": divided.worst,
                "first": shares[JOINS[model][0]] / memory,
                **{f"recall {k}": found[name] for k, name in enumerate(JOINS[model])},
            }
        )
    return rows


def _frequency(
    name: str, skew: float, span: float, seed: int
) -> tuple[JoinWorkload, RecallCurve, MemoryPolicy]:
    trace = frequency_based(skew, name, span, seed)
    share = zipf(VALUES, skew)
    shares = np.stack([share, share if name == "DC" else share[::-1]])
    model = FrequencyModel(shares, [trace.rates[a] for a in "ab"], [WINDOW, 1e-6])
    return trace, recall_of_frequencies(model), Frequency(monitor=0)


def _age(name: str, power: float, span: float, seed: int) -> tuple[JoinWorkload, RecallCurve, MemoryPolicy]:
    shape = rising(power) if name == "INC" else falling(power)
    trace = age_based([shape], span, seed)
    curve = AgeCurve(tuple(N * shape / shape.sum()), WINDOW / BUCKETS)
    policy = Age(curves={"a": curve.rates}, monitor=0)
    return trace, recall_of_ages([curve], [trace.rates["a"]]), policy


def assess(rows: Sequence[Row]) -> list[Claim]:
    worst = _worst(rows)
    claims = []
    for model, figure in (("frequency", 10), ("age", 11)):
        ahead = {s: worst[model, "ALLOC"][s] - worst[model, "PROP"][s] for s in worst[model, "PROP"]}
        claims.append(
            Claim(
                "A7",
                f"Fig. {figure}: the worse recall under ALLOC is never below that under PROP; ahead by",
                ahead,
                min(ahead.values()) >= -SAME and ahead[max(ahead)] > 0.05,
            )
        )
    # Below an exponent of 1 the values are too alike for either join to be the easy one.
    alloc, prop = (
        {s: recall for s, recall in worst["frequency", scheme].items() if s >= 1}
        for scheme in ("ALLOC", "PROP")
    )
    claims.append(
        Claim(
            "A7",
            "Fig. 10: as the skew grows from 1 the worse recall falls under PROP, and hardly changes under "
            "ALLOC",
            {"ALLOC": alloc, "PROP": prop},
            prop[max(prop)] < 0.75 * prop[min(prop)] and max(alloc.values()) - min(alloc.values()) < 0.15,
        )
    )
    alloc, prop = worst["age", "ALLOC"], worst["age", "PROP"]
    claims.append(
        Claim(
            "A7",
            "Fig. 11: with the exponent the worse recall rises under ALLOC, and stays the same under PROP",
            {"ALLOC": alloc, "PROP": prop},
            alloc[max(alloc)] - alloc[min(alloc)] > 0.1
            and max(prop.values()) - min(prop.values()) < 2 * SAME,
        )
    )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    worst = _worst(rows)
    given = average(rows, by=("model", "scheme", "sweep"), of=("first",))
    labels = {"frequency": ("Zipf's exponent", "DC"), "age": ("exponent of the age curves", "INC")}
    for axes, (model, (label, first)) in zip(figure.subplots(1, 2, sharey=True), labels.items(), strict=True):
        for scheme, line in (("ALLOC", "o-"), ("PROP", "s-")):
            found = worst[model, scheme]
            axes.plot(sorted(found), [found[s] for s in sorted(found)], line, label=scheme)
        mine = [row for row in given if row["model"] == model and row["scheme"] == "ALLOC"]
        axes.plot(
            [r["sweep"] for r in mine], [r["first"] for r in mine], "k--", label=f"memory of {first} (ALLOC)"
        )
        axes.set(xlabel=label, title=f"{model} model, memory {MEMORY[model]:.0%}", ylim=(0, 1))
        axes.legend()
    figure.axes[0].set_ylabel("worse recall of two joins")


def _worst(rows: Sequence[Row]) -> dict[tuple[str, str], dict[float, float]]:
    found: dict[tuple[str, str], dict[float, float]] = {}
    for row in average(rows, by=("model", "scheme", "sweep"), of=("worst",)):
        found.setdefault((row["model"], row["scheme"]), {})[row["sweep"]] = row["worst"]
    return found


EXPERIMENT = Experiment(
    "memory-allocation",
    "Memory divided between two joins",
    ("A7",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
