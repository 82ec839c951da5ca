"""Builds a plan from statistics: join orders, and steps with their expected work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windrow.errors import Option, QueryError
from windrow.model.plan import Direction, Plan, Step
from windrow.model.predicate import Predicate
from windrow.model.query import Query
from windrow.planning.equivalence import Class
from windrow.planning.order import choose_orders
from windrow.planning.statistics import JoinStatistics
from windrow.planning.steps import steps_of


def make_plan(
    query: Query,
    predicate: Predicate,
    classes: Sequence[Class],
    stats: JoinStatistics,
    learned: Mapping[int, tuple[int, ...]] | None = None,
) -> Plan:
    """The plan for these statistics. `learned` overrides orders by better ones found from measured probes."""
    orders = {**_orders(query, stats), **(learned or {})}
    paths = [s.path for s in query.streams.values()]
    directions = []
    for stream in range(len(stats)):
        order = orders[stream]
        steps = steps_of(order, predicate, classes, paths)
        directions.append(Direction(stream, order, _with_costs(stats, stream, order, steps)))
    return Plan(
        query.aliases,
        tuple(directions),
        tuple(s.rate for s in stats.streams),
        tuple(s.rows for s in stats.streams),
    )


def check_connected(query: Query, predicate: Predicate) -> None:
    """Refuses a predicate that does not connect all streams, unless the query allows a cross product."""
    links = [{w.stream for w in atom.columns} for atom in predicate.atoms] + [
        set(r.streams) for r in predicate.residuals
    ]
    connected, grown = set[int](), {0}
    while grown != connected:
        connected, grown = grown, grown.union(*(link for link in links if link & grown))
    apart = [alias for k, alias in enumerate(query.aliases) if k not in connected]
    if apart and not query.cross:
        raise QueryError(
            f"no condition links {apart} with '{query.aliases[0]}', so the result is a cross product; "
            "add a condition, or allow it with cross=True",
            Option("on"),
        )


def check_paths(query: Query, predicate: Predicate, classes: Sequence[Class]) -> None:
    """Refuses a hash path or a row window per key without an equality, and an inverted path without sets."""
    for stream, (alias, described) in enumerate(query.streams.items()):
        path = described.path
        if path is not None and path.path == "inverted" and not predicate.sets_of(stream):
            raise QueryError(
                f"an inverted path needs a condition such as jaccard({alias}.tags, ...) >= "
                f"0.5 or overlap({alias}.tags, ...) >= 2 between this stream and another; "
                "use 'hash', 'sorted' or 'scan'",
                Option(stream=alias),
            )
        if any(w.stream == stream for members in classes for w in members):
            continue
        if path is not None and path.path == "hash":
            raise QueryError(
                "a hash path needs an equality on this stream; use 'sorted' or 'scan'", Option(stream=alias)
            )
        if described.window.kind == "rows per key":
            raise QueryError(
                f"'{described.window}' needs an equality on this stream to give the key; "
                f"use '{described.window.size} rows'",
                Option(stream=alias),
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
