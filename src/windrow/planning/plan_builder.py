"""Builds a plan from statistics: join orders, and steps with their expected work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from windrow.model.plan import Direction, Plan, Step
from windrow.model.predicate import Predicate
from windrow.model.query import Query
from windrow.planning.order import choose_orders
from windrow.planning.statistics import JoinStatistics
from windrow.planning.steps import steps_of


def make_plan(
    query: Query,
    predicate: Predicate,
    stats: JoinStatistics,
    learned: Mapping[int, tuple[int, ...]] | None = None,
) -> Plan:
    """The plan for these statistics. `learned` overrides orders by better ones found from measured probes."""
    orders = {**_orders(query, stats), **(learned or {})}
    paths = [s.path for s in query.streams.values()]
    directions = []
    for stream in range(len(stats)):
        order = orders[stream]
        steps = steps_of(order, predicate, paths)
        directions.append(Direction(stream, order, _with_costs(stats, stream, order, steps)))
    return Plan(
        query.aliases,
        tuple(directions),
        tuple(s.rate for s in stats.streams),
        tuple(s.rows for s in stats.streams),
    )


def _orders(query: Query, stats: JoinStatistics) -> Mapping[int, tuple[int, ...]]:
    if isinstance(query.order, Mapping):
        number = {alias: k for k, alias in enumerate(query.aliases)}
        return {number[a]: tuple(number[x] for x in order) for a, order in query.order.items()}
    pace = query.evaluate_interval
    tau = 0.0
    if pace is not None and pace.rows != 1:
        total = sum(s.rate for s in stats.streams)
        tau = (pace.time or 0) / 1e6 if pace.time else (pace.rows or 0) / max(total, 1e-9)
    assert isinstance(query.order, str)
    return choose_orders(stats, query.order, query.algorithm, tau)


def _with_costs(
    stats: JoinStatistics, arriving: int, order: tuple[int, ...], steps: tuple[Step, ...]
) -> tuple[Step, ...]:
    """The steps with the cost model applied along one order (MultiJoin App. A), per second."""
    rate = stats.streams[arriving].rate
    partial = rate if order[0] == arriving else rate * stats.streams[order[0]].rows
    costed = []
    for k, step in enumerate(steps):
        bound = frozenset(order[: k + 1])
        rows = 1.0 if step.stream == arriving else stats.streams[step.stream].rows
        compared = partial * stats.compared(bound, step.stream, rows)
        partial *= rows * stats.selectivity(bound, step.stream)
        costed.append(replace(step, comparisons=compared, results=partial))
    return tuple(costed)
