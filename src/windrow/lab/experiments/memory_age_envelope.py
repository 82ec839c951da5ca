"""Any age curve (claim B1): retention by the concave envelope, the paper's priority, and a linear program.

Random curves, most of them with minima. In formulas: the envelope against the linear program it solves and
against eq. 3, which is for curves without minima. In the operator: rows come evenly, one decision a row, the
curve given; both ways of ranking against the optimum. Uneven arrivals, with the paper's times between rows,
show which of the two adapts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import linprog

from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory_streams import age_based, evenly
from windrow.lab.memory_theory import has_minima, paper_results
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.policies.learned import AGE_METHODS, Age

WINDOW = 24
CURVES = {"full": 100, "quick": 4}
UNITS = {"full": 60 * WINDOW, "quick": 20 * WINDOW}
SETTLED = 6 * WINDOW
MEMORY = (6, 18)
REACHED = {"full": 0.995, "quick": 0.98}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "window": WINDOW,
        "curves": CURVES[size],
        "results in a unit of age": "Poisson of mean 1.5, with chance 1/2",
        "memory": f"uniform from {MEMORY[0]} to {MEMORY[1]} rows",
        "units": UNITS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, int]]:
    return [(size, seed) for seed in range(CURVES[size])]


def run(task: tuple[Size, int]) -> list[Row]:
    size, seed = task
    units = UNITS[size]
    rng = np.random.default_rng(seed)
    rates = np.zeros(WINDOW, np.int64)
    while not rates.any():
        rates = rng.poisson(1.5, WINDOW) * (rng.random(WINDOW) < 0.5)
    curve, memory = AgeCurve(tuple(rates.tolist())), int(rng.integers(*MEMORY, endpoint=True))
    row: Row = {
        "seed": seed,
        "memory": memory,
        "minima": has_minima(curve),
        "reached": REACHED[size],
        "optimum": _optimum(curve, memory),
        "envelope, formula": float(curve.results(memory)),
        "eq. 3, formula": float(paper_results(curve, memory, 1.0)),
    }
    even = evenly(rates.tolist(), units)
    uneven = age_based([rates], units, seed, rates=(1.25, 1.25 * max(1.0, curve.n)), window=WINDOW)
    for method in AGE_METHODS:
        policy = Age(curves={"a": curve.rates}, method=method, monitor=0)
        found = even.under(memory, policy, evaluate="1 second").count(SETTLED, units)
        row[method] = found / (units - SETTLED)
        pace = f"every {max(1, round(1 + curve.n))} rows"
        row[f"{method}, uneven"] = uneven.under(memory, policy, evaluate=pace).recall(uneven.exact, SETTLED)
    return [row]


def _optimum(curve: AgeCurve, memory: int) -> float:
    """The most results per row that retention times of this mean allow, as a linear program: parts of the
    rows by retention time."""
    ages = curve.ages
    solved = linprog(-curve.cumulative, A_ub=[ages], b_ub=[memory], A_eq=[np.ones(len(ages))], b_eq=[1.0])
    return float(-solved.fun)


def assess(rows: Sequence[Row]) -> list[Claim]:
    best, reached = np.array([row["optimum"] for row in rows]), rows[0]["reached"]
    minima = np.array([row["minima"] for row in rows])

    def part(name: str) -> np.ndarray:
        return np.array([row[name] for row in rows]) / best

    formula, paper = part("envelope, formula"), part("eq. 3, formula")
    priority, envelope = part("priority"), part("envelope")
    uneven = np.array([row["envelope, uneven"] / max(row["priority, uneven"], 1e-9) for row in rows])
    claims = [
        Claim(
            "B1",
            "the envelope is the linear program's optimum on every curve",
            {
                "curves": len(rows),
                "with minima": int(minima.sum()),
                "largest gap": float(abs(formula - 1).max()),
            },
            bool(abs(formula - 1).max() < 1e-6),
        ),
        Claim(
            "B1",
            "on curves with minima it beats retention as in eq. 3, which keeps every row equally long",
            {"eq. 3 over optimum, mean": float(paper[minima].mean()), "least": float(paper[minima].min())},
            bool((paper <= 1 + 1e-9).all() and paper[minima].min() < 0.9),
        ),
        Claim(
            "B1",
            f"in the operator the priority reaches at least {reached} of the optimum on every curve: the "
            "paper's heuristic is optimal where rows come evenly, so nothing beats it there",
            {"mean": float(priority.mean()), "least": float(priority.min())},
            bool(priority.min() >= reached),
        ),
        Claim(
            "B1",
            "retention times dealt beforehand (envelope) come near on average; few cells leave gaps",
            {"mean": float(envelope.mean()), "least": float(envelope.min())},
            bool(envelope.mean() >= 0.95),
        ),
        Claim(
            "B1",
            "where rows come unevenly priorities adapt: the envelope finds less, on average",
            {"envelope over priority, mean": float(uneven.mean())},
            bool(uneven.mean() <= 1.0),
        ),
    ]
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    order = np.argsort([row["eq. 3, formula"] / row["optimum"] for row in rows])
    for name, mark in (("eq. 3, formula", "."), ("envelope", "x"), ("priority", "+")):
        axes.plot([rows[k][name] / rows[k]["optimum"] for k in order], mark, label=name)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(xlabel="curves", ylabel="results, as a part of the optimum")
    axes.legend()


EXPERIMENT = Experiment(
    "memory-age-envelope",
    "Any age curve: how near to the optimum",
    ("B1",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
