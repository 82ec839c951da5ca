"""A plan: for each arriving row, which windows to probe, in what order, and how. It prints itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from windrow.model.access import Access
from windrow.model.harvest import Harvest
from windrow.model.notebook import html_text, short_repr
from windrow.model.predicate import Atom, JoinColumn, Residual, SetSimilarity
from windrow.model.units import short_number


@dataclass(frozen=True)
class BoundEquality:
    """An equality to check when a row joins a partial match: the row's own join column, and the bound one."""

    own: JoinColumn
    bound: JoinColumn

    def __str__(self) -> str:
        return f"{self.own} = {self.bound}"


Condition = BoundEquality | Atom
Driver = Condition | SetSimilarity


@dataclass(frozen=True)
class Step:
    """Probing one window.

    The index finds rows by `driver`. `checks` and then `residuals` are the conditions that become checkable
    with this stream and that the index alone does not guarantee. Expectations are not compared: steps are
    equal if they probe in the same way.
    """

    stream: int
    access: Access
    driver: tuple[Driver, ...] = ()
    checks: tuple[Condition, ...] = ()
    residuals: tuple[Residual, ...] = ()
    comparisons: float = field(default=0.0, compare=False)
    """Expected rows compared per second."""
    results: float = field(default=0.0, compare=False)
    """Expected partial matches per second that leave this step."""

    @property
    def indexed(self) -> tuple[JoinColumn, ...]:
        """The window's own join columns that the driver looks up."""
        found: dict[JoinColumn, None] = {}
        for condition in self.driver:
            found[own_column(condition, self.stream)] = None
        return tuple(found)


def own_column(condition: Driver, stream: int) -> JoinColumn:
    """The side of a condition that belongs to `stream`."""
    if isinstance(condition, BoundEquality):
        return condition.own
    return condition.left if condition.left.stream == stream else condition.right


def bound_column(condition: Driver, stream: int) -> JoinColumn:
    """The side of a condition that belongs to another stream."""
    if isinstance(condition, BoundEquality):
        return condition.bound
    return condition.right if condition.left.stream == stream else condition.left


@dataclass(frozen=True)
class Direction:
    """How new rows of `arriving` probe. The order has all streams; the first one starts."""

    arriving: int
    order: tuple[int, ...]
    steps: tuple[Step, ...]
    """One per stream of the order except the first."""

    @property
    def comparisons(self) -> float:
        return sum(step.comparisons for step in self.steps)

    @property
    def results(self) -> float:
        return self.steps[-1].results


@dataclass(frozen=True)
class Plan:
    """Join orders and access paths per direction, with their expected cost and output."""

    aliases: tuple[str, ...]
    directions: tuple[Direction, ...]
    rates: tuple[float, ...]
    """Rows per second per stream that the plan was made for."""
    rows: tuple[float, ...]
    """Expected rows in each window."""
    harvest: Harvest | None = None
    """Parts of windows to probe under a deadline; None for whole windows."""

    @property
    def comparisons(self) -> float:
        """Expected rows compared per second."""
        return sum(d.comparisons for d in self.directions)

    @property
    def results(self) -> float:
        """Expected results per second."""
        return sum(d.results for d in self.directions)

    @property
    def orders(self) -> dict[str, tuple[str, ...]]:
        return {self.aliases[d.arriving]: tuple(self.aliases[s] for s in d.order) for d in self.directions}

    __repr__ = short_repr
    _repr_html_ = html_text

    def __str__(self) -> str:
        lines = [
            f"Plan for {len(self.aliases)} streams: {short_number(self.comparisons)} comparisons/s, "
            f"{short_number(self.results)} results/s expected"
        ]
        for alias, rate, rows in zip(self.aliases, self.rates, self.rows, strict=True):
            lines.append(f"  {alias}: {short_number(rate)} rows/s, {short_number(rows)} rows in its window")
        for d in self.directions:
            start = self.aliases[d.order[0]]
            shown = "new rows" if d.order[0] == d.arriving else "the whole window"
            lines.append(
                f"  when {self.aliases[d.arriving]} arrives: start from {shown} of {start} "
                f"({short_number(d.comparisons)} comparisons/s, {short_number(d.results)} results/s)"
            )
            lines.extend(f"    -> {self._step(step, d)}" for step in d.steps)
        if self.harvest is not None:
            lines.append(self.harvest.text(self.aliases))
        return "\n".join(lines)

    def _step(self, step: Step, direction: Direction) -> str:
        part = "new rows of " if step.stream == direction.arriving else ""
        text = f"{part}{self.aliases[step.stream]} by {step.access}"
        if step.driver:
            text += f" on {' and '.join(map(str, step.driver))}"
        extra = [*map(str, step.checks), *map(str, step.residuals)]
        if extra:
            text += f", then check {' and '.join(extra)}"
        work, on = short_number(step.comparisons), short_number(step.results)
        return f"{text}  [{work} comparisons/s, {on} rows/s on]"
