"""Seeded streams: MultiJoin's generator and an auction house.

All times are event times counted from one fixed instant; the same seed always gives the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.errors import WindrowError
from windrow.lab.timed_rows import instants, timed
from windrow.model.units import SECOND

ITEMS = ("lamp", "chair", "radio", "globe", "clock", "camera", "violin", "rug")
CATEGORIES = 10
SELLERS = 1_000
BIDDERS = 5_000
OPEN_SECONDS = 60.0
"""Mean delay from an auction's opening to a bid on it."""
POPULARITY = 1.0
"""Exponent of the Zipf law of bids per auction."""


def interleaved_streams(
    rates: Sequence[float], values: Sequence[int], rows: int, seed: int
) -> dict[str, pa.Table]:
    """MultiJoin's streams (s. 6.1): one row per step, from a random stream; a step is a second.

    Parameters
    ----------
    rates
        Relative rates; a step's row is from stream i with probability `rates[i] / sum(rates)`.
    values
        Stream i draws `attr` uniformly from 1..values[i], so the smaller sets are contained in the larger.
    rows
        Steps, and so rows over all streams.

    Returns
    -------
    Tables "s1", "s2", ... with `ts` (timestamp) and `attr` (int64).
    """
    if len(rates) != len(values):
        raise WindrowError(f"generator: {len(rates)} rates but {len(values)} numbers of values")
    random = np.random.default_rng(seed)
    share = np.asarray(rates, dtype=np.float64)
    source = random.choice(len(rates), size=rows, p=share / share.sum())
    attr = random.integers(1, np.asarray(values, dtype=np.int64)[source], endpoint=True)
    steps = np.arange(rows, dtype=np.int64)
    return {f"s{i + 1}": timed(steps[source == i], attr=attr[source == i]) for i in range(len(rates))}


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
