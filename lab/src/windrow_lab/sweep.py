"""Experiments as sweeps: a function of one point, and a grid of points for each size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from matplotlib.figure import Figure

from windrow_lab.experiment import Claim, Experiment, Row, Size

Grid = Mapping[str, Any]
"""By name the values to sweep; what is no sequence, and any string, is the same at all points."""


@dataclass(frozen=True)
class PointRun:
    """Runs one point and adds it to the rows."""

    measure: Callable[..., Row | list[Row]]

    def __call__(self, point: Row) -> list[Row]:
        found = self.measure(**point)
        return [point | row for row in (found if isinstance(found, list) else [found])]


def swept(
    name: str,
    title: str,
    claims: tuple[str, ...],
    measure: Callable[..., Row | list[Row]],
    full: Grid,
    quick: Grid,
    assess: Callable[[Sequence[Row]], list[Claim]],
    plot: Callable[[Sequence[Row], Figure], None],
    fixed: Grid | None = None,
    where: Callable[[Row], bool] = lambda point: True,
) -> Experiment:
    """An experiment that measures every point of a grid.

    Parameters
    ----------
    measure
        Takes the names of the grid as keywords and returns a row, or several. It must pickle.
    full, quick
        The grids; `quick` states what differs from `full`.
    fixed
        What else was chosen, for the record.
    where
        Which points of the grid are run.
    """

    def grid(size: Size) -> dict[str, list[Any]]:
        chosen = {**full, **(quick if size == "quick" else {})}
        return {
            key: list(values) if isinstance(values, Sequence) and not isinstance(values, str) else [values]
            for key, values in chosen.items()
        }

    def points(size: Size) -> list[Row]:
        axes = grid(size)
        combined = (dict(zip(axes, each, strict=True)) for each in product(*axes.values()))
        return [point for point in combined if where(point)]

    return Experiment(
        name,
        title,
        claims,
        lambda size: {**(fixed or {}), **grid(size)},
        points,
        PointRun(measure),
        assess,
        plot,
    )
