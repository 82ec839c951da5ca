"""Nexmark's three streams, after the default settings of its generator; which id is hot is our choice.

Of 50 events one is a person, three are auctions and 46 are bids. Half of the bids go to a hot auction, the
others to any of the hundred that are in flight. Three quarters of the auctions are opened by a hot seller,
the others by any of the thousand people who are active. An auction has one of five categories and stays open
until about a hundred more were opened. Persons, auctions and bids are about 200, 500 and 100 bytes long.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

PERSONS, AUCTIONS, EVENTS = 1, 3, 50
IN_FLIGHT, ACTIVE, HOT = 100, 1000, 100
"""Auctions and people that the newest events are about, and how many of them share a hot one."""
CATEGORIES = 10, 15
BYTES = {"persons": 200, "auctions": 500, "bids": 100}
TEXTS = 1000

Array = np.ndarray


def nexmark(first: int, count: int, seconds: float, seed: int) -> dict[str, pa.Table]:
    """`count` events from number `first`, `count` of which take so many seconds."""
    random = np.random.default_rng([seed, first])
    number = np.arange(first, first + count)
    us = (number * seconds / count * 1000).astype(np.int64) * 1000
    place = number % EVENTS
    person, auction = place < PERSONS, (place >= PERSONS) & (place < PERSONS + AUCTIONS)
    bid = ~person & ~auction
    group = number // EVENTS
    last_person = group * PERSONS + np.minimum(place, PERSONS - 1)
    last_auction = group * AUCTIONS + np.clip(place - PERSONS, -1, AUCTIONS - 1)
    open_us = IN_FLIGHT * EVENTS / AUCTIONS * seconds / count * 1e6
    auctions = int(auction.sum())
    return {
        "persons": _table("persons", us[person], random, k=last_person[person]),
        "auctions": _table(
            "auctions",
            us[auction],
            random,
            k=last_auction[auction],
            seller=_chosen(last_person[auction], ACTIVE, 3 / 4, random),
            category=random.integers(*CATEGORIES, auctions),
            expires=us[auction] + random.integers(1, int(2 * open_us) + 2, auctions),
        ),
        "bids": _table(
            "bids",
            us[bid],
            random,
            k=_chosen(np.maximum(last_auction[bid], 0), IN_FLIGHT, 1 / 2, random),
        ),
    }


def _chosen(last: Array, recent: int, hot: float, random: np.random.Generator) -> Array:
    """The hot one among the ids up to the last, or any of the recent ones."""
    others = np.maximum(last - random.integers(0, recent, last.size), 0)
    return np.where(random.random(last.size) < hot, last // HOT * HOT, others)


def _table(kind: str, us: Array, random: np.random.Generator, **columns: Array) -> pa.Table:
    texts = pa.array([f"{kind} {n}".ljust(BYTES[kind] - 8 * (len(columns) + 1), ".") for n in range(TEXTS)])
    text = texts.take(pa.array(random.integers(0, TEXTS, us.size)))
    return pa.table({"ts": pa.array(us, pa.timestamp("us", "UTC")), "us": us, "p": text, **columns})
