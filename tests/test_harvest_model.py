"""What a harvest costs and finds, against the formulas written out; and the value it becomes."""

from __future__ import annotations

import json
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvests import random_model, slow_cost_and_output
from windrow.errors import QueryError
from windrow.harvest.model import CostFactors, HarvestModel
from windrow.harvest.solve import solve
from windrow.model.harvest import BasicWindows, Harvest, HarvestDirection, HarvestHop

PATHS = st.sampled_from(["scan", "sorted", "hash"])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 7), st.booleans(), st.data())
def test_tables_say_what_the_formulas_say(seed, streams, windows, ragged, data):
    rng = np.random.default_rng(seed)
    access = tuple(tuple(data.draw(PATHS) for _ in range(streams - 1)) for _ in range(streams))
    charges = CostFactors(lookup=rng.uniform(0, 3), match=rng.uniform(0, 3), arrival=rng.uniform(0, 50))
    model = random_model(rng, streams, windows, access=access, charges=charges, ragged=ragged)
    chosen = rng.integers(0, model.counts + 1)
    # More basic windows never cost less in the tables, even where min(scan, index) would say so.
    cost, output = slow_cost_and_output(model, chosen)
    assert model.at(chosen)[1] == pytest.approx(output, rel=1e-9)
    assert model.at(chosen)[0] >= cost * (1 - 1e-9)
    scans = HarvestModel(
        model.windows, model.rates, model.rows, model.orders, model.selectivities, model.scores
    )
    assert scans.at(chosen) == pytest.approx(slow_cost_and_output(scans, chosen), rel=1e-9)


def test_a_flat_stream_yields_what_is_looked_at():
    windows = BasicWindows.equal((10.0, 10.0), 5)
    model = HarvestModel(
        windows, [100, 200], [1000, 2000], ((1,), (0,)), [[0.01], [0.01]], np.ones((2, 1, 5))
    )
    # Each of 100 rows meets 2000 with 20 matches, each of 200 meets 1000 with 10.
    assert model.full == (400_000, 4000)
    assert model.at([[2], [1]]) == pytest.approx((100 * 800 + 200 * 200, 100 * 8 + 200 * 2))


def test_a_hop_of_three_windows_by_hand():
    """Scores 6, 3, 1 over 3 basic windows of 90 rows, selectivity 0.1: by hand."""
    windows = BasicWindows.equal((3.0, 3.0), 3)
    scores = np.array([[[3.0, 6, 1]], [[1, 1, 1]]])
    model = HarvestModel(windows, [1, 30], [3, 90], ((1,), (0,)), [[0.1], [0.1]], scores)
    _, _, found, work, fan = model.tables
    assert model.ranking[0, 0].tolist() == [1, 0, 2]
    assert found[0, 0] == pytest.approx([0, 0.6, 0.9, 1.0])
    assert work[0, 0] == pytest.approx([0, 30, 60, 90])
    assert fan[0, 0] == pytest.approx([0, 5.4, 8.1, 9.0])


def test_an_index_leaves_little_to_shed():
    """Half the work saves half the matches by hash, where rows met are matches; a scan saves fewer."""
    windows = BasicWindows.equal((10.0, 10.0), 10)
    args = (windows, [100, 100], [1000, 1000], ((1,), (0,)), np.full((2, 1), 0.05))
    scores = np.exp(-np.arange(10.0)) * np.ones((2, 1, 10))
    lost = {}
    for path in ("scan", "hash"):
        model = HarvestModel(*args, scores, access=((path,), (path,)), charges=CostFactors(lookup=0.1))
        lost[path] = 1 - solve(model, 0.5).recall
    assert lost["hash"] > 0.4 and lost["scan"] < 0.02


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.floats(0.02, 1))
@settings(max_examples=40, deadline=None)
def test_a_harvest_survives_json_and_adds_up(seed, streams, z):
    model = random_model(np.random.default_rng(seed), streams, 4)
    harvest = solve(model, z, parts=True)
    plain = json.loads(json.dumps(harvest.to_dict(), allow_nan=False))
    directions = plain.pop("directions")
    assert plain == {
        "throttle": harvest.throttle,
        "recall": harvest.recall,
        "method": harvest.method,
        "sizes": list(harvest.windows.sizes),
        "counts": list(harvest.windows.counts),
    }
    for direction, told in zip(harvest.directions, directions, strict=True):
        assert told["output"] == direction.output
        for hop, each in zip(direction.hops, told["hops"], strict=True):
            assert (each["stream"], each["fraction"], each["found"]) == (hop.stream, hop.fraction, hop.found)
            assert tuple(each["best"]) == hop.probed
            assert tuple(map(tuple, each["pieces"])) == hop.pieces
    assert harvest.cost <= z * harvest.full_cost * (1 + 1e-9)
    assert harvest.everything == (z == 1)
    assert 0 <= harvest.recall <= 1 + 1e-12


def test_everything_is_everything():
    windows = BasicWindows((10.0, 7.0), (2.0, 2.0))
    hops = [HarvestHop(s, tuple(range(n)), n, 1.0) for s, n in ((1, 4), (0, 5))]
    harvest = Harvest(windows, tuple(HarvestDirection(k, (hop,)) for k, hop in enumerate(hops)))
    assert windows.counts == (5, 4)
    assert harvest.everything and harvest.recall == 1
    assert harvest.directions[0].hops[0].ages(windows) == ((-inf, 7.0),)


def test_ages_of_what_is_looked_at():
    windows = BasicWindows((10.0,), (2.0,))
    assert HarvestHop(0, (3, 2, 4, 1, 0), 3, 1.0).ages(windows) == ((4, 10),)
    assert HarvestHop(0, (0, 4, 1, 2, 3), 2, 1.0).ages(windows) == ((-inf, 2), (8, 10))
    # In part, the end beside the better neighbour: 3 has 2 before it at the young side, 1 has 2 at the old.
    assert HarvestHop(0, (2, 3, 1, 4, 0), 1.5, 1.0).ages(windows) == ((4, 7),)
    assert HarvestHop(0, (2, 1, 3, 4, 0), 1.25, 1.0).ages(windows) == ((3.5, 6),)
    assert HarvestHop(0, (2, 1, 3, 4, 0), 1.25, 1.0).picture() == "○◐●○○"
    assert HarvestHop(0, (2, 1, 3, 4, 0), 0, 0.0).ages(windows) == ()


def test_bad_models_are_refused():
    windows = BasicWindows.equal((10.0, 10.0), 2)
    good = {
        "windows": windows,
        "rates": [1, 1],
        "rows": [10, 10],
        "orders": ((1,), (0,)),
        "selectivities": [[0.1], [0.1]],
        "scores": np.ones((2, 1, 2)),
    }
    HarvestModel(**good)
    for wrong, said in [
        ({"rates": [1, -1]}, "rates must be numbers from 0 up"),
        ({"scores": np.ones((2, 1, 3))}, "scores of shape"),
        ({"orders": ((0,), (0,))}, "names every other of 2 once"),
        ({"access": (("hsh",), ("hash",))}, "Did you mean 'hash'"),
    ]:
        with pytest.raises(QueryError, match=said):
            HarvestModel(**{**good, **wrong})
