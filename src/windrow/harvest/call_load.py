"""What to give up in a call that has not time for everything: units of rows, parts of windows, or probes.

Units are sets of rows that are admitted or dropped together, such as all rows of a key on every stream; some
may be certain to come in, the others do in a fixed order. For every number of units admitted the time that is
left after taking them in is spent either on looking at parts of windows, or on probing whole windows for a
part of the rows, with all that they find; and what is expected to give most is chosen. So it is never worse
than the best of the three alone, as far as the costs and shares are right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.harvest.call_costs import Coefficients
from windrow.kernels.harvest.call_load import probed, promise

Array = np.ndarray
AS_GOOD = 0.97
"""Of the best: then that with most units, since a row that does not probe today is there to be found
tomorrow, but one that is dropped is missing for as long as its window lasts."""
SCATTERED = 0.2
"""Through an index, rows that probe meet as much memory however few they are; with fewer units windows are
smaller."""
STAY = 0.93
"""Of the best: then the number of units stays as it is, for the same reason."""
_NO_POINTS = np.empty(0)


@dataclass(frozen=True)
class Work:
    """What a call would be, by the number of units admitted, from 0 on: arrays of one length.

    Parameters
    ----------
    rows
        Admitted.
    compared, results
        If every window is looked at and every result built.
    share
        The part that `results` are of those of the exact call.
    """

    rows: Array
    compared: Array
    results: Array
    share: Array


@dataclass(frozen=True)
class Choice:
    """How many units are admitted, what part of the windows is looked at and by what part of the rows; the
    recall that this promises, the part of the exact call's time it takes, and the seconds."""

    units: int
    z: float = 1.0
    probes: float = 1.0
    recall: float = 1.0
    work: float = 1.0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Curve:
    """The part of the matches found by looking at a part of the windows; straight between the points."""

    work: Array
    found: Array

    def __call__(self, z: float) -> float:
        return float(np.interp(z, self.work, self.found))


def choose(
    work: Work,
    costs: Coefficients,
    seconds: float,
    fixed: float,
    current: int,
    curve: Curve | None = None,
    dearer: float = 1.0,
    scattered: float = SCATTERED,
) -> Choice:
    """The choice that promises most results in so many seconds.

    Parameters
    ----------
    fixed
        Seconds that pass if anything is admitted at all.
    current
        How many units were admitted so far.
    curve
        What looking at parts of windows gives; None where it saves nothing, as through a hash table.
    dearer
        How much more it costs to find something there than in whole windows.
    scattered
        The part of what all rows take to find results that is not saved when fewer probe.
    """
    taking, entering = fixed + costs.take_row * work.rows, costs.probe_row * work.rows
    finding = costs.compare * work.compared + costs.result * work.results
    whole = float(taking[-1] + entering[-1] + finding[-1])
    if whole <= seconds:
        return Choice(len(work.rows) - 1)
    both = np.zeros((2, len(work.rows)))
    points = (_NO_POINTS, _NO_POINTS) if curve is None else (curve.work, curve.found)
    promise(taking, entering, finding, work.share, seconds, *points, scattered, dearer, both)
    recall = both.max(axis=0)
    best = float(recall.max())
    if best <= 0:
        return Choice(0, 0.0, 0.0, 0.0, 0.0)
    units = int(np.flatnonzero(recall >= AS_GOOD * best)[-1])
    if units < current and recall[current] >= STAY * best:
        units = current
    left, enter, find = seconds - float(taking[units]), float(entering[units]), float(finding[units])
    if both[1, units] > both[0, units]:
        z, part = _part(left - enter, dearer * find), 1.0
        taken = enter + dearer * z * find
    else:
        z, part = 1.0, probed(left, enter + find, scattered * find)
        taken = part * (enter + find) + (1 - part) * scattered * find
    taken += float(taking[units])
    return Choice(units, z, part, float(recall[units]), taken / whole, taken)


def _part(seconds: float, whole: float) -> float:
    """What part of work that takes `whole` there is time for."""
    return 1.0 if seconds >= whole else max(0.0, seconds) / whole if whole > 0 else 0.0
