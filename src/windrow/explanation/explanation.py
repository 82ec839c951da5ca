"""Explanations: values that print themselves, and render as JSON and as an HTML page."""

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
    """A plan, the memory and time of exact results, and the expected recall with less; prints itself."""

    plan: Plan
    exact: MemoryLimit
    """The most memory that complete windows take."""
    recall: RecallCurve | None
    """Expected recall by memory."""
    limit: MemoryLimit | None
    """What windows may hold before rows are shed: the query's memory limit, and what may be on disk."""
    query: Query
    row_bytes: tuple[float, ...]
    """Bytes of a row of each stream in its window."""
    held: tuple[float, ...] | None = None
    """Bytes of each stream's windows, measured; they add up to `exact`. None if only modelled."""
    split: tuple[float, ...] | None = None
    """Memory share of each stream, in the unit of `recall`."""
    binds: float | None = None
    """Fraction of the time in which complete windows would exceed the limit; None if unknown."""
    time: TimeCurve | None = None
    """Expected recall by work, and by time if rows were timed."""
    throttle: float | None = None
    """Throttle fraction under the query's deadline; None without a deadline, or if no row was timed."""
    learned_from: DryRun | None = None
    """The sample it was learned from; None if rates were stated."""
    partitioning: str | None = None
    name: str = ""

    @property
    def window_bytes(self) -> tuple[float, ...]:
        """What each stream's windows take, measured if possible."""
        modelled = (rows * size for rows, size in zip(self.plan.rows, self.row_bytes, strict=True))
        return tuple(modelled) if self.held is None else self.held

    @property
    def spilled(self) -> MemoryLimit | None:
        """What of complete windows exceeds the memory limit and spills to disk; None if they may not."""
        memory, disk = self.query.memory_limit, self.query.disk_limit
        if memory is None or disk is None:
            return None
        return MemoryLimit("bytes", max(0, min(disk.size, self.exact.size - memory.size)))

    @property
    def bytes_per_second(self) -> float:
        """Memory of new rows per second."""
        return sum(rate * each for rate, each in zip(self.plan.rates, self.row_bytes, strict=True))

    @property
    def expected_recall(self) -> float | None:
        """Recall under the query's memory limit; None without a limit or a model."""
        if self.recall is None or self.limit is None or self.limit.kind != self.recall.unit:
            return None
        return self.recall.at(self.limit.size)

    @property
    def expected_in_time(self) -> float | None:
        """Recall under the query's deadline."""
        return None if self.time is None or self.throttle is None else self.time.at(self.throttle)

    @property
    def source(self) -> str:
        """The source of the figures."""
        return str(self.learned_from) if self.learned_from is not None else "From stated rates, not from data"

    def __str__(self) -> str:
        lines = [str(self.plan)]
        sizes = zip(self.plan.aliases, self.window_bytes, strict=True)
        each = ", ".join(f"{alias} {_size(size)}" for alias, size in sizes)
        lines.append(f"Memory for an exact answer: about {self.exact} ({each})")
        if self.spilled is not None:
            lines.append(f"  of it at most {self.query.memory_limit} in memory, {self.spilled} on local disk")
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
                    f"  the work within the deadline of {self.query.deadline} is known once rows are timed"
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
        """The explanation as values for JSON."""
        return plain(self)

    def to_json(self, indent: int | None = 1) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def page(self) -> str:
        """One self-contained HTML page with the plan and the curves."""
        from windrow.explanation.html_page import page

        return page(self.name or self.query.on, [self.to_dict()])

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        return _framed(self.page())


@dataclass(frozen=True)
class SharedExplanation:
    """The joins of several queries, and an explanation of each; prints itself."""

    groups: tuple[QueryGroup, ...]
    joins: tuple[Explanation, ...]
    """One per group; none without schemas."""

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
        """The explanation as values for JSON."""
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
        """One self-contained HTML page."""
        from windrow.explanation.html_page import page

        shown = self.to_dict()
        return page("Shared joins", shown["joins"], ["\n".join(group["text"]) for group in shown["groups"]])

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        return _framed(self.page())


def _framed(page: str) -> str:
    """A page as a frame in a notebook, so that their styles do not mix."""
    style = "width: 100%; height: 40em; border: 0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}"></iframe>'


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _size(amount: float) -> str:
    return str(MemoryLimit("bytes", round(amount)))


def to_json(explanations: Sequence[Explanation | SharedExplanation]) -> str:
    """Several explanations as one document."""
    return json.dumps([e.to_dict() for e in explanations], indent=1, ensure_ascii=False, allow_nan=False)
