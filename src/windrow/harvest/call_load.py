"""Chooses what to shed in a call that lacks time: units of rows, parts of windows, or probes.

Units are sets of rows that are admitted or dropped together, such as all rows of a key on every stream. Some
are always admitted; the others have a fixed order. For every number of admitted units, the time left after
storing their rows is spent either on probing parts of windows, or on probing whole windows with some of the
rows. The choice with the highest expected recall wins, so it is never worse than the best of the three alone,
if the costs and fractions are right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.harvest.call_costs import Costs
from windrow.kernels.harvest.call_load import affordable, promise
from windrow.model.stateful import Stateful

Array = np.ndarray
AS_GOOD = 0.99
"""All units are admitted if that gives this fraction of the best recall, because a row that does not probe
can still be found later, while a dropped row is missing for a whole window. Otherwise whole probes are
preferred."""
STAY = 0.92
"""Fraction of the best recall at which the number of units stays as it is, for the same reason."""
_EVEN = np.array([0.0, 1.0])


@dataclass(frozen=True)
class Work:
    """Work of a call by the number of units admitted, from 0 on: arrays of one length.

    Parameters
    ----------
    rows
        Rows admitted.
    compared, results
        Comparisons and results if whole windows are probed and every result is built.
    share
        `results` as a fraction of those of the exact call.
    """

    rows: Array
    compared: Array
    results: Array
    share: Array


@dataclass(frozen=True)
class Choice:
    """Units to admit, fraction of the windows to probe (z), fraction of the rows that probe, expected recall,
    and expected time as a fraction of the exact call's."""

    units: int
    z: float = 1.0
    probes: float = 1.0
    recall: float = 1.0
    work: float = 1.0


@dataclass(frozen=True, eq=False)
class Curve(Stateful):
    """Fraction of the matches found by the fraction of the windows probed; linear between the points."""

    work: Array
    found: Array

    def __call__(self, z: float) -> float:
        return float(np.interp(z, self.work, self.found))


def choose(
    work: Work,
    costs: Costs,
    seconds: float,
    current: int,
    curve: Curve | None = None,
    costs_of_parts: Costs | None = None,
    all_probe: bool = False,
    dropping: float = 0.0,
) -> Choice:
    """The choice with the highest expected recall in this time.

    Parameters
    ----------
    current
        Number of units admitted so far.
    curve
        Matches found by probing parts of windows; None if that saves nothing, as with a hash table.
    costs_of_parts
        Costs of a call that probes parts of windows, if they differ.
    all_probe
        Whether every admitted row probes whole windows, so that only units can be shed.
    dropping
        Seconds that it takes to drop any rows.
    """
    taking, finding = _seconds(work, costs, dropping)
    if all_probe:
        taking, finding = taking + finding, np.zeros_like(finding)
    whole = float(taking[-1] + finding[-1])
    if whole <= seconds:
        return Choice(len(work.rows) - 1)
    both = np.zeros((2, len(work.rows)))
    promise(taking, finding, work.share, seconds, _EVEN, _EVEN, both[0])
    in_parts = _seconds(work, costs_of_parts or costs, dropping)
    if curve is not None:
        promise(*in_parts, work.share, seconds, curve.work, curve.found, both[1])
    recall = both.max(axis=0)
    best = float(recall.max())
    if best <= 0:
        return Choice(0, 1.0, 0.0, 0.0, 0.0)
    units = len(recall) - 1
    if recall[units] < AS_GOOD * best:
        as_good, every_row_probes = recall >= AS_GOOD * best, taking + finding <= seconds
        units = int(np.argmax(as_good))
        if (as_good & every_row_probes).any():
            units = int(np.flatnonzero(as_good & every_row_probes)[-1])
        if recall[current] >= STAY * best and every_row_probes[current]:
            units = current
    z = probes = 1.0
    if both[1, units] > both[0, units]:
        taking, finding = in_parts
        z = part = affordable(seconds - float(taking[units]), float(finding[units]))
    else:
        probes = part = affordable(seconds - float(taking[units]), float(finding[units]))
    taken = float(taking[units]) + part * float(finding[units])
    return Choice(units, z, probes, float(recall[units]), taken / whole)


def _seconds(work: Work, costs: Costs, dropping: float) -> tuple[Array, Array]:
    """Seconds of storing rows, with the fixed cost and what it takes to drop the others, and of finding and
    building results."""
    taking = costs.fixed + costs.row * work.rows
    taking[:-1] += dropping
    return taking, costs.compare * work.compared + costs.result * work.results
