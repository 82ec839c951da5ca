"""Explanations: values that print themselves, and render as JSON and as an HTML page."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from typing import Any

from windrow.engine.shared.grouping import QueryGroup
from windrow.explanation.dry_run import DryRun
from windrow.harvest.time_curve import TimeCurve
from windrow.memory_models.allocation import RecallCurve
from windrow.model.limits import MemoryLimit
from windrow.model.notebook import short_repr
from windrow.model.plan import Direction, Plan
from windrow.model.query import Query, Window
from windrow.model.units import SECOND, json_value


class Rendered(ABC):
    """Renders an explanation as JSON, and in a notebook as the page that is drawn from it."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]: ...

    @abstractmethod
    def _contents(self) -> tuple[str, list[dict[str, Any]], list[str]]:
        """Title, joins and shared queries of the page."""

    def to_html(self) -> str:
        """One self-contained HTML page with the plan and the curves."""
        from windrow.explanation.html_page import page  # few programs draw one

        return page(*self._contents())

    def to_json(self, indent: int | None = 1) -> str:
        return to_json(self.to_dict(), indent)

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        # In a frame of its own, so that its styles and those of the notebook do not mix.
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe srcdoc="{escape(self.to_html())}" style="{style}"></iframe>'


@dataclass(frozen=True, repr=False)
class Explanation(Rendered):
    """A plan, the memory and time of exact results, and the expected recall with less; prints itself."""

    plan: Plan
    exact_memory: MemoryLimit
    """The most memory that complete windows take."""
    recall: RecallCurve | None
    """Expected recall by memory."""
    limit: MemoryLimit | None
    """What windows may hold before rows are shed: the query's memory limit, and what may be on disk."""
    query: Query
    row_bytes: tuple[float, ...]
    """Bytes of a row of each stream in its window."""
    held: tuple[float, ...] | None = None
    """Bytes of each stream's windows, measured; they add up to `exact_memory`. None if only modelled."""
    memory_split: tuple[float, ...] | None = None
    """Memory share of each stream, in the unit of `recall`."""
    binds: float | None = None
    """Fraction of the time in which complete windows would exceed the limit; None if unknown."""
    time: TimeCurve | None = None
    """Expected recall by work, and by time if rows were timed."""
    throttle: float | None = None
    """Throttle fraction under the query's deadline; None without a deadline, or if no row was timed."""
    dry_run: DryRun | None = None
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
        return MemoryLimit("bytes", max(0, min(disk.size, self.exact_memory.size - memory.size)))

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
    def expected_recall_in_time(self) -> float | None:
        """Recall under the query's deadline."""
        return None if self.time is None or self.throttle is None else self.time.at(self.throttle)

    @property
    def source(self) -> str:
        """The source of the figures."""
        return str(self.dry_run) if self.dry_run is not None else "From stated rates, not from data"

    def __str__(self) -> str:
        lines = [str(self.plan)]
        sizes = zip(self.plan.aliases, self.window_bytes, strict=True)
        each = ", ".join(f"{alias} {_size(size)}" for alias, size in sizes)
        lines.append(f"Memory for an exact answer: about {self.exact_memory} ({each})")
        if self.spilled is not None:
            lines.append(f"  of it at most {self.query.memory_limit} in memory, {self.spilled} on local disk")
        lines.append(f"Memory for new rows: about {_size(self.bytes_per_second)} a second")
        if self.recall is not None:
            lines += ["Recall against memory: (of rows that are not late)", *_indented(str(self.recall))]
            if self.expected_recall is not None:
                when = "" if self.binds is None else f"; the limit binds {100 * self.binds:.3g} % of the time"
                lines.append(f"  {self.limit} give about {100 * self.expected_recall:.3g} %{when}")
            if self.memory_split is not None and self.limit is not None:
                shares = zip(self.plan.aliases, self.memory_split, strict=True)
                each = ", ".join(f"{a} {MemoryLimit(self.recall.unit, round(share))}" for a, share in shares)
                lines.append(f"  divided: {each}")
        if self.time is not None:
            lines += ["Recall against time:", *_indented(str(self.time))]
            if self.throttle is not None and self.expected_recall_in_time is not None:
                lines.append(
                    f"  the deadline of {self.query.deadline} leaves time for {100 * self.throttle:.3g} % "
                    f"of the work: about {100 * self.expected_recall_in_time:.3g} %"
                )
            elif self.query.deadline is not None:
                lines.append(
                    f"  the work within the deadline of {self.query.deadline} is known once rows are timed"
                )
        if self.partitioning is not None:
            lines += ["Partitioning:", *_indented(self.partitioning)]
        if self.dry_run is not None:
            lines.append(self.source)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The explanation as values for JSON, which the page is drawn from."""
        plan, query = self.plan, self.query
        per_stream = zip(plan.aliases, plan.rates, plan.rows, self.row_bytes, self.window_bytes, strict=True)
        found = {
            "name": self.name,
            "on": query.on,
            "streams": {
                alias: {
                    "time": query.streams[alias].time,
                    "window": str(query.streams[alias].window),
                    "window_seconds": window_seconds(query.streams[alias].window, rows, rate),
                    "rows_per_second": rate,
                    "window_rows": rows,
                    "bytes_per_row": size,
                    "memory_bytes": held,
                    "bytes_per_second": rate * size,
                }
                for alias, rate, rows, size, held in per_stream
            },
            "results_per_second": plan.results,
            "comparisons_per_second": plan.comparisons,
            "directions": [self._direction(direction) for direction in plan.directions],
            "harvest": plan.harvest and plan.harvest.to_dict(),
            "memory": {
                "exact_bytes": self.exact_memory.size,
                "bytes_per_second": self.bytes_per_second,
                "limit": self.limit and {self.limit.kind: self.limit.size},
                "spilled_bytes": self.spilled and self.spilled.size,
                "recall": self.expected_recall,
                "binds": self.binds,
                "split": self.memory_split and dict(zip(plan.aliases, self.memory_split, strict=True)),
                "curve": self.recall and vars(self.recall),
            },
            "time": {
                "deadline": query.deadline and str(query.deadline),
                "throttle": self.throttle,
                "recall": self.expected_recall_in_time,
                "curve": self.time
                and {
                    "comparisons_per_second": self.time.comparisons,
                    "seconds_per_second": self.time.seconds,
                    "work": self.time.work,
                    "recall": self.time.recall,
                },
            },
            "partitioning": self.partitioning and self.partitioning.splitlines(),
            "source": self.source,
            "dry_run": self.dry_run and self.dry_run.to_dict(),
            "text": str(self),
        }
        shown: dict[str, Any] = json_value(found)
        return shown

    def _direction(self, direction: Direction) -> dict[str, Any]:
        aliases = self.plan.aliases
        return {
            "arriving": aliases[direction.arriving],
            "order": [aliases[stream] for stream in direction.order],
            "comparisons_per_second": direction.comparisons,
            "results_per_second": direction.results,
            "steps": [
                {
                    "stream": aliases[step.stream],
                    "access": str(step.access),
                    "by": [str(condition) for condition in step.driver],
                    "checks": [str(condition) for condition in (*step.checks, *step.residuals)],
                    "comparisons_per_second": step.comparisons,
                    "rows_on_per_second": step.results,
                }
                for step in direction.steps
            ],
        }

    def _contents(self) -> tuple[str, list[dict[str, Any]], list[str]]:
        return self.name or self.query.on, [self.to_dict()], []


@dataclass(frozen=True, repr=False)
class SharedExplanation(Rendered):
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

    def _contents(self) -> tuple[str, list[dict[str, Any]], list[str]]:
        return "Shared joins", [join.to_dict() for join in self.joins], [str(group) for group in self.groups]


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _size(amount: float) -> str:
    return str(MemoryLimit("bytes", round(amount)))


def to_json(explained: object, indent: int | None = 1) -> str:
    """One or several explanations, each a dict, as text."""
    return json.dumps(explained, indent=indent, ensure_ascii=False, allow_nan=False)


def window_seconds(window: Window, rows: float, rate: float) -> float:
    """Length of a window; of a row window, the time in which its rows arrive."""
    return max(window.size / SECOND if window.is_time else rows / max(rate, 1e-9), 1e-6)
