"""In what order the windows are probed.

A strategy maps statistics to a full order for each arriving stream: every stream once, the arriving one
included. Under algorithm "eager" an order starts with the arriving stream, under "naive" all directions
share one order, under "general" the arriving stream may stand anywhere. No order takes a stream that
shares no checkable condition with those before it while another does (MultiJoin s. 5.4); a predicate in
pieces leaves no other choice, and then all are allowed.

Equal costs (to nine digits) go to the candidate considered first, and lower stream numbers are
considered first, so that the same statistics always give the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from types import MappingProxyType

from windrow.errors import Option, QueryError, unknown
from windrow.model.query import ALGORITHMS
from windrow.planning.cost import direction_cost, join_size, naive_cost, plan_cost
from windrow.planning.statistics import JoinStatistics

Order = tuple[int, ...]
Orders = dict[int, Order]
Price = Callable[[Order], float]

EXHAUSTIVE_LIMIT = 5
FAST = 2.0
"""A stream is fast when it has at least this many times the (lower) median rate."""
SAME = 1 + 1e-9
"""Costs within this factor of each other are equal."""


def choose_orders(stats: JoinStatistics, strategy: str, algorithm: str, tau: float = 0.0) -> Orders:
    """For each arriving stream the full order of all streams, itself included.

    Parameters
    ----------
    strategy
        A name in `STRATEGIES`.
    algorithm
        "eager", "naive" or "general".
    tau
        Time between executions, in the unit of the statistics; 0 for one per row.
    """
    if strategy not in STRATEGIES:
        raise QueryError(unknown("order", strategy, STRATEGIES), Option("order"))
    if algorithm not in ALGORITHMS:
        raise QueryError(unknown("algorithm", algorithm, ALGORITHMS), Option("algorithm"))
    if len(stats) == 2 and algorithm == "eager":
        return {0: (0, 1), 1: (1, 0)}  # there is nothing to choose
    return STRATEGIES[strategy](stats, algorithm, tau)


def follow(stats: JoinStatistics, first: int, preference: Sequence[int]) -> Order:
    """The order that starts with `first` and then takes, each time, the first connected stream preferred."""
    order = [first]
    left = [each for each in preference if each != first]
    while left:
        bound = frozenset(order)
        taken = next((each for each in left if stats.connected(bound, each)), left[0])
        order.append(taken)
        left.remove(taken)
    return tuple(order)


def heuristic_order(stats: JoinStatistics, tau: float = 0.0) -> Order:
    """MultiJoin's global order (s. 5.1): the joins with the fewest results first, then fast streams moved.

    Begins with the pair whose join is smallest, appends each time the stream that keeps the joined
    prefix smallest, and then tries every place for each fast stream, fastest first, keeping what costs
    less, until nothing does. Pairs of equal size are all carried through, each both ways round.
    """
    return _heuristic(stats, lambda order: plan_cost(stats, _arrivals_first(stats, order), tau))


def low_selectivity_orders(stats: JoinStatistics) -> Orders:
    """GrubJoin's (s. 5.3): direction i probes by ascending sigma_{i,k}; ties by rows, then number."""
    orders = {}
    for i in range(len(stats)):
        others = [k for k in range(len(stats)) if k != i]
        sigma = {k: stats.selectivity(frozenset({i}), k) for k in others}
        orders[i] = follow(stats, i, sorted(others, key=lambda k: (sigma[k], stats.streams[k].rows, k)))
    return orders


def exhaustive_orders(stats: JoinStatistics, algorithm: str, tau: float = 0.0) -> Orders:
    """The cheapest of all orders that the join graph allows, for up to five streams."""
    streams = range(len(stats))
    if len(stats) > EXHAUSTIVE_LIMIT:
        raise QueryError(
            f"'exhaustive' tries every order and is for up to {EXHAUSTIVE_LIMIT} streams, "
            f"got {len(stats)}; use 'heuristic'",
            Option("order"),
        )
    allowed = [order for order in permutations(streams) if _is_allowed(stats, order)]
    if algorithm == "naive":
        return dict.fromkeys(streams, _cheapest(allowed, partial(naive_cost, stats, tau=tau)))
    orders = {}
    for s in streams:
        # Among equals the one with the new rows outermost: it needs no window to be walked for them.
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
    """The rule speaks of arriving rows first; the other algorithms take the cheapest of its orders."""
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
    """The seed with the other streams appended, each time the one that keeps the join smallest."""
    order = seed
    while len(order) < len(stats):
        left = [each for each in range(len(stats)) if each not in order]
        left = [each for each in left if stats.connected(frozenset(order), each)] or left
        sizes = [join_size(stats, (*order, each)) for each in left]
        order = (*order, left[sizes.index(min(sizes))])
    return order


def _moved(stats: JoinStatistics, order: Order, price: Price) -> Order:
    """The order with its fast streams at the places where it costs least."""
    rates = [stream.rate for stream in stats.streams]
    median = sorted(rates)[(len(rates) - 1) // 2]
    fast = sorted((s for s in order if median < rates[s] >= FAST * median), key=lambda s: -rates[s])
    best = order
    for s in fast:
        rest = tuple(each for each in best if each != s)
        places = [(*rest[:at], s, *rest[at:]) for at in range(len(best))]
        best = _cheapest([best, *(place for place in places if _is_allowed(stats, place))], price)
    return best if best == order else _moved(stats, best, price)


def _arriving(stats: JoinStatistics, stream: int, tau: float) -> JoinStatistics:
    """What an execution for `stream` joins: only its new rows, at least one (s. 5.2: tau in place of T_i)."""
    window = stats.streams[stream]
    span = max(tau, 1 / window.rate) if window.rate else tau
    changed = (*stats.streams[:stream], replace(window, span=span), *stats.streams[stream + 1 :])
    return replace(stats, streams=changed)
