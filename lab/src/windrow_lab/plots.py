"""Pictures of sweeps, described by the columns they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from windrow_lab.averages import pivot
from windrow_lab.experiment import Row


@dataclass(frozen=True)
class Lines:
    """Curves: means over the seeds.

    Parameters
    ----------
    x, y
        Columns. Several columns of y are as many curves.
    series, panel
        Columns: a curve for each value of the first, a pair of axes for each of the second.
    styles
        By series; "o-" otherwise.
    axes
        Passed to each pair of axes, such as `{"yscale": "log"}`.
    where
        Rows that are drawn: by column, the values.
    """

    x: str
    y: str | tuple[str, ...]
    series: str = ""
    panel: str = ""
    xlabel: str = ""
    ylabel: str = ""
    styles: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, Any] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, rows: Sequence[Row], figure: Figure) -> None:
        drawn = _kept(rows, self.where)
        for axes, title, mine in _panels(drawn, self.panel, figure):
            for column in (self.y,) if isinstance(self.y, str) else self.y:
                for name, curve in _series(mine, self.series, self.x, column).items():
                    label = name if isinstance(self.y, str) else f"{name} {column}".strip()
                    places = sorted(curve)
                    style = self.styles.get(label, "o-")
                    axes.plot(places, [curve[at] for at in places], style, ms=4, label=label)
            axes.set(title=title, xlabel=self.xlabel or self.x, **self.axes)
        _label(figure, self.ylabel or str(self.y), legend=bool(self.series) or not isinstance(self.y, str))


@dataclass(frozen=True)
class Bars:
    """Groups of bars: means over the seeds, a bar for each value of `series` beside each other."""

    group: str
    y: str
    series: str = ""
    panel: str = ""
    ylabel: str = ""
    axes: Mapping[str, Any] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, rows: Sequence[Row], figure: Figure) -> None:
        drawn = _kept(rows, self.where)
        for axes, title, mine in _panels(drawn, self.panel, figure):
            groups = list(dict.fromkeys(row[self.group] for row in mine))
            series = _series(mine, self.series, self.group, self.y)
            width = 0.85 / len(series)
            for number, (name, heights) in enumerate(series.items()):
                places = [groups.index(g) + (number - (len(series) - 1) / 2) * width for g in heights]
                axes.bar(places, list(heights.values()), width, label=name)
            axes.set_xticks(range(len(groups)), [str(g) for g in groups], fontsize=7)
            axes.set(title=title, **self.axes)
        _label(figure, self.ylabel or self.y, legend=bool(self.series))


def _kept(rows: Sequence[Row], where: Mapping[str, Any]) -> list[Row]:
    return [row for row in rows if all(row.get(name) in values for name, values in where.items())]


def _panels(rows: Sequence[Row], panel: str, figure: Figure) -> list[tuple[Axes, str, list[Row]]]:
    names = list(dict.fromkeys(row[panel] for row in rows)) if panel else [None]
    across = min(4, len(names))
    grid = figure.subplots(-(-len(names) // across), across, sharey=True, squeeze=False).ravel()
    return [
        (axes, "" if name is None else str(name), [r for r in rows if name is None or r[panel] == name])
        for axes, name in zip(grid, names, strict=False)
    ]


def _series(rows: Sequence[Row], series: str, x: str, y: str) -> dict[str, dict[Any, float]]:
    if not series:
        return {"": pivot(rows, x, of=y)}
    return {str(name): curve for name, curve in pivot(rows, series, x, of=y).items()}


def _label(figure: Figure, ylabel: str, legend: bool) -> None:
    figure.axes[0].set_ylabel(ylabel)
    if legend:
        figure.axes[0].legend(fontsize=7)
