"""Strategies that choose the order in which windows are probed.

A strategy maps statistics to a full order for each arriving stream: every stream once, the arriving one
included. With algorithm "eager" an order starts with the arriving stream, with "naive" all directions share
one order, with "general" the arriving stream may be anywhere. An order continues with a stream that shares a
checkable condition with those before it, if there is one (MultiJoin s. 5.4), and otherwise with any stream.

Of candidates with equal costs (to nine digits) the first one wins. Lower stream numbers are tried first, so
the same statistics always give the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from types import MappingProxyType

from windrow.planning.cost import direction_cost, join_size, naive_cost, plan_cost
from windrow.planning.statistics import JoinStatistics

Order = tuple[int, ...]
Orders = dict[int, Order]
Price = Callable[[Order], float]

FAST = 2.0
"""A stream is fast if its rate is at least this many times the (lower) median rate."""
SAME = 1 + 1e-9
"""Costs within this factor of each other are equal."""


def choose_orders(stats: JoinStatistics, strategy: str, algorithm: str, tau: float = 0.0) -> Orders:
    """For each arriving stream the full order of all streams, itself included. `tau` is the time between
    executions, in the unit of the statistics; 0 for one per row."""
    if len(stats) == 2 and algorithm == "eager":
        return {0: (0, 1), 1: (1, 0)}  # there is nothing to choose
    return STRATEGIES[strategy](stats, algorithm, tau)


def follow(stats: JoinStatistics, first: int, preference: Sequence[int]) -> Order:
    """The order that starts with `first` and always continues with the most preferred connected stream."""
    order = [first]
    left = [stream for stream in preference if stream != first]
    while left:
        bound = frozenset(order)
        chosen = next((stream for stream in left if stats.connected(bound, stream)), left[0])
        order.append(chosen)
        left.remove(chosen)
    return tuple(order)


def heuristic_order(stats: JoinStatistics, tau: float = 0.0) -> Order:
    """MultiJoin's global order (s. 5.1): smallest joins first, then fast streams moved.

    Begins with the pair whose join is smallest and repeatedly appends the stream that keeps the joined prefix
    smallest. Then moves each fast stream, fastest first, to the place where the order is cheapest, until no
    move helps. If several pairs are equally small, it tries all of them, each in both directions.
    """
    return _heuristic(stats, lambda order: plan_cost(stats, _arrivals_first(stats, order), tau))


def low_selectivity_orders(stats: JoinStatistics) -> Orders:
    """GrubJoin's orders (s. 5.3): direction i probes by ascending sigma_{i,k}; ties by rows, then number."""
    orders = {}
    for i in range(len(stats)):
        others = [k for k in range(len(stats)) if k != i]
        sigma = {k: stats.selectivity(frozenset({i}), k) for k in others}
        orders[i] = follow(stats, i, sorted(others, key=lambda k: (sigma[k], stats.streams[k].rows, k)))
    return orders


def exhaustive_orders(stats: JoinStatistics, algorithm: str, tau: float = 0.0) -> Orders:
    """The cheapest of all orders that the join graph allows. A query may ask for it with few streams."""
    streams = range(len(stats))
    allowed = [order for order in permutations(streams) if _is_allowed(stats, order)]
    if algorithm == "naive":
        return dict.fromkeys(streams, _cheapest(allowed, partial(naive_cost, stats, tau=tau)))
    orders = {}
    for s in streams:
        # Of equally cheap orders, prefer the one with the new rows outermost: it scans no window first.
        ranked = sorted(allowed, key=lambda order: order.index(s))
        candidates = [order for order in ranked if algorithm == "general" or order[0] == s]
        orders[s] = _cheapest(candidates, partial(direction_cost, stats, s, tau=tau))
    return orders


def _by_heuristic(stats: JoinStatistics, algorithm: str, tau: float) -> Orders:
    streams = range(len(stats))
    if algorithm == "naive":
        return dict.fromkeys(streams, _heuristic(stats, partial(naive_cost, stats, tau=tau)))
    eager = _arrivals_first(stats, heuristic_order(stats, tau))
    if algorithm == "eager":
        return eager
    orders = {}
    for s in streams:
        price = partial(direction_cost, stats, s, tau=tau)
        orders[s] = _cheapest([eager[s], _heuristic(_arriving(stats, s, tau), price)], price)
    return orders


def _by_low_selectivity(stats: JoinStatistics, algorithm: str, tau: float) -> Orders:
    """The rule defines eager orders only; the other algorithms take the cheapest of these."""
    orders = low_selectivity_orders(stats)
    if algorithm == "eager":
        return orders
    if algorithm == "naive":
        return dict.fromkeys(orders, _cheapest(orders.values(), partial(naive_cost, stats, tau=tau)))
    return {
        s: _cheapest([own, *orders.values()], partial(direction_cost, stats, s, tau=tau))
        for s, own in orders.items()
    }


STRATEGIES: Mapping[str, Callable[[JoinStatistics, str, float], Orders]] = MappingProxyType(
    {"heuristic": _by_heuristic, "low-selectivity": _by_low_selectivity, "exhaustive": exhaustive_orders}
)


def _arrivals_first(stats: JoinStatistics, global_order: Sequence[int]) -> Orders:
    return {s: follow(stats, s, global_order) for s in range(len(stats))}


def _is_allowed(stats: JoinStatistics, order: Order) -> bool:
    return order == follow(stats, order[0], order)


def _cheapest(candidates: Iterable[Order], price: Price) -> Order:
    priced = [(price(order), order) for order in candidates]
    least = min(cost for cost, _ in priced)
    return next(order for cost, order in priced if cost <= least * SAME)


def _heuristic(stats: JoinStatistics, price: Price) -> Order:
    pairs = list(permutations(range(len(stats)), 2))
    pairs = [(a, b) for a, b in pairs if stats.connected(frozenset({a}), b)] or pairs
    smallest = min(join_size(stats, pair) for pair in pairs)
    seeds = [pair for pair in pairs if join_size(stats, pair) <= smallest * SAME]
    return _cheapest([_moved(stats, _grown(stats, seed), price) for seed in seeds], price)


def _grown(stats: JoinStatistics, seed: Order) -> Order:
    """The seed with the other streams appended; next is always the one that keeps the join smallest."""
    order = seed
    while len(order) < len(stats):
        left = [s for s in range(len(stats)) if s not in order]
        left = [s for s in left if stats.connected(frozenset(order), s)] or left
        order = (*order, min(left, key=lambda s: join_size(stats, (*order, s))))
    return order


def _moved(stats: JoinStatistics, order: Order, price: Price) -> Order:
    """The order with its fast streams where they make it cheapest."""
    rates = [stream.rate for stream in stats.streams]
    median = sorted(rates)[(len(rates) - 1) // 2]
    fast = sorted((s for s in order if median < rates[s] >= FAST * median), key=lambda s: -rates[s])
    best = order
    for s in fast:
        rest = tuple(other for other in best if other != s)
        places = [(*rest[:at], s, *rest[at:]) for at in range(len(best))]
        best = _cheapest([best, *(place for place in places if _is_allowed(stats, place))], price)
    return best if best == order else _moved(stats, best, price)


def _arriving(stats: JoinStatistics, stream: int, tau: float) -> JoinStatistics:
    """Statistics of one execution for `stream`: its window is its new rows, at least one (s. 5.2)."""
    window = stats.streams[stream]
    span = max(tau, 1 / window.rate) if window.rate else tau
    changed = (*stats.streams[:stream], replace(window, span=span), *stats.streams[stream + 1 :])
    return replace(stats, streams=changed)
