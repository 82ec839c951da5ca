"""An auction house: seeded streams for the demo, the examples and tests.

All times are event times counted from one fixed instant; the same seed always gives the same rows.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from windrow.model.units import SECOND

START = datetime(2024, 1, 1, tzinfo=UTC)
ITEMS = ("lamp", "chair", "radio", "globe", "clock", "camera", "violin", "rug")
CATEGORIES = 10
SELLERS = 1_000
BIDDERS = 5_000
OPEN_SECONDS = 60.0
"""Mean delay from an auction's opening to a bid on it."""
POPULARITY = 1.0
"""Exponent of the Zipf law of bids per auction."""


def auctions_and_bids(seconds: int, bids_per_second: float, seed: int) -> dict[str, pa.Table]:
    """An auction house in the manner of NEXMark: auctions open, and bids follow them.

    One auction per ten bids opens at a uniform time. Each bid belongs to an auction drawn by Zipf's law
    (exponent 1, over a random ranking) and arrives an exponential delay (mean one minute) after its
    opening; bids after the last second are left out. A price is the reserve price times 1 plus a
    log-normal mark-up; reserve prices are log-normal around 50; sellers, bidders and categories uniform.

    Parameters
    ----------
    seconds
        Event time covered.
    bids_per_second
        Bids drawn per second of event time; those that would arrive after the end are left out.

    Returns
    -------
    "auctions": id, seller, category, opened_at, reserve, item; "bids": auction_id, bidder, price, bid_at.
    Both in order of their times.
    """
    random = np.random.default_rng(seed)
    drawn = int(seconds * bids_per_second)
    count = max(1, drawn // 10)
    opened = np.sort(random.integers(0, seconds * SECOND, size=count))
    reserve = np.round(random.lognormal(np.log(50), 0.8, size=count), 2)
    weight = random.permutation(np.arange(1, count + 1, dtype=np.float64) ** -POPULARITY)
    auction = random.choice(count, size=drawn, p=weight / weight.sum())
    delay = (random.exponential(OPEN_SECONDS, size=drawn) * SECOND).astype(np.int64)
    arrived = opened[auction] + delay
    price = np.round(reserve[auction] * (1 + random.lognormal(-1.5, 1.0, size=drawn)), 2)
    bidder = random.integers(1, BIDDERS, size=drawn, endpoint=True)
    kept = np.argsort(arrived, kind="stable")
    kept = kept[arrived[kept] < seconds * SECOND]
    auctions = pa.table(
        {
            "id": np.arange(1, count + 1, dtype=np.int64),
            "seller": random.integers(1, SELLERS, size=count, endpoint=True),
            "category": random.integers(1, CATEGORIES, size=count, endpoint=True),
            "opened_at": instants(opened),
            "reserve": reserve,
            "item": pa.array(np.asarray(ITEMS)[random.integers(0, len(ITEMS), size=count)], pa.string()),
        }
    )
    bids = pa.table(
        {
            "auction_id": auction[kept].astype(np.int64) + 1,
            "bidder": bidder[kept],
            "price": price[kept],
            "bid_at": instants(arrived[kept]),
        }
    )
    return {"auctions": auctions, "bids": bids}


def instants(microseconds: np.ndarray) -> pa.Array:
    """Timestamps at these offsets from the start, in microseconds."""
    return pa.array(microseconds + int(START.timestamp()) * SECOND, pa.timestamp("us"))
