"""Memory, examples 3.3 and 3.4: which rows are kept, one decision a row.

A row of `a` comes every second and finds, between one second of its age and the next, as many rows of `b` as
its age curve says. The operator decides after every row, from the given curve, with one or two cells for `a`.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo
from windrow.model.policies.learned import Age
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory_streams import evenly
from windrow_lab.plots import Bars
from windrow_lab.sweep import swept

CURVES = {"3.3": (1, 1, 2, 1), "3.4": (3, 0, 2)}
CELLS = (("3.3", 1), ("3.3", 2), ("3.4", 2))
UNITS = 60
SHOWN = range(1, 8)
"""Units of time that the paper draws."""
SETTLED = (12, 48)
"""Both curves repeat themselves within 12 units, whatever the memory."""
DRAWN = {
    ("3.3", 1): [[1], [1], [1], [4], [4], [4], [7]],
    ("3.3", 2): [[1], [1, 2], [1, 2], [2, 4], [4, 5], [4, 5], [5, 7]],
}
"""Rows in the cells, as the paper draws them."""
RESULTS = {("3.3", 1): [1, 1, 2, 1, 1, 2, 1], ("3.4", 2): [3, 3, 5, 3, 5, 3, 5]}


def measure(example: str, cells: int, method: str) -> Row:
    curve = CURVES[example]
    policy: MemoryPolicy = (
        Fifo(monitor_fraction=0)
        if method == "recent"
        else Age(age_curves={"a": curve}, method=method, monitor_fraction=0)
    )
    found = evenly(curve, UNITS).under(cells, policy, evaluate="eager")
    came = (found.times - found.ages["a"]).round().astype(int)
    return {
        "of": f"{example}, {cells} cells",
        "results": [found.count(unit, unit + 1) for unit in SHOWN],
        "held": [
            sorted(set(came[(found.times >= unit) & (found.times < unit + 1)].tolist())) for unit in SHOWN
        ],
        "per unit": found.count(*SETTLED) / (SETTLED[1] - SETTLED[0]),
    }


def assess(rows: Sequence[Row]) -> list[Claim]:
    at = {(row["example"], row["cells"], row["method"]): row for row in rows}
    one, two, minima = (at[(*cells, "priority")] for cells in CELLS)
    rate = {key: row["per unit"] for key, row in at.items()}
    return [
        Claim(
            "A1",
            "example 3.3, one cell: 4 results every 3 units of time, as drawn",
            {"results": one["results"], "per 3 units": 3 * one["per unit"]},
            one["results"] == RESULTS["3.3", 1]
            and one["held"] == DRAWN["3.3", 1]
            and _same(one["per unit"], 4 / 3),
        ),
        Claim(
            "A1",
            "example 3.3, two cells: staggered as drawn, 8 results every 3 units",
            {"rows held": two["held"], "per 3 units": 3 * two["per unit"]},
            two["held"] == DRAWN["3.3", 2] and _same(two["per unit"], 8 / 3),
        ),
        Claim(
            "A2",
            "example 3.4: 4 results per unit with two cells, 3 where each row is kept for 2 units",
            {"results": minima["results"], "per unit": minima["per unit"], "for 2": rate["3.4", 2, "recent"]},
            minima["results"] == RESULTS["3.4", 2]
            and _same(minima["per unit"], 4)
            and _same(rate["3.4", 2, "recent"], 3),
        ),
        Claim(
            "A2'",
            "two retention times by the concave envelope bring nearly as much in all three (0.97 of it)",
            {f"{example}, {cells} cells": rate[example, cells, "envelope"] for example, cells in CELLS},
            all(rate[(*cells, "envelope")] >= 0.97 * rate[(*cells, "priority")] for cells in CELLS),
        ),
    ]


def _same(value: float, wanted: float) -> bool:
    return abs(value - wanted) < 1e-9


EXPERIMENT = swept(
    "memory-age-examples",
    "Which rows to keep, row by row: the worked examples",
    ("A1", "A2", "A2'"),
    measure,
    full={"example": tuple(CURVES), "cells": (1, 2), "method": ("priority", "envelope", "recent")},
    quick={},
    where=lambda point: (point["example"], point["cells"]) in CELLS,
    assess=assess,
    plot=Bars("of", "per unit", "method", ylabel="results per unit of time"),
    fixed={"curves": CURVES, "units": UNITS, "settled": SETTLED},
)
