"""`wr.allocate`: divides memory between joins so that the lowest recall is as high as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windrow.engine.operator import Operator
from windrow.errors import Option, QueryError, placed
from windrow.memory_models import allocation
from windrow.memory_models.allocation import RecallCurve
from windrow.model.keywords import checks_keywords
from windrow.model.limits import MemoryLimit
from windrow.model.notebook import html_text, short_repr

Join = Operator | RecallCurve


@dataclass(frozen=True)
class Allocation:
    """Memory share and expected recall of each join; prints itself."""

    memory: Mapping[str, MemoryLimit]
    recall: Mapping[str, float]

    @property
    def worst(self) -> float:
        """The lowest recall."""
        return min(self.recall.values())

    __repr__ = short_repr
    _repr_html_ = html_text

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {limit}, recall {100 * self.recall[name]:.1f} %" for name, limit in self.memory.items()
        )


@checks_keywords("wr.allocate")
def allocate(
    joins: Mapping[str, Join] | Sequence[Join],
    memory: str | int | MemoryLimit,
    weights: Mapping[str, float] | Sequence[float] | None = None,
) -> Allocation:
    """Divide memory between joins so that the lowest recall, divided by its weight, is as high as possible.

    Parameters
    ----------
    joins
        Operators that have run under a policy with a model ("auto", "age" or "frequency"), or their
        forecasts. By name, or in a list, which names them "0", "1", ...
    memory
        Memory limit of all joins together, such as "512 MiB".
    weights
        A join with twice the weight gets twice the recall. Equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from windrow.memory_models.allocation import RecallCurve
    >>> easy = RecallCurve(np.array([0.0, 100.0]), np.array([0.0, 1.0]), "rows")
    >>> hard = RecallCurve(np.array([0.0, 300.0]), np.array([0.0, 1.0]), "rows")
    >>> print(allocate({"easy": easy, "hard": hard}, "200 rows"))
    easy: 50 rows, recall 50.0 %
    hard: 150 rows, recall 50.0 %
    """
    named = dict(joins) if isinstance(joins, Mapping) else {str(k): join for k, join in enumerate(joins)}
    with placed(Option("memory")):
        limit = MemoryLimit.parse(memory)
    if limit is None or not named:
        raise QueryError("expected one or more joins and a memory limit", Option("allocate"))
    if isinstance(weights, Mapping) and set(weights) != set(named):
        raise QueryError(
            f"expected a weight for each of {list(named)}, got {dict(weights)}", Option("allocate")
        )
    given = [weights[n] for n in named] if isinstance(weights, Mapping) else weights
    curves = {name: _curve(name, join) for name, join in named.items()}
    for name, curve in curves.items():
        if curve.unit != limit.kind:
            raise QueryError(
                f"join '{name}' counts {curve.unit}, the memory is in {limit.kind}; "
                "give all limits in one unit",
                Option("allocate"),
            )
    found = allocation.allocate_max_min(list(curves.values()), limit.size, given)
    sizes = [MemoryLimit(limit.kind, max(1, int(size))) for size in found.memory]
    return Allocation(dict(zip(named, sizes, strict=True)), dict(zip(named, found.recall, strict=True)))


def _curve(name: str, join: Join) -> RecallCurve:
    curve = join.forecast() if isinstance(join, Operator) else join
    if curve is None:
        raise QueryError(
            f"join '{name}' has no forecast; run it under a memory limit and a policy that learns "
            "a model ('auto', 'age' or 'frequency') first",
            Option("allocate"),
        )
    return curve
