"""A join on a machine that is too slow for it: exact, harvested, and with rows dropped.

The machine is virtual. Its speed is such that the exact join would take a given multiple of the time in which
its rows arrive. The outcome depends on the rows and the seed alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow.engine.operator import Operator
from windrow.model.harvest import Harvest
from windrow.model.query import Query, Stream
from windrow_lab.grubjoin import RunOutcome, run_in_ticks

POLICIES = ("harvest", "drop")
UNLIMITED = 1e12


@dataclass(frozen=True)
class Scenario:
    """Streams and the join over them.

    Parameters
    ----------
    tables
        Rows of each stream, in the order of their times.
    seconds, tick
        How long the streams are, and how much of them is handed over at once.
    time, within, on
        As in a query; windows are scanned.
    """

    tables: Mapping[str, pa.Table]
    seconds: float
    tick: float
    time: str
    within: str
    on: str

    def query(self, **limits: Any) -> Query:
        streams = {alias: Stream(self.time, self.within, "scan") for alias in self.tables}
        return Query(streams, self.on, **limits)

    def run(self, capacity: float, **limits: Any) -> tuple[RunOutcome, Harvest | None]:
        """Runs with this many comparisons per second; returns a typical harvest of the second half."""
        harvests: list[Harvest] = []

        def keep(tick: int, operator: Operator, output: pa.Table) -> None:
            if operator.plan is not None and operator.plan.harvest is not None:
                harvests.append(operator.plan.harvest)

        ran = run_in_ticks(self.query(**limits), self.tables, self.seconds, self.tick, capacity, keep)
        later = sorted(harvests[len(harvests) // 2 :], key=lambda harvest: harvest.throttle)
        return ran, later[len(later) // 2] if later else None


@dataclass(frozen=True)
class PolicyComparison:
    """What the two ways of shedding load have left of the exact answer on a slow machine."""

    aliases: tuple[str, ...]
    slower: float
    exact: RunOutcome
    ran: Mapping[str, RunOutcome]
    harvest: Harvest | None

    def recall(self, policy: str) -> float:
        """The true one: results over those of the exact join."""
        return float(self.ran[policy].results.sum() / self.exact.results.sum())

    def row(self) -> dict[str, Any]:
        """For an experiment."""
        found: dict[str, Any] = {"slower": self.slower, "exact": int(self.exact.results.sum())}
        for policy, ran in self.ran.items():
            quality = ran.measured
            found |= {
                policy: self.recall(policy),
                f"{policy} estimated": float(quality.recall),
                f"{policy} low": float(quality.recall_low),
                f"{policy} high": float(quality.recall_high),
                f"{policy} throttle": ran.throttle(),
            }
        return found

    def __str__(self) -> str:
        lines = [
            f"exact: {int(self.exact.results.sum()):,} results, {int(self.exact.work.sum()):,} comparisons",
            f"on a machine {self.slower:g} times too slow:",
        ]
        for policy, ran in self.ran.items():
            quality = ran.measured
            lines.append(
                f"  {policy:8} {int(ran.results.sum()):7,} results, recall {self.recall(policy):.3f}, "
                f"estimated {quality.recall:.3f} [{quality.recall_low:.3f}, {quality.recall_high:.3f}], "
                f"throttle {ran.throttle():.3f}"
            )
        return "\n".join(
            [*lines, "nothing is shed" if self.harvest is None else self.harvest.text(self.aliases)]
        )


def compare(scene: Scenario, slower: float, seed: int = 0) -> PolicyComparison:
    """Runs a scene exactly, and on a machine that is so many times too slow harvested and with rows
    dropped."""
    exact, _ = scene.run(UNLIMITED, seed=seed)
    capacity = exact.work.sum() / scene.seconds / slower
    ran = {p: scene.run(capacity, seed=seed, deadline=f"{scene.tick:g} s", shed=p) for p in POLICIES}
    return PolicyComparison(
        tuple(scene.tables), slower, exact, {p: r for p, (r, _) in ran.items()}, ran["harvest"][1]
    )
