"""The cost model against every number that MultiJoin prints (s. 5.1, App. A, App. B)."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import WindrowError
from windrow.planning.cost import direction_cost, join_size, naive_cost, plan_cost
from windrow.planning.statistics import JoinStatistics, StreamStatistics
from windrow_lab.multijoin import arrival_first, eager_cost, lazy_cost


def on_one_attribute(*streams: tuple[float, float, float], **access) -> JoinStatistics:
    """Streams as (rate, span, distinct values), all joined on one attribute."""
    return JoinStatistics(
        tuple(StreamStatistics(rate, span, **access) for rate, span, _ in streams),
        ({i: v for i, (_, _, v) in enumerate(streams)},),
    )


TABLE_5 = on_one_attribute((10, 100, 500), (1, 100, 50), (1, 200, 40), (3, 100, 5))
TABLE_6 = on_one_attribute((100, 100, 200), (1, 100, 200), (1, 100, 20), (3, 100, 2))
TABLE_7 = on_one_attribute((11, 100, 200), (10, 100, 100), (1, 100, 65), (1, 100, 20))


def order(text: str) -> tuple[int, ...]:
    return tuple(int(each) - 1 for each in text)


def all_costs(stats: JoinStatistics) -> list[float]:
    return sorted(eager_cost(stats, each) for each in permutations(range(4)))


@pytest.mark.parametrize(
    ("stats", "text", "cost"),
    [
        (TABLE_5, "1234", 16000),
        (TABLE_5, "2134", 19600),
        (TABLE_6, "2134", 80400),
        (TABLE_6, "1234", 120000),
        (TABLE_7, "3412", 49542),
        (TABLE_7, "3142", 47977),
        (TABLE_7, "3124", 51954),
        (TABLE_7, "1234", 68200),
        (TABLE_7, "2134", 79000),
    ],
)
def test_costs_printed_exactly(stats, text, cost):
    assert round(eager_cost(stats, order(text))) == cost


def test_costs_printed_roughly():
    assert eager_cost(TABLE_6, order("2314")) == pytest.approx(123_000, rel=0.005)
    assert eager_cost(TABLE_6, order("2341")) == pytest.approx(248_000, rel=0.005)
    assert 80_000 < all_costs(TABLE_5)[-1] < 90_000
    assert 640_000 < all_costs(TABLE_6)[-1] < 650_000


def test_ranks_and_mean():
    assert all_costs(TABLE_5)[0] == eager_cost(TABLE_5, order("1234"))
    assert all_costs(TABLE_5)[4] == eager_cost(TABLE_5, order("2134")), "fifth best"
    assert all_costs(TABLE_6)[0] == eager_cost(TABLE_6, order("2134"))
    assert all_costs(TABLE_7)[0] == pytest.approx(eager_cost(TABLE_7, order("3142")))
    assert round(sum(all_costs(TABLE_7)) / 24) == 63362


def test_appendix_b_step_by_step():
    sizes = {"12": 200, "13": 400, "14": 600, "23": 400, "24": 600, "34": 1500, "123": 800, "124": 1200}
    assert {text: round(join_size(TABLE_5, order(text))) for text in sizes} == sizes
    directions = [direction_cost(TABLE_5, s, arrival_first(s, range(4))) for s in range(4)]
    assert directions == pytest.approx([3800, 3800, 2400, 6000])


def test_naive_formulas():
    """G_3 and G_4 of Appendix A, by hand for Table 5: rows 1000, 100, 200, 300; phi_12 200, phi_123 800."""
    assert direction_cost(TABLE_5, 2, order("1234")) == pytest.approx(1 * (1000 * 100 + 200 + 200 / 50 * 300))
    assert direction_cost(TABLE_5, 3, order("1234")) == pytest.approx(3 * (1000 * 100 + 200 * 200 + 800))


def test_lazy_naive_formulas():
    """H_3 and H_4 of Appendix A with tau = 10: windows hold 1100, 110, 210, 330."""
    phi_12 = 1100 * 110 / 500
    phi_123 = phi_12 * 210 / 50
    assert direction_cost(TABLE_5, 2, order("1234"), 10) == pytest.approx(
        1100 * 110 / 10 + phi_12 * 1 + phi_12 * 1 * 330 / 50
    )
    assert direction_cost(TABLE_5, 3, order("1234"), 10) == pytest.approx(
        1100 * 110 / 10 + phi_12 * 210 / 10 + phi_123 * 3
    )


def test_second_place_costs_what_first_does():
    """G_2 = C_2 and H_2 = L_2: the two outermost loops may be swapped."""
    for tau in (0.0, 5.0):
        swapped = direction_cost(TABLE_5, 1, order("1234"), tau)
        assert swapped == pytest.approx(direction_cost(TABLE_5, 1, order("2134"), tau))


def test_lazy_is_eager_with_longer_windows():
    longer = on_one_attribute((10, 107, 500), (1, 107, 50), (1, 207, 40), (3, 107, 5))
    assert lazy_cost(TABLE_5, order("1234"), 7) == pytest.approx(eager_cost(longer, order("1234")))


def test_equal_tables_divide_the_cost():
    hashed = on_one_attribute((1, 100, 50), (1, 100, 50), (1, 100, 50), access="hash", buckets=5)
    scanned = on_one_attribute((1, 100, 50), (1, 100, 50), (1, 100, 50))
    assert eager_cost(hashed, (0, 1, 2)) == pytest.approx(eager_cost(scanned, (0, 1, 2)) / 5)


def test_unbounded_hash_sees_only_matches():
    stats = on_one_attribute((1, 100, 50), (1, 100, 20), access="hash")
    assert stats.compared(frozenset({0}), 1, 100) == 2
    assert stats.compared(frozenset(), 1, 100) == 100, "nothing to look up: a scan"


def test_sorted_path_uses_the_range_and_never_exceeds_a_scan():
    streams = (StreamStatistics(1, 1024, "sorted"),) * 2
    band = JoinStatistics(streams, others=((frozenset({0, 1}), 0.01),))
    assert band.compared(frozenset({0}), 1, 1023) == pytest.approx(10 + 10.23)
    assert band.compared(frozenset({0}), 1, 1) <= 1


def test_join_size_does_not_depend_on_the_order():
    sizes = [join_size(TABLE_5, order) for order in permutations(range(4))]
    assert sizes == pytest.approx([sizes[0]] * len(sizes))


def test_conditions_count_once_they_can_be_checked():
    stats = JoinStatistics(
        (StreamStatistics(1, 10),) * 3,
        classes=({0: 4, 1: 8},),
        others=((frozenset({0, 1, 2}), 0.5), (frozenset({2}), 0.1)),
    )
    assert stats.selectivity(frozenset({0}), 1) == pytest.approx(1 / 8)
    assert stats.selectivity(frozenset({0}), 2) == pytest.approx(0.1), "its own filter only"
    assert stats.selectivity(frozenset({0, 1}), 2) == pytest.approx(0.05)
    assert not stats.connected(frozenset({0}), 2)
    assert stats.connected(frozenset({0, 1}), 2)


@given(
    st.lists(st.tuples(st.floats(0.1, 50), st.floats(1, 100), st.integers(1, 500)), min_size=2, max_size=4),
    st.sampled_from([0.0, 0.5, 10.0]),
)
def test_general_is_never_dearer(streams, tau):
    stats = on_one_attribute(*streams)
    orders = list(permutations(range(len(streams))))
    general = sum(min(direction_cost(stats, s, each, tau) for each in orders) for s in range(len(streams)))
    assert general <= min(naive_cost(stats, each, tau) for each in orders) * (1 + 1e-9)
    assert general <= min(lazy_cost(stats, each, tau) for each in orders) * (1 + 1e-9)
    assert plan_cost(stats, {}) == 0


def test_a_column_without_values_is_refused():
    with pytest.raises(WindrowError, match="at least one value"):
        JoinStatistics((StreamStatistics(1, 1),), ({0: 0.5},))
