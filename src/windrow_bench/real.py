"""Memory limits on real data: how often intervals hold, how far forecasts go wrong, how far `auto` is behind.

The data sets are those of `lab/real_streams.py`, downloaded from the package index where they are not at
hand. Rows come in calls, as a stream's do. Memory is told as a part of the most that whole windows hold at
any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow.engine.operator import Operator
from windrow.explanation.explain import explain
from windrow.lab.memory import JoinWorkload, seconds
from windrow.lab.real_streams import REAL
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import POLICIES

Figures = list[dict[str, Any]]
CALLS = 64
PARTS = (0.5, 0.25, 0.1)
COVERED = 0.25
"""The memory at which intervals are looked at."""
SINGLE = ("fifo", "size", "age", "frequency")
"""Policies that `auto` is compared with: those that maximise results, and need not be told anything."""
FORECAST = ("auto", "frequency", "age")


@dataclass(frozen=True, eq=False)
class Case:
    """A data set, as a stream."""

    trace: JoinWorkload

    @cached_property
    def most(self) -> int:
        """Rows that whole windows hold at most."""
        times = {alias: seconds(rows) for alias, rows in self.trace.tables.items()}
        now = np.sort(np.concatenate(list(times.values())))
        held = np.zeros(len(now), np.int64)
        for alias, own in times.items():
            begin = np.searchsorted(own, now - self.trace.windows[alias], side="left")
            held += np.searchsorted(own, now, side="right") - begin
        return int(held.max())

    @cached_property
    def calls(self) -> list[dict[str, pa.Table]]:
        times = {alias: seconds(rows) for alias, rows in self.trace.tables.items()}
        now = np.sort(np.concatenate(list(times.values())))
        edges = np.unique(now[np.linspace(0, len(now) - 1, CALLS + 1).astype(int)[1:]])
        ends = {a: np.concatenate([[0], np.searchsorted(t, edges, side="right")]) for a, t in times.items()}
        return [
            {a: rows.slice(ends[a][k], ends[a][k + 1] - ends[a][k]) for a, rows in self.trace.tables.items()}
            for k in range(len(edges))
        ]

    def policy(self, name: str) -> MemoryPolicy:
        """With an importance of the first stream's rows, where one must be given."""
        first = next(iter(self.trace.tables))
        by: dict[str, Any] = (
            {"by": {first: f"{first}.k % 10 + 1"}} if name in ("importance", "greedy") else {}
        )
        return POLICIES[name](**by)

    def run(self, name: str, part: float, seed: int) -> tuple[float, Operator]:
        """The recall under a part of the memory, and the operator that had it."""
        query = self.trace.query(part * self.most, self.policy(name), seed)
        operator = Operator(query, {alias: rows.schema for alias, rows in self.trace.tables.items()})
        found = sum(operator.process(call).num_rows for call in self.calls)
        return found / self.trace.exact.measured.results, operator


def coverage(rows: int, console: Console) -> Figures:
    """How many of the 95 % intervals of some seeds hold the true recall."""

    def one(case: Case, name: str) -> dict[str, Any]:
        told = []
        for seed in range(seeds := _seeds(rows, 40)):
            recall, operator = case.run(name, COVERED, seed)
            m = operator.metrics()
            told.append((recall, m.recall_low <= recall <= m.recall_high, m.recall_high - m.recall_low))
        return {
            "inside": sum(inside for _, inside, _ in told),
            "of": seeds,
            "recall": fmean(recall for recall, _, _ in told),
            "width": fmean(width for _, _, width in told),
        }

    return _figures(tuple(POLICIES), one, console)


def forecast(rows: int, console: Console) -> Figures:
    """The recall that was measured beside what `explain` told of the same rows, and the operator after
    them."""

    def one(case: Case, name: str) -> dict[str, Any]:
        curve = explain(case.trace.query(COVERED * case.most, name), data=case.trace.tables)
        found: dict[str, Any] = {}
        for part in PARTS:
            recall, operator = case.run(name, part, 0)
            at, learned = round(part * case.most), operator.forecast()
            found[f"{part:.0%}: measured"] = recall
            found[f"{part:.0%}: explained"] = None if curve.recall is None else curve.recall.at(at)
            found[f"{part:.0%}: foretold"] = None if learned is None else learned.at(at)
        binds = explain(operator).binds
        return {**found, "10%: binds, of the time": binds}

    return _figures(FORECAST, one, console)


def policies(rows: int, console: Console) -> Figures:
    """The mean recall of `auto` and of single policies, and `auto` over the best of them."""
    figures = []
    for name, make in REAL.items():
        case = Case(make())
        for part in PARTS:
            with console.status(f"{name}, {part:.0%}"):
                mean = {
                    policy: fmean(case.run(policy, part, seed)[0] for seed in range(_seeds(rows, 12)))
                    for policy in ("auto", *SINGLE)
                }
            best = max(SINGLE, key=lambda policy: mean[policy])
            ratio = mean["auto"] / mean[best]
            figures.append({"data": f"{name}, {part:.0%}", **mean, "best": best, "auto / best": ratio})
    return figures


def _seeds(rows: int, most: int) -> int:
    """As many as asked for by `--rows`: all by default, four with --quick."""
    return max(1, min(most, rows // 180_000))


def _figures(names: tuple[str, ...], one: Callable[[Case, str], dict[str, Any]], console: Console) -> Figures:
    figures = []
    for data, make in REAL.items():
        case = Case(make())
        for name in names:
            if name == "uniform" and len(case.trace.tables) > 2:
                continue
            with console.status(f"{data}, {name}"):
                figures.append({"data": f"{data}, {name}", **one(case, name)})
    return figures
