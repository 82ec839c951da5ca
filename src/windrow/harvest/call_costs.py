"""What the parts of a call cost on this machine: learned from sub-batches that were timed.

A sub-batch takes rows in, probes windows and builds results, and each of the three is timed by itself:

    take   =  fixed  +  per row
    probe  =  fixed  +  per row  +  per candidate compared
    build  =  per piece of results  +  per result

The coefficients are fitted to the last sub-batches by least squares of the relative error, none below 0. In a
steady stream rows, candidates and results rise and fall together; what of the time belongs to which is then
taken to be as before, and as soon as some are shed it is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from windrow.kernels.harvest.call_load import fit_all
from windrow.model.stateful import Stateful

Array = np.ndarray
REMEMBERED = 48
"""Sub-batches that are learned from."""
_FADE = 0.9
_RIDGE = 0.01
"""What makes up less than about a tenth of the time keeps its ratio to the rest."""
_USUAL = 0.1
"""By which what is left open goes back to what is usual each time: else what was once thought to be dear
would be avoided, and never seen to be cheap."""
ENOUGH = 6
"""Sub-batches: the first ones take longer than others."""
_SLOW = 3e5
"""Times what is usual: no cold start takes that long, so it is a slow machine, or a virtual one."""
PRIOR = np.array([1e-4, 5e-8, 1e-4, 5e-8, 5e-9, 1e-4, 3e-8])
"""Seconds, in the order of the coefficients; of any recent machine, within a factor of ten."""


class Timed(NamedTuple):
    """One sub-batch: seconds by kind of work, and how much of each there was."""

    take: float
    probe: float
    build: float
    rows: int
    compared: int
    pieces: int
    built: int


@dataclass(frozen=True)
class Coefficients:
    """Seconds for one of each."""

    take: float
    take_row: float
    probe: float
    probe_row: float
    compare: float
    piece: float
    result: float

    @property
    def sub_batch(self) -> float:
        """What a sub-batch takes whatever is in it."""
        return self.take + self.probe

    @property
    def row(self) -> float:
        """What an admitted row takes, whatever it finds."""
        return self.take_row + self.probe_row


class Costs(Stateful):
    saved = ("_timed", "_count", "_fitted", "_known", "_first")

    def __init__(self) -> None:
        self._timed = np.zeros((REMEMBERED, len(Timed._fields)))
        self._count = 0
        """Sub-batches that are remembered; the latest stands last."""
        self._fitted = PRIOR.copy()
        self._known = True
        """Whether the coefficients are of all that was timed."""
        self._first = True
        """Whether the first sub-batch of all is among them, which may have waited for compilation."""

    def __len__(self) -> int:
        return self._count

    def add(self, timed: Timed) -> None:
        self._timed[:-1] = self._timed[1:]
        self._timed[-1] = timed
        self._count = min(self._count + 1, REMEMBERED)
        if self._first and self._count == 3:
            self._count, self._first = 2, False
        self._known = False

    def fitted(self) -> Coefficients:
        """By what is known now. What the last ones leave open is taken to be as it was before. While little
        is known nothing is taken to cost more than usual."""
        if not self._known:
            self._fitted += _USUAL * (PRIOR - self._fitted)
            fit_all(self._timed[REMEMBERED - self._count :], _FADE, self._fitted, _RIDGE)
            self._known = True
        return Coefficients(*(np.minimum(self._fitted, PRIOR) if self.cold else self._fitted).tolist())

    @property
    def cold(self) -> bool:
        """Whether so little is known that it may be due to a cold start: to compilation, not to the rows."""
        return self._count < ENOUGH and not (self._fitted > _SLOW * PRIOR).any()
