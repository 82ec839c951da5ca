"""Vehicles that pass four gates along a road (GrubJoin, example 2): which readings are of the same one?

A gate reads what a vehicle looks like, with some error. Readings of one vehicle at two gates are as far apart
in time as the way between them takes, which is much the same for all.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow_lab.timed_rows import timed

Array = np.ndarray
GATES = {"a": 0.0, "b": 400.0, "c": 1_000.0, "d": 1_500.0}
"""Metres from the first."""
SPEED, SPREAD, LEG = 25.0, 0.08, 0.03
"""Metres per second; how far vehicles differ from it, and a vehicle from itself on each part of the way."""
MISSED, FALSE = 0.05, 0.1
"""Share of the vehicles that a gate does not see, and readings of nothing for each that passes."""
ERROR = 0.04
NEAR = 0.2
WITHIN = "90 seconds"
ON = " and ".join(f"distance({i}.look, {j}.look) <= {NEAR}" for i, j in ("ab", "bc", "cd"))


def passages(seconds: float, per_second: float, seed: int) -> dict[str, pa.Table]:
    """Readings of each gate.

    Vehicles come to the first gate in a Poisson process and keep a speed of their own, log-normal around 25
    m/s (0.08), with a log-normal factor (0.03) for each part of the way. A vehicle has a length (normal, 4.5
    m with deviation 0.8), a width (1.8, 0.2), a height (1.6, 0.3) and a colour: two coordinates, normal
    (0.15) around one of six paints that lie evenly on a circle of radius 1. A gate reads all five with a
    normal error of 0.04, misses one vehicle in twenty, and for ten that pass brings a reading that is of
    none.

    Returns
    -------
    "a", "b", "c", "d": at, vehicle (-1: none), look (length, width, height, colour). In order of time.
    """
    random = np.random.default_rng(seed)
    count = random.poisson(seconds * per_second)
    at = random.uniform(0, seconds, count)
    speed = SPEED * random.lognormal(0.0, SPREAD, count)
    looks = _looks(random, count)
    tables, before = {}, 0.0
    for gate, place in GATES.items():
        at = at + (place - before) / (speed * random.lognormal(0.0, LEG, count))
        before = place
        seen = np.flatnonzero(random.random(count) >= MISSED)
        nothing = random.poisson(FALSE * count)
        read = looks[seen] + random.normal(0.0, ERROR, (len(seen), looks.shape[1]))
        times = np.concatenate([at[seen], random.uniform(0, seconds, nothing)])
        vehicle = np.concatenate([seen, np.full(nothing, -1)])
        look = np.concatenate([read, _looks(random, nothing)])
        kept = np.argsort(times, kind="stable")
        kept = kept[times[kept] < seconds]
        offsets = np.arange(len(kept) + 1, dtype=np.int32) * look.shape[1]
        tables[gate] = timed(
            times[kept],
            "at",
            vehicle=vehicle[kept],
            look=pa.ListArray.from_arrays(pa.array(offsets), pa.array(look[kept].ravel())),
        )
    return tables


def _looks(random: np.random.Generator, count: int) -> Array:
    paint = 2 * np.pi * random.integers(0, 6, count) / 6
    colour = np.stack([np.cos(paint), np.sin(paint)], 1) + random.normal(0.0, 0.15, (count, 2))
    sizes = [random.normal(mean, spread, count) for mean, spread in ((4.5, 0.8), (1.8, 0.2), (1.6, 0.3))]
    return np.column_stack([*sizes, colour])
