"""Memory, examples 3.3 and 3.4: which rows are kept, one decision a row.

A row of `a` comes every second and finds, between one second of its age and the next, as many rows of `b` as
its age curve says. The operator decides after every row, from the given curve, with one or two cells for `a`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory_streams import evenly
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo
from windrow.model.policies.learned import Age

CURVES = {"3.3": (1, 1, 2, 1), "3.4": (3, 0, 2)}
CELLS = (("3.3", 1), ("3.3", 2), ("3.4", 2))
UNITS = 60
SHOWN = 7
"""Units of time that the paper draws."""
SETTLED = (12, 48)
"""Both curves repeat themselves within 12 units, whatever the memory."""
DRAWN = {
    ("3.3", 1): [[1], [1], [1], [4], [4], [4], [7]],
    ("3.3", 2): [[1], [1, 2], [1, 2], [2, 4], [4, 5], [4, 5], [5, 7]],
}
"""Rows in the cells, as the paper draws them."""
RESULTS = {("3.3", 1): [1, 1, 2, 1, 1, 2, 1], ("3.4", 2): [3, 3, 5, 3, 5, 3, 5]}


def parameters(size: Size) -> Mapping[str, Any]:
    return {"curves": CURVES, "units": UNITS, "settled": SETTLED}


def tasks(size: Size) -> Sequence[tuple[str, int, str]]:
    return [(*cells, how) for cells in CELLS for how in ("priority", "envelope", "recent")]


def run(task: tuple[str, int, str]) -> list[Row]:
    example, cells, how = task
    curve = CURVES[example]
    policy: MemoryPolicy = (
        Fifo(monitor=0) if how == "recent" else Age(curves={"a": curve}, method=how, monitor=0)
    )
    found = evenly(curve, UNITS).under(cells, policy, evaluate="eager")
    came = (found.times - found.ages["a"]).round().astype(int)
    held = [sorted(set(came[(found.times >= unit) & (found.times < unit + 1)].tolist())) for unit in _units()]
    return [
        {
            "example": example,
            "cells": cells,
            "method": how,
            "results": [found.count(unit, unit + 1) for unit in _units()],
            "rows that found something": held,
            "per unit": found.count(*SETTLED) / (SETTLED[1] - SETTLED[0]),
        }
    ]


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
            and one["rows that found something"] == DRAWN["3.3", 1]
            and _same(one["per unit"], 4 / 3),
        ),
        Claim(
            "A1",
            "example 3.3, two cells: staggered as drawn, 8 results every 3 units",
            {"rows held": two["rows that found something"], "per 3 units": 3 * two["per unit"]},
            two["rows that found something"] == DRAWN["3.3", 2] and _same(two["per unit"], 8 / 3),
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
            "A2",
            "two retention times by the concave envelope bring nearly as much in all three (0.97 of it)",
            {f"{example}, {cells} cells": rate[example, cells, "envelope"] for example, cells in CELLS},
            all(rate[(*cells, "envelope")] >= 0.97 * rate[(*cells, "priority")] for cells in CELLS),
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    for axes, cells in zip(figure.subplots(1, len(CELLS), sharex=True), CELLS, strict=True):
        for row in rows:
            if (row["example"], row["cells"]) == cells:
                axes.step(
                    _units(), row["results"], where="post", label=f"{row['method']}: {row['per unit']:.2f}"
                )
        axes.set(title=f"example {cells[0]}, {cells[1]} cells", xlabel="time", ylabel="results per unit")
        axes.legend()


def _units() -> range:
    return range(1, SHOWN + 1)


def _same(value: float, wanted: float) -> bool:
    return abs(value - wanted) < 1e-9


EXPERIMENT = Experiment(
    "memory-age-examples",
    "Which rows to keep, row by row: the worked examples",
    ("A1", "A2"),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
