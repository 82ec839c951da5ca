"""The cost of a join order: attribute comparisons per unit of time (MultiJoin s. 4.2, App. A).

A direction is the work caused by arrivals on one stream. Its order lists all streams as nested loops, the
first one outermost. A loop over `n` rows entered by `p` partial matches costs `p * n` comparisons, or fewer
through an index. The first loop has nothing to compare with and is free. The loop of the arriving stream
covers only its new rows: one row if `tau` is 0 and the join runs once per row, else the rows of the last
`tau` units. The join then runs once per `tau`; rows expire at the same pace, so every window holds `tau`
more.

    stream 0 arrives, order 0, 1, 2:   rate_0 * (rows_1 + rows_1 * s_01 * rows_2)
    stream 2 arrives, order 0, 1, 2:   rate_2 * (rows_0 * rows_1 + rows_0 * rows_1 * s_01 * 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windrow.planning.statistics import JoinStatistics


def join_size(stats: JoinStatistics, streams: Sequence[int]) -> float:
    """Expected results of joining these windows once (phi in App. A), the same in any order."""
    size = 1.0
    for position, stream in enumerate(streams):
        bound = frozenset(streams[:position])
        size *= stats.streams[stream].rows * stats.selectivity(bound, stream)
    return size


def direction_cost(stats: JoinStatistics, stream: int, order: Sequence[int], tau: float = 0.0) -> float:
    """Comparisons per unit of time caused by arrivals on `stream`, anywhere in the full order."""
    arriving = stats.streams[stream].rate * tau if tau > 0 else 1.0
    runs = 1.0 / tau if tau > 0 else stats.streams[stream].rate
    partial, comparisons = 1.0, 0.0
    for position, other in enumerate(order):
        window = stats.streams[other]
        rows = arriving if other == stream else window.rate * (window.span + tau)
        bound = frozenset(order[:position])
        if position:
            comparisons += partial * stats.compared(bound, other, rows)
        partial *= rows * stats.selectivity(bound, other)
    return runs * comparisons


def plan_cost(stats: JoinStatistics, orders: Mapping[int, Sequence[int]], tau: float = 0.0) -> float:
    """Comparisons per unit of time of all directions, each with its own full order."""
    return sum(direction_cost(stats, stream, order, tau) for stream, order in orders.items())


def naive_cost(stats: JoinStatistics, order: Sequence[int], tau: float = 0.0) -> float:
    """NAIVE: the same order for every arriving stream."""
    return plan_cost(stats, dict.fromkeys(range(len(stats)), order), tau)
