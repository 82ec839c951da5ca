"""Memory that a harvest does not need (GrubJoin s. 7).

Every row is taken in, since the young may be looked at when they are older. A row goes when no direction
looks at its age or at any greater one: it would never be looked at again.
"""

from __future__ import annotations

from windrow.model.harvest import Harvest


def max_useful_ages(harvest: Harvest) -> tuple[float, ...]:
    """For each stream the greatest age at which some direction looks at its rows, in its window's unit.

    Rows older than that can go without any result being lost that this harvest would have found; 0 where no
    direction looks at the stream at all. What a later harvest, or window shredding, would look for in the
    rows let go is lost to it.
    """
    oldest = [0.0] * len(harvest.directions)
    for direction in harvest.directions:
        # With a window it does not look at a direction finds nothing, whatever its other hops look at.
        if direction.idle:
            continue
        for hop in direction.hops:
            oldest[hop.stream] = max(oldest[hop.stream], hop.ages(harvest.windows)[-1][1])
    return tuple(oldest)
