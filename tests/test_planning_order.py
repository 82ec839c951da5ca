"""Orders: the paper's three examples, and what every strategy promises on random joins."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.errors import QueryError
from windrow.model.query import ALGORITHMS, ORDERS, Query, Stream
from windrow.planning.cost import plan_cost
from windrow.planning.order import (
    STRATEGIES,
    choose_orders,
    exhaustive_orders,
    heuristic_order,
    low_selectivity_orders,
)
from windrow.planning.statistics import JoinStatistics, StreamStatistics
from windrow_lab.multijoin import arrival_first, eager_cost


def on_one_attribute(*streams: tuple[float, float, float]) -> JoinStatistics:
    return JoinStatistics(
        tuple(StreamStatistics(rate, span) for rate, span, _ in streams),
        ({i: v for i, (_, _, v) in enumerate(streams)},),
    )


TABLE_5 = on_one_attribute((10, 100, 500), (1, 100, 50), (1, 200, 40), (3, 100, 5))
TABLE_6 = on_one_attribute((100, 100, 200), (1, 100, 200), (1, 100, 20), (3, 100, 2))
TABLE_7 = on_one_attribute((11, 100, 200), (10, 100, 100), (1, 100, 65), (1, 100, 20))


@pytest.mark.parametrize(
    ("stats", "best"), [(TABLE_5, (0, 1, 2, 3)), (TABLE_6, (1, 0, 2, 3)), (TABLE_7, (2, 0, 3, 1))]
)
def test_heuristic_finds_the_best_global_order(stats, best):
    assert heuristic_order(stats) == best
    cheapest = min(eager_cost(stats, each) for each in permutations(range(4)))
    assert eager_cost(stats, best) == pytest.approx(cheapest)


def test_choose_orders_starts_eager_directions_with_the_arrival():
    orders = choose_orders(TABLE_6, "heuristic", "eager")
    assert orders == {s: arrival_first(s, (1, 0, 2, 3)) for s in range(4)}


def test_low_selectivity_first():
    """Star around stream 0; its partners match with probability 0.3, 0.1 and 0.2."""
    partners = {1: 0.3, 2: 0.1, 3: 0.2}
    stats = JoinStatistics(
        (StreamStatistics(1, 10),) * 4,
        others=tuple((frozenset({0, k}), p) for k, p in partners.items()),
    )
    orders = low_selectivity_orders(stats)
    assert orders[0] == (0, 2, 3, 1)
    assert orders[1][:2] == (1, 0), "only the centre is connected to stream 1"


def test_chain_is_walked_along_its_links():
    chain = JoinStatistics(
        (StreamStatistics(1, 10),) * 4, classes=({0: 10, 1: 10}, {1: 10, 2: 10}, {2: 10, 3: 10})
    )
    for strategy in STRATEGIES:
        assert choose_orders(chain, strategy, "eager")[0] == (0, 1, 2, 3)
        assert choose_orders(chain, strategy, "eager")[3] == (3, 2, 1, 0)


def test_fast_stream_goes_last_when_evaluation_is_lazy():
    """Fig. 3(b): with tau large the ten times faster stream is best ordered last, and only then."""
    stats = on_one_attribute((1, 100, 50), (1, 100, 50), (1, 100, 50), (10, 100, 50))
    assert exhaustive_orders(stats, "general", 1.0)[3][0] == 3
    assert exhaustive_orders(stats, "general", 50.0)[3][-1] == 3
    assert choose_orders(stats, "heuristic", "general", 50.0)[3][-1] == 3


@st.composite
def joins(draw):
    count = draw(st.integers(2, 5))
    streams = tuple(
        StreamStatistics(
            draw(st.floats(0, 50)), draw(st.floats(0, 100)), draw(st.sampled_from(["scan", "hash"]))
        )
        for _ in range(count)
    )
    some = st.sets(st.integers(0, count - 1), min_size=2)
    classes = [dict.fromkeys(draw(some), draw(st.integers(1, 99))) for _ in range(draw(st.integers(0, 2)))]
    others = [(frozenset(draw(some)), draw(st.floats(0, 1))) for _ in range(draw(st.integers(0, 2)))]
    return JoinStatistics(streams, tuple(classes), tuple(others))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@given(stats=joins(), tau=st.sampled_from([0.0, 3.0]))
@settings(max_examples=60, deadline=None)
def test_every_strategy_keeps_its_promises(strategy, algorithm, stats, tau):
    orders = choose_orders(stats, strategy, algorithm, tau)
    streams = set(range(len(stats)))
    assert set(orders) == streams
    for stream, order in orders.items():
        assert sorted(order) == sorted(streams)
        if algorithm == "eager":
            assert order[0] == stream
        for position in range(1, len(order)):
            bound, left = frozenset(order[:position]), order[position:]
            if any(stats.connected(bound, each) for each in left):
                assert stats.connected(bound, order[position]), "a connected stream was passed over"
    if algorithm == "naive":
        assert len(set(orders.values())) == 1
    best = plan_cost(stats, exhaustive_orders(stats, algorithm, tau), tau)
    assert plan_cost(stats, orders, tau) >= best * (1 - 1e-9)
    assert orders == choose_orders(stats, strategy, algorithm, tau)


def test_every_order_a_query_may_name_has_a_strategy():
    assert set(STRATEGIES) == set(ORDERS)


def test_unknown_names_are_refused_with_a_hint():
    def described(count: int, **settings: str) -> Query:
        return Query({alias: Stream("at", "5 s") for alias in "abcdef"[:count]}, "a.k = b.k", **settings)

    with pytest.raises(QueryError, match="Did you mean 'heuristic'"):
        described(2, order="heuristics")
    with pytest.raises(QueryError, match="Did you mean 'naive'"):
        described(2, algorithm="naiv")
    with pytest.raises(QueryError, match="up to 5 streams"):
        described(6, order="exhaustive")


def test_eight_streams_are_ordered():
    many = on_one_attribute(*[(rate, 60, 100) for rate in (1, 9, 2, 30, 1, 4, 20, 8)])
    for strategy in ("heuristic", "low-selectivity"):
        for algorithm in ALGORITHMS:
            assert len(choose_orders(many, strategy, algorithm)) == 8
