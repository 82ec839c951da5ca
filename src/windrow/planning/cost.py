"""What an order costs: attribute comparisons per unit of time (MultiJoin s. 4.2, App. A).

A direction is the work caused by the arrivals of one stream. Its order names all streams; each stream is
a loop inside the one before, and a loop over `n` rows entered by `p` partial matches costs `p * n`
comparisons, or fewer through an index. The first loop has nothing to compare with and is free. Where the
arriving stream stands, its loop covers only its new rows: one at a time (`tau` = 0, the join runs once
per row), or all that came in the last `tau` units (the join runs once per `tau`, and since old rows are
let go at the same pace every window holds `tau` more).

    stream 0 arrives, order 0, 1, 2:   rate_0 * (rows_1 + rows_1 * s_01 * rows_2)
    stream 2 arrives, order 0, 1, 2:   rate_2 * (rows_0 * rows_1 + rows_0 * rows_1 * s_01 * 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from windrow.planning.statistics import JoinStatistics


def join_size(stats: JoinStatistics, streams: Sequence[int]) -> float:
    """Expected results of joining these windows as they stand (phi in App. A); any order gives the same."""
    size = 1.0
    for position, stream in enumerate(streams):
        bound = frozenset(streams[:position])
        size *= stats.streams[stream].rows * stats.selectivity(bound, stream)
    return size


def direction_cost(stats: JoinStatistics, stream: int, order: Sequence[int], tau: float = 0.0) -> float:
    """Comparisons per unit of time caused by arrivals on `stream`, under a full order with it anywhere."""
    arriving = stats.streams[stream].rate * tau if tau > 0 else 1.0
    runs = 1.0 / tau if tau > 0 else stats.streams[stream].rate
    partial, comparisons = 1.0, 0.0
    for position, each in enumerate(order):
        window = stats.streams[each]
        rows = arriving if each == stream else window.rate * (window.span + tau)
        bound = frozenset(order[:position])
        if position:
            comparisons += partial * stats.compared(bound, each, rows)
        partial *= rows * stats.selectivity(bound, each)
    return runs * comparisons


def plan_cost(stats: JoinStatistics, orders: Mapping[int, Sequence[int]], tau: float = 0.0) -> float:
    """Comparisons per unit of time of all directions, each with its own full order."""
    return sum(direction_cost(stats, stream, order, tau) for stream, order in orders.items())


def arrival_first(stream: int, global_order: Sequence[int]) -> tuple[int, ...]:
    """The order that starts from the arriving row and then follows the global order (s. 3.2)."""
    return (stream, *(each for each in global_order if each != stream))


def lazy_cost(stats: JoinStatistics, global_order: Sequence[int], tau: float) -> float:
    """LAZY MULTI-WAY: new rows in the outermost loop, re-evaluation and expiry every `tau`."""
    return plan_cost(stats, {s: arrival_first(s, global_order) for s in range(len(stats))}, tau)


def eager_cost(stats: JoinStatistics, global_order: Sequence[int]) -> float:
    """EAGER MULTI-WAY: the same for each row as it comes."""
    return lazy_cost(stats, global_order, 0.0)


def naive_cost(stats: JoinStatistics, order: Sequence[int], tau: float = 0.0) -> float:
    """NAIVE: one order whatever arrives."""
    return plan_cost(stats, dict.fromkeys(range(len(stats)), order), tau)


def general_cost(stats: JoinStatistics, tau: float = 0.0) -> float:
    """GENERAL LAZY: for each stream the cheapest of all n! orders, wherever it puts the new rows."""
    streams = range(len(stats))
    return sum(min(direction_cost(stats, s, order, tau) for order in permutations(streams)) for s in streams)


def results_rate(stats: JoinStatistics, stream: int | None = None) -> float:
    """Expected results per unit of time that arrivals on `stream` complete; of all streams when None."""
    if stream is None:
        return sum(results_rate(stats, each) for each in range(len(stats)))
    produced = stats.streams[stream].rate
    bound: frozenset[int] = frozenset()
    for each in arrival_first(stream, range(len(stats))):
        rows = 1.0 if each == stream else stats.streams[each].rows
        produced *= rows * stats.selectivity(bound, each)
        bound |= {each}
    return produced
