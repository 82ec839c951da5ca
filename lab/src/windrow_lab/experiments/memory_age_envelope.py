"""Any age curve (claim B1): retention by the concave envelope, the paper's priority, and a linear program.

Random curves, most of them with minima. In formulas: the envelope against the linear program it solves and
against eq. 3, which is for curves without minima. In the operator: rows come evenly, one decision a row, the
curve given; both ways of ranking against the optimum. Uneven arrivals, with the paper's times between rows,
show which of the two adapts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from windrow.memory_models.age_curve import AgeCurve
from windrow.model.policies.learned import AGE_METHODS, Age
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory_streams import age_based, evenly
from windrow_lab.memory_theory import has_minima, paper_results
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

WINDOW = 24
SETTLED = 6 * WINDOW
MEMORY = (6, 18)
EQUAL, REACHED = 0.99, 0.995


def measure(seed: int, units: int) -> Row:
    rng = np.random.default_rng(seed)
    rates = np.zeros(WINDOW, np.int64)
    while not rates.any():
        rates = rng.poisson(1.5, WINDOW) * (rng.random(WINDOW) < 0.5)
    if seed % 4 == 0:
        rates = np.concatenate([np.sort(rates[: WINDOW // 2]), np.sort(rates[WINDOW // 2 :])[::-1]])
    curve, memory = AgeCurve(tuple(rates.tolist())), int(rng.integers(*MEMORY, endpoint=True))
    best = _optimum(curve, memory)
    row: Row = {
        "memory": memory,
        "minima": has_minima(curve),
        "envelope, formula": float(curve.results(memory)) / best,
        "eq. 3": float(paper_results(curve, memory, 1.0)) / best,
    }
    even = evenly(rates.tolist(), units)
    uneven = age_based([rates], units, seed, rates=(1.25, 1.25 * max(1.0, curve.n)), window=WINDOW)
    for method in AGE_METHODS:
        policy = Age(age_curves={"a": curve.rates}, method=method, monitor_fraction=0)
        found = even.under(memory, policy, evaluate="1 second").count(SETTLED, units)
        row[method] = found / (units - SETTLED) / best
        pace = f"every {max(1, round(1 + curve.n))} rows"
        row[f"{method}, uneven"] = uneven.under(memory, policy, evaluate=pace).recall(uneven.exact, SETTLED)
    return row


def _optimum(curve: AgeCurve, memory: int) -> float:
    """The most results per row that retention times of this mean allow, as a linear program: parts of the
    rows by retention time."""
    ages = curve.ages
    solved = linprog(-curve.cumulative, A_ub=[ages], b_ub=[memory], A_eq=[np.ones(len(ages))], b_eq=[1.0])
    return float(-solved.fun)


def assess(rows: Sequence[Row]) -> list[Claim]:
    minima = np.array([row["minima"] for row in rows])

    def part(name: str) -> np.ndarray:
        return np.array([row[name] for row in rows])

    formula, paper, priority, envelope = map(part, ("envelope, formula", "eq. 3", "priority", "envelope"))
    plain, beaten = envelope[~minima], envelope[minima] > priority[minima]
    uneven = part("envelope, uneven") / np.maximum(part("priority, uneven"), 1e-9)
    return [
        Claim(
            "B1",
            "the envelope is the linear program's optimum on every curve",
            {
                "curves": len(rows),
                "with minima": int(minima.sum()),
                "most off": float(abs(formula - 1).max()),
            },
            bool(abs(formula - 1).max() < 1e-6),
        ),
        Claim(
            "B1",
            f"on curves without minima it equals the paper's optimum, also in the operator ({EQUAL} of it)",
            {"eq. 3": float(paper[~minima].min()), "envelope, least": float(plain.min())},
            bool(abs(paper[~minima] - 1).max() < 1e-6 and plain.min() >= EQUAL),
        ),
        Claim(
            "B1",
            "on curves with minima it beats the paper's greedy heuristic, in the operator",
            {"beaten on": f"{int(beaten.sum())} of {len(beaten)}", "envelope, mean": float(envelope.mean())}
            | {"heuristic, mean": float(priority.mean())},
            bool(beaten.all()),
        ),
        Claim(
            "B1'",
            f"the paper's heuristic reaches at least {REACHED} of the optimum on every curve where rows come "
            "evenly, and finds more than the envelope where they come unevenly, on average",
            {"least": float(priority.min()), "envelope over heuristic, uneven": float(uneven.mean())},
            bool(priority.min() >= REACHED and uneven.mean() <= 1.0),
        ),
    ]


EXPERIMENT = swept(
    "memory-age-envelope",
    "Any age curve: how near to the optimum",
    ("B1", "B1'"),
    measure,
    full={"seed": range(100), "units": 60 * WINDOW},
    quick={"seed": range(8), "units": 20 * WINDOW},
    assess=assess,
    plot=Lines(
        "seed",
        ("eq. 3", "envelope", "priority"),
        xlabel="curves",
        ylabel="results, of the optimum",
        styles={"eq. 3": ".", "envelope": "x", "priority": "+"},
    ),
    fixed={
        "window": WINDOW,
        "results in a unit of age": "Poisson of mean 1.5, with chance 1/2; one curve in four rises and falls",
        "memory": f"uniform from {MEMORY[0]} to {MEMORY[1]} rows",
    },
)
