"""News items of three sources as weighted keywords (GrubJoin, example 1): who reports on the same story?

Stories happen at random. A source takes some minutes to report on one, each source its own time, and may come
back to it; so items on one story lie minutes apart, and how many minutes depends on the two sources.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow_lab.timed_rows import timed

Array = np.ndarray
DELAYS = {"wire": 1.0, "broadcaster": 3.0, "paper": 6.0}
"""Mean minutes from the event to a source's first item."""
REPORTED = 0.8
"""Share of the stories that a source reports on."""
OWN = 0.5
"""Items on what no other source has, for each story that happens."""
UPDATES, UPDATE_AFTER = 1.5, 1.0
"""Further items of a source on a story, on average, and minutes until the next one."""
VOCABULARY, KEYWORDS, STRAY = 3_000, 20, 2
"""Words there are, of a story, and of an item besides."""
CHANCE = 1 / np.arange(1, VOCABULARY + 1) / np.sum(1 / np.arange(1, VOCABULARY + 1))
RARITY = np.log(1 / CHANCE)
DIMENSIONS = 64
SIMILAR = 0.75
WITHIN = "15 minutes"
ON = " and ".join(
    f"inner_product({i}.weights, {j}.weights) >= {SIMILAR}"
    for i, j in (("wire", "broadcaster"), ("wire", "paper"), ("broadcaster", "paper"))
)


def news_items(minutes: float, stories_per_minute: float, seed: int) -> dict[str, pa.Table]:
    """Items of each source.

    Stories happen in a Poisson process and have 20 keywords out of 3,000 drawn by Zipf's law (exponent 1),
    with exponential weights times how rare they are (the logarithm of one over their chance). Each source
    reports on 0.8 of them, first after a gamma-distributed delay (shape 4; mean 1, 3 and 6 minutes), then in
    a Poisson number of updates (mean 1.5) that come exponential times (mean one minute) later. Besides it
    brings items on stories of its own, half as many as stories happen. An item has each keyword of its story
    with chance 0.85, its weight times a log-normal factor (0.3), and two stray words of half the weight.
    Words are hashed with a sign into vectors of 64 numbers and length 1, which keep inner products up to
    chance.

    Returns
    -------
    "wire", "broadcaster", "paper": at, story (negative: a story of its own), weights. In order of time.
    """
    random = np.random.default_rng(seed)
    count = random.poisson(stories_per_minute * minutes)
    happened = np.sort(random.uniform(0, minutes, count))
    words = _words(random, (count, KEYWORDS))
    weights = random.exponential(1.0, words.shape) * RARITY[words]
    place = random.integers(0, DIMENSIONS, VOCABULARY)
    sign = random.choice([-1.0, 1.0], VOCABULARY)
    tables = {}
    for source, delay in DELAYS.items():
        story = np.flatnonzero(random.random(count) < REPORTED)
        first = happened[story] + random.gamma(4.0, delay / 4.0, len(story))
        again = np.repeat(np.arange(len(story)), random.poisson(UPDATES, len(story)))
        later = first[again] + random.exponential(UPDATE_AFTER, len(again))
        own = random.poisson(OWN * count)
        at = np.concatenate([first, later, random.uniform(0, minutes, own)])
        about = np.concatenate([story, story[again], -1 - np.arange(own)])
        others = _words(random, (own, KEYWORDS))
        keywords = np.concatenate([words[about[: len(at) - own]], others])
        weight = np.concatenate(
            [weights[about[: len(at) - own]], random.exponential(1.0, others.shape) * RARITY[others]]
        )
        weight = weight * (random.random(weight.shape) < 0.85) * random.lognormal(0.0, 0.3, weight.shape)
        stray = _words(random, (len(at), STRAY))
        vectors = np.zeros((len(at), DIMENSIONS))
        for chosen, heavy in (
            (keywords, weight),
            (stray, random.exponential(0.5, stray.shape) * RARITY[stray]),
        ):
            item = np.broadcast_to(np.arange(len(at))[:, None], chosen.shape)
            np.add.at(vectors, (item, place[chosen]), sign[chosen] * heavy)
        kept = np.argsort(at, kind="stable")
        kept = kept[at[kept] < minutes]
        tables[source] = timed(
            60 * at[kept],
            "at",
            story=about[kept],
            weights=_lists(vectors[kept] / np.linalg.norm(vectors[kept], axis=1, keepdims=True)),
        )
    return tables


def _words(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    return random.choice(VOCABULARY, shape, p=CHANCE)


def _lists(vectors: Array) -> pa.Array:
    offsets = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(vectors.ravel()))
