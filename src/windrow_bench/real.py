"""Memory limits on real data: coverage of intervals, errors of forecasts, and `auto` against single policies.

The data sets are those of `lab/real_streams.py`, downloaded from the package index if they are not installed.
Rows arrive in calls, as those of a stream do. Memory is a fraction of the most rows that complete windows
hold at any time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow.engine.operator import Operator
from windrow.errors import Option, QueryError
from windrow.explanation.explain import explain
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import POLICIES
from windrow_lab.memory import JoinWorkload
from windrow_lab.real_streams import REAL
from windrow_lab.timed_rows import seconds

Figures = list[dict[str, Any]]
CALLS = 64
FRACTIONS = (0.5, 0.25, 0.1)
COVERED = 0.25
"""The memory at which coverage is measured."""
SINGLE = ("fifo", "size", "age", "frequency")
"""Policies that `auto` is compared with: those that maximise results and need no parameters."""
FORECAST = ("auto", "frequency", "age")


@dataclass(frozen=True, eq=False)
class Case:
    """A data set, as a stream."""

    trace: JoinWorkload

    @cached_property
    def _times(self) -> dict[str, np.ndarray]:
        return {alias: seconds(rows) for alias, rows in self.trace.tables.items()}

    @cached_property
    def _all_times(self) -> np.ndarray:
        return np.sort(np.concatenate(list(self._times.values())))

    @cached_property
    def most(self) -> int:
        """The most rows that complete windows hold."""
        now = self._all_times
        held = np.zeros(len(now), np.int64)
        for alias, own in self._times.items():
            begin = np.searchsorted(own, now - self.trace.windows[alias], side="left")
            held += np.searchsorted(own, now, side="right") - begin
        return int(held.max())

    @cached_property
    def calls(self) -> list[dict[str, pa.Table]]:
        now, tables = self._all_times, self.trace.tables
        edges = np.unique(now[np.linspace(0, len(now) - 1, CALLS + 1).astype(int)[1:]])
        ends = {a: np.append(0, np.searchsorted(t, edges, side="right")) for a, t in self._times.items()}
        return [
            {a: rows.slice(ends[a][k], ends[a][k + 1] - ends[a][k]) for a, rows in tables.items()}
            for k in range(len(edges))
        ]

    def policy(self, name: str) -> MemoryPolicy:
        """Policies that need an importance get one on the first stream's rows."""
        first = next(iter(self.trace.tables))
        by: dict[str, Any] = (
            {"by": {first: f"{first}.k % 10 + 1"}} if name in ("importance", "greedy") else {}
        )
        return POLICIES[name](**by)

    def run(self, name: str, fraction: float, seed: int) -> tuple[float, Operator]:
        """The recall in this fraction of the memory, and the operator after the run."""
        query = self.trace.query(fraction * self.most, self.policy(name), seed)
        operator = Operator(query, {alias: rows.schema for alias, rows in self.trace.tables.items()})
        found = sum(operator.process(call).num_rows for call in self.calls)
        return found / self.trace.exact.measured.results, operator


def coverage(rows: int, console: Console, case: str = "") -> Figures:
    """How many of the 95 % intervals of several seeds hold the true recall."""
    figures, seeds = [], _seeds(rows, 40)
    for data, joined in _cases(case):
        for name in POLICIES:
            if name == "uniform" and len(joined.trace.tables) > 2:
                continue
            found = []
            with console.status(f"{data}, {name}"):
                for seed in range(seeds):
                    recall, operator = joined.run(name, COVERED, seed)
                    m = operator.metrics()
                    inside = m.recall_low <= recall <= m.recall_high
                    found.append((recall, inside, m.recall_high - m.recall_low))
            recalls, held, widths = zip(*found, strict=True)
            means = {"recall": fmean(recalls), "width": fmean(widths)}
            figures.append({"data": f"{data}, {name}", "inside": sum(held), "of": seeds, **means})
    return figures


def forecast(rows: int, console: Console, case: str = "") -> Figures:
    """The measured recall beside the forecast of `explain` on the same rows, that of the operator after them,
    and the fraction of the time in which the limit binds."""
    figures = []
    for data, joined in _cases(case):
        for name in FORECAST:
            with console.status(f"{data}, {name}"):
                query = joined.trace.query(COVERED * joined.most, name)
                explained = explain(query, sample=joined.trace.tables).recall
                for fraction in FRACTIONS:
                    recall, operator = joined.run(name, fraction, 0)
                    at, learned = round(fraction * joined.most), operator.forecast()
                    figures.append(
                        {
                            "data": f"{data}, {name}, {fraction:.0%}",
                            "measured": recall,
                            "explained": None if explained is None else explained.at(at),
                            "forecast": None if learned is None else learned.at(at),
                            "binds": explain(operator).binds,
                        }
                    )
    return figures


def policies(rows: int, console: Console, case: str = "") -> Figures:
    """The mean recall of `auto` and of single policies, and `auto` over the best of them."""
    figures = []
    for name, joined in _cases(case):
        for fraction in FRACTIONS:
            with console.status(f"{name}, {fraction:.0%}"):
                mean = {
                    policy: fmean(joined.run(policy, fraction, seed)[0] for seed in range(_seeds(rows, 12)))
                    for policy in ("auto", *SINGLE)
                }
            best = max(SINGLE, key=lambda policy: mean[policy])
            ratio = mean["auto"] / mean[best]
            figures.append({"data": f"{name}, {fraction:.0%}", **mean, "best": best, "auto / best": ratio})
    return figures


def _cases(case: str) -> Iterator[tuple[str, Case]]:
    """The data sets whose names contain this, each made when it is used."""
    names = [name for name in REAL if case in name]
    if not names:
        raise QueryError(
            f"expected part of the name of a data set, one of {list(REAL)}; got {case!r}", Option("case")
        )
    return ((name, Case(REAL[name]())) for name in names)


def _seeds(rows: int, most: int) -> int:
    """As many as `--rows` asks for: all by default, four with --quick."""
    return max(1, min(most, rows // 180_000))
