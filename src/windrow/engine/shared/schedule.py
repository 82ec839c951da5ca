"""Schedules: what is searched first, and when results are released (Shared, s. 3).

Work comes in units: some arriving rows against one slice, the part of the windows between a tier and the one
below. Rows pass the tiers from the smallest up, in arrival order on each. A schedule ranks the tiers in one
array expression; the unit of the lowest rank is served first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Schedule:
    rank: Callable[[Array], Array]
    """Maps the slice of each tier to its rank."""
    early: bool
    """Whether a row's results are released as they are found, once all earlier rows have passed the query's
    window. Otherwise a query gets them when the row itself has passed its window; see `release.py`."""


def lwo(slices: Array) -> Array:
    """Largest window only (s. 3.1): rows that have started climb to the top before others start."""
    return -np.arange(len(slices))


def swf(slices: Array) -> Array:
    """Smallest window first (s. 3.2): no row climbs while another waits on a lower tier."""
    return np.arange(len(slices))


def greedy(slices: Array) -> Array:
    """Least work first (s. 3.3): the tier with the smallest slice; among equals, the lower."""
    return np.argsort(np.argsort(slices, kind="stable"), kind="stable")


SCHEDULES = {
    "lwo": Schedule(lwo, early=True),
    "swf": Schedule(swf, early=False),
    "greedy": Schedule(greedy, early=True),
}
