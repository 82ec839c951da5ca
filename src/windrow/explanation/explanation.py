"""What a query will do, as values that print themselves, as JSON, and as a page to look at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from windrow.engine.shared.grouping import QueryGroup
from windrow.explanation.as_dict import plain
from windrow.explanation.dry_run import DryRun
from windrow.harvest.time_curve import TimeCurve
from windrow.memory_models.allocation import RecallCurve
from windrow.model.limits import MemoryLimit
from windrow.model.notebook import short_repr
from windrow.model.plan import Plan
from windrow.model.query import Query


@dataclass(frozen=True)
class Explanation:
    """A plan, what memory and time it takes to be exact, and the recall to expect of less; prints itself."""

    plan: Plan
    exact: MemoryLimit
    """The most memory that complete windows take."""
    recall: RecallCurve | None
    """Against memory."""
    limit: MemoryLimit | None
    """The query's own."""
    query: Query
    row_bytes: tuple[float, ...]
    """What a row of each stream takes in its window."""
    held: tuple[float, ...] | None = None
    """Bytes that each stream's windows take of `exact`, measured; None if only modelled."""
    split: tuple[float, ...] | None = None
    """What each stream gets of the memory, in the unit of `recall`."""
    binds: float | None = None
    """The share of time in which complete windows would take more than the limit; None where that is not
    known."""
    time: TimeCurve | None = None
    """Recall against work, and against time where rows were timed."""
    throttle: float | None = None
    """The part of the work there is time for under the query's deadline; None without, and where no row was
    timed."""
    learned_from: DryRun | None = None
    """What it was learned from; None if it was stated."""
    partitioning: str | None = None
    name: str = ""

    @property
    def window_bytes(self) -> tuple[float, ...]:
        """What each stream's windows take, measured if possible."""
        modelled = (rows * size for rows, size in zip(self.plan.rows, self.row_bytes, strict=True))
        return tuple(modelled) if self.held is None else self.held

    @property
    def bytes_per_second(self) -> float:
        """What new rows take."""
        return sum(rate * each for rate, each in zip(self.plan.rates, self.row_bytes, strict=True))

    @property
    def expected_recall(self) -> float | None:
        """Under the query's limit on memory; None if there is none, or no model of it."""
        if self.recall is None or self.limit is None or self.limit.kind != self.recall.unit:
            return None
        return self.recall.at(self.limit.size)

    @property
    def expected_in_time(self) -> float | None:
        """The recall under the query's deadline."""
        return None if self.time is None or self.throttle is None else self.time.at(self.throttle)

    @property
    def source(self) -> str:
        """Where the figures come from."""
        return str(self.learned_from) if self.learned_from is not None else "From stated rates, not from data"

    def __str__(self) -> str:
        lines = [str(self.plan)]
        sizes = zip(self.plan.aliases, self.window_bytes, strict=True)
        each = ", ".join(f"{alias} {_size(size)}" for alias, size in sizes)
        lines.append(f"Memory for an exact answer: about {self.exact} ({each})")
        lines.append(f"Memory for new rows: about {_size(self.bytes_per_second)} a second")
        if self.recall is not None:
            lines += ["Recall against memory: (of rows that are not late)", *_indented(str(self.recall))]
            if self.expected_recall is not None:
                when = "" if self.binds is None else f"; the limit binds {100 * self.binds:.3g} % of the time"
                lines.append(f"  {self.limit} give about {100 * self.expected_recall:.3g} %{when}")
            if self.split is not None and self.limit is not None:
                lines.append(f"  divided: {self._divided()}")
        if self.time is not None:
            lines += ["Recall against time:", *_indented(str(self.time))]
            if self.throttle is not None and self.expected_in_time is not None:
                lines.append(
                    f"  the deadline of {self.query.deadline} leaves time for {100 * self.throttle:.3g} % "
                    f"of the work: about {100 * self.expected_in_time:.3g} %"
                )
            elif self.query.deadline is not None:
                lines.append(
                    f"  what the deadline of {self.query.deadline} leaves time for is known once rows "
                    "were timed"
                )
        if self.partitioning is not None:
            lines += ["Partitioning:", *_indented(self.partitioning)]
        if self.learned_from is not None:
            lines.append(self.source)
        return "\n".join(lines)

    def _divided(self) -> str:
        assert self.split is not None and self.recall is not None
        shown = [
            f"{alias} {MemoryLimit(self.recall.unit, round(part))}"
            for alias, part in zip(self.plan.aliases, self.split, strict=True)
        ]
        return ", ".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        return plain(self)

    def to_json(self, indent: int | None = 1) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def page(self) -> str:
        """One HTML page that needs nothing else: the plan drawn, and the curves."""
        from windrow.explanation.html_page import page

        return page(self.name or self.query.on, [self.to_dict()])

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        return _framed(self.page())


@dataclass(frozen=True)
class SharedExplanation:
    """Which queries share which join, and what each join will do; prints itself."""

    groups: tuple[QueryGroup, ...]
    joins: tuple[Explanation, ...]
    """One per group; none where the schemas were not given."""

    def __str__(self) -> str:
        shown = [str(group) for group in self.groups]
        if self.joins:
            shown = [f"{text}\n{join}" for text, join in zip(shown, self.joins, strict=True)]
        if len(shown) > 1:
            shown.insert(
                0, f"{len(shown)} joins: queries share one only if streams and predicate are the same"
            )
        return "\n".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        return {
            "groups": [
                {"queries": list(group.subscriptions), "text": str(group).splitlines()}
                for group in self.groups
            ],
            "joins": [join.to_dict() for join in self.joins],
        }

    def to_json(self, indent: int | None = 1) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def page(self) -> str:
        """One HTML page that needs nothing else."""
        from windrow.explanation.html_page import page

        shown = self.to_dict()
        return page("Shared joins", shown["joins"], ["\n".join(group["text"]) for group in shown["groups"]])

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        return _framed(self.page())


def _framed(page: str) -> str:
    """A whole page inside a notebook's, each with its own style."""
    style = "width: 100%; height: 40em; border: 0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}"></iframe>'


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _size(amount: float) -> str:
    return str(MemoryLimit("bytes", round(amount)))


def to_json(explanations: Sequence[Explanation | SharedExplanation]) -> str:
    """Several as one document."""
    return json.dumps([e.to_dict() for e in explanations], indent=1, ensure_ascii=False, allow_nan=False)
