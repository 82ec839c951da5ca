"""Memory that a harvest does not need (GrubJoin s. 7).

Every row is stored, because a harvest may probe it only when it is older. A row is useless once no direction
probes its age or any greater age.
"""

from __future__ import annotations

from windrow.model.harvest import Harvest


def max_useful_ages(harvest: Harvest) -> tuple[float, ...]:
    """For each stream the greatest age at which some direction probes its rows, in its window's unit; 0 if
    none.

    To evict older rows loses no result of this harvest. It does lose results of a later harvest, or of window
    shredding, that would have probed them.
    """
    oldest = [0.0] * len(harvest.directions)
    for direction in harvest.directions:
        # A direction that skips a window completely finds nothing, so its other hops do not count.
        if direction.idle:
            continue
        for hop in direction.hops:
            oldest[hop.stream] = max(oldest[hop.stream], hop.ages(harvest.windows)[-1][1])
    return tuple(oldest)
