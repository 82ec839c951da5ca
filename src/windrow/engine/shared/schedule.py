"""The order of deferred work when there is no time for all of it (Shared, s. 3).

Work comes in units: some arriving rows against one tier of the tiers, the part of the windows between it
and the tier below. Rows pass the tiers from the smallest up, first come first served on each. A schedule
ranks the tiers; the unit of the lowest rank is served first. That is all it is: one array expression.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from windrow.errors import QueryError, unknown

Array = np.ndarray
Schedule = Callable[[Array], Array]
"""From what each tier adds to a rank for each."""


def lwo(slices: Array) -> Array:
    """Largest window only (s. 3.1): rows that have begun climb to the top before others begin."""
    return -np.arange(len(slices))


def swf(slices: Array) -> Array:
    """Smallest window first (s. 3.2): no row climbs while another waits on a lower tier."""
    return np.arange(len(slices))


def greedy(slices: Array) -> Array:
    """Least work first (s. 3.3): the tier that adds least, and of equal ones the lower."""
    return np.argsort(np.argsort(slices, kind="stable"), kind="stable")


SCHEDULES: dict[str, Schedule] = {"lwo": lwo, "swf": swf, "greedy": greedy}


def find_schedule(name: str) -> Schedule:
    if name not in SCHEDULES:
        raise QueryError(f"schedule: {unknown('schedule', str(name), SCHEDULES)}")
    return SCHEDULES[name]
