"""Choosing the lowest ranks: the same as sorting, whatever the ranks and weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windrow.kernels.select_lowest import mark_lowest

RANKS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 1e200, np.inf, -np.inf]),
    st.floats(-1e3, 1e3, allow_nan=False),
)
ROWS = st.lists(st.tuples(RANKS, st.sampled_from([0.0, 1.0, 3.5])), min_size=1, max_size=40)


def by_sorting(rank, frees, needed):
    order = np.argsort(rank, kind="stable")
    order = order[rank[order] < np.inf]
    before = np.concatenate(([0.0], np.cumsum(frees[order])[:-1]))
    mask = np.zeros(len(rank), bool)
    mask[order[before < needed]] = True
    return mask


def chosen(rank, frees, needed):
    out = np.ones(len(rank), bool)
    mark_lowest(rank, frees, needed, out)
    return out


@given(ROWS, st.floats(0.01, 1.0))
def test_few_rows_as_by_sorting(rows, part):
    rank, frees = (np.array(each, float) for each in zip(*rows, strict=True))
    needed = part * frees[rank < np.inf].sum()
    assert needed == 0.0 or (chosen(rank, frees, needed) == by_sorting(rank, frees, needed)).all()


@given(st.integers(0, 2**32), st.sampled_from(["two", "few", "many", "wide", "times"]), st.floats(0.01, 0.99))
def test_many_rows_as_by_sorting(seed, kind, part):
    random = np.random.default_rng(seed)
    count = int(random.integers(100, 5000))
    rank = {
        "two": lambda: random.integers(0, 2, count).astype(float),
        "few": lambda: random.integers(-30, 40, count).astype(float),
        "many": lambda: random.normal(size=count),
        "wide": lambda: np.where(random.random(count) < 0.5, 1e200, random.random(count)),
        "times": lambda: 1.7e15 + np.sort(random.integers(0, 10**8, count)),
    }[kind]()
    rank[random.random(count) < 0.2] = np.inf
    frees = np.where(random.random(count) < 0.2, 0.0, random.choice([1.0, 3.5], count))
    needed = part * frees[rank < np.inf].sum()
    assert (chosen(rank, frees, needed) == by_sorting(rank, frees, needed)).all()


def test_all_go_where_all_are_not_enough():
    rank = np.array([1.0, np.inf, -np.inf])
    assert chosen(rank, np.ones(3), 9.0).tolist() == [True, False, True]
