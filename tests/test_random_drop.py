"""RandomDrop's rates against a grid; and the memory a harvest does not need."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvests import random_model
from windrow.errors import QueryError
from windrow.harvest.model import HarvestModel, max_useful_ages
from windrow.harvest.random_drop import drop_rates
from windrow.harvest.solve import solve
from windrow.model.harvest import BasicWindows, Harvest, HarvestDirection, HarvestHop


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95), st.sampled_from([0.0005, 0.01]))
def test_no_drop_rates_of_a_grid_are_better(seed, z, selectivity):
    model = random_model(np.random.default_rng(seed), 3, 2, selectivity=selectivity)
    found = drop_rates(model, z)
    assert found.cost <= z * model.full[0] * (1 + 1e-6)
    # Every result needs a row of each stream.
    assert found.output == pytest.approx(model.full[1] * np.prod(found.keep), rel=1e-9)
    for keep in product(np.linspace(0.1, 1, 10), repeat=3):
        cost, output = model.admitting(np.array(keep))
        if cost <= z * model.full[0]:
            assert output <= found.output * 1.0005


def test_two_equal_streams_lose_the_square_root_each():
    """Cost and output are both the product of the two parts: any split is as good; equal ones by hand."""
    windows = BasicWindows.equal((10.0, 10.0), 5)
    model = HarvestModel(
        windows, [100, 100], [1000, 1000], ((1,), (0,)), np.full((2, 1), 0.01), np.ones((2, 1, 5))
    )
    found = drop_rates(model, 0.25)
    assert found.output == pytest.approx(0.25 * model.full[1], rel=1e-6)
    assert drop_rates(model, 1.0).keep == (1, 1) and drop_rates(model, 1.0).drop == (0, 0)
    with pytest.raises(QueryError, match="above 0"):
        drop_rates(model, 0.0)


def test_harvest_beats_dropping_where_lags_are_known():
    rng = np.random.default_rng(5)
    for z in (0.1, 0.3, 0.6):
        model = random_model(rng, 3, 10)
        assert solve(model, z).output > 1.3 * drop_rates(model, z).output


def test_ages_worth_keeping_by_hand():
    windows = BasicWindows((10.0, 10.0, 9.0), (2.0, 2.0, 2.0))

    def hop(stream, used):
        ranking = (1, 2, 0, 3, 4)
        return HarvestHop(stream, ranking, used, 0.5)

    directions = (
        HarvestDirection(0, (hop(1, 1), hop(2, 5))),
        HarvestDirection(1, (hop(0, 5), hop(2, 0))),  # finds nothing, so needs nothing
        HarvestDirection(2, (hop(0, 2), hop(1, 1.5))),
    )
    harvest = Harvest(windows, directions)
    # Stream 0: basic windows 1 and 2, to 6 s. Stream 1: 1 and half of 2, the young end, to 5 s.
    assert max_useful_ages(harvest) == (6, 5, 9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1))
def test_no_age_that_is_looked_at_is_let_go(seed, z):
    harvest = solve(random_model(np.random.default_rng(seed), 3, 6, ragged=True), z, parts=True)
    ages = max_useful_ages(harvest)
    looked = [
        (hop.stream, high)
        for direction in harvest.directions
        if not direction.idle
        for hop in direction.hops
        for _, high in hop.ages(harvest.windows)
    ]
    assert all(high <= ages[stream] for stream, high in looked)
    assert all(age == 0 or (stream, age) in looked for stream, age in enumerate(ages))
