"""The lab's data and its clock."""

from datetime import timedelta

import numpy as np
import pytest

from windrow.errors import WindrowError
from windrow.testing.auctions import auctions_and_bids
from windrow_lab.clock import VirtualClock, WorkTotals, expiry_accesses
from windrow_lab.multijoin import interleaved_streams


def test_one_row_per_step_in_proportion_to_the_rates():
    tables = interleaved_streams((10, 1, 1, 3), (500, 50, 40, 5), 15_000, seed=1)
    assert list(tables) == ["s1", "s2", "s3", "s4"]
    times = np.sort(np.concatenate([t["ts"].to_numpy().astype("int64") for t in tables.values()]))
    assert (np.diff(times) == 1_000_000).all(), "one row a second, over all streams"
    counts = [t.num_rows for t in tables.values()]
    assert counts == pytest.approx([10_000, 1_000, 1_000, 3_000], rel=0.1)


def test_values_are_contained_and_uniform():
    tables = interleaved_streams((1, 1), (5, 20), 20_000, seed=2)
    seen = [np.bincount(t["attr"].to_numpy()) for t in tables.values()]
    assert [np.flatnonzero(s).tolist() for s in seen] == [list(range(1, 6)), list(range(1, 21))]
    assert seen[0][1:] == pytest.approx([2000] * 5, rel=0.1)


def test_the_same_seed_gives_the_same_rows():
    assert interleaved_streams((1, 2), (9, 9), 99, 7) == interleaved_streams((1, 2), (9, 9), 99, 7)
    assert interleaved_streams((1, 2), (9, 9), 99, 7) != interleaved_streams((1, 2), (9, 9), 99, 8)
    assert auctions_and_bids(60, 20, 3) == auctions_and_bids(60, 20, 3)
    assert auctions_and_bids(60, 20, 3) != auctions_and_bids(60, 20, 4)


def test_rates_and_values_must_fit():
    with pytest.raises(WindrowError, match="2 rates but 1"):
        interleaved_streams((1, 2), (9,), 10, 0)


def test_bids_follow_their_auctions():
    tables = auctions_and_bids(600, 50, seed=5)
    auctions, bids = tables["auctions"], tables["bids"]
    assert auctions.column_names == ["id", "seller", "category", "opened_at", "reserve", "item"]
    assert bids.column_names == ["auction_id", "bidder", "price", "bid_at"]
    opened = dict(zip(auctions["id"].to_pylist(), auctions["opened_at"].to_pylist(), strict=True))
    came = bids["bid_at"].to_pylist()
    delays = [at - opened[i] for i, at in zip(bids["auction_id"].to_pylist(), came, strict=True)]
    assert min(delays) >= timedelta(0)
    assert timedelta(seconds=40) < sum(delays, timedelta()) / len(delays) < timedelta(seconds=70)
    assert came == sorted(came)
    assert max(came) - min(opened.values()) < timedelta(seconds=600)
    per_auction = np.sort(np.bincount(bids["auction_id"].to_numpy()))[::-1]
    assert per_auction[:30].sum() > 5 * per_auction[300:330].sum(), "a few auctions draw most bids"


def test_virtual_clock():
    work = WorkTotals(comparisons=1_000, insertions=100, expiries=50)
    assert VirtualClock(capacity=1_150).seconds(work) == 1.0
    assert VirtualClock(capacity=1_000, insertion=0, expiry=2).seconds(work) == pytest.approx(1.1)
    assert VirtualClock(capacity=1_150).rate(100, work) == 100
    assert VirtualClock(capacity=1_000, result=3).seconds(WorkTotals(comparisons=400, results=200)) == 1.0
    with pytest.raises(WindrowError, match="capacity must be positive"):
        VirtualClock(capacity=0)
    with pytest.raises(WindrowError, match="must not be negative"):
        VirtualClock(result=-1)


def test_expiry_touches_every_bucket_each_pass_and_every_row_once():
    assert expiry_accesses(passes=3, buckets=(5, 5, 1), expired=7) == 3 * 11 + 7
