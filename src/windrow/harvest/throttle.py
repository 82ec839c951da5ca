"""The throttle fraction: the fraction of the full work that the join may do (GrubJoin s. 3).

Between the sub-batches of a call `engine/limits/deadline_controller.py` sets it from the time left and the
rows left. With an adaptation interval it follows the paper's rule instead.
"""

from __future__ import annotations

LEAST = 1e-4
"""The smallest fraction. From 0 no factor could raise it again."""


def adapted(fraction: float, boost: float, consumed: float, arrived: float) -> float:
    """The fraction after an adaptation interval (s. 3.1): multiplied by the performance, rows taken out of
    the input buffers over rows put in, but by no more than the boost factor.

    Consumption cannot exceed arrival for long, so a performance of 1 only shows that the join keeps up. The
    fraction is then multiplied by the full boost factor.
    """
    performance = boost if consumed >= arrived else consumed / arrived
    return min(1.0, max(LEAST, fraction * performance))
