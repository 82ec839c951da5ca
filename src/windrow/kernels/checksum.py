"""A checksum of bytes, about as fast as memory is read. Detects accidental damage only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.hashing import GOLDEN

_LEFT, _RIGHT = np.uint64(29), np.uint64(35)
_LANES = 4
_GROUP = 8 * _LANES


class Checksum:
    """The checksum of bytes that come in pieces. How they are cut does not matter."""

    def __init__(self) -> None:
        self._lanes = np.zeros(_LANES, np.uint64)
        self._rest = b""
        self._size = 0

    def update(self, data: Any) -> None:
        view = memoryview(data).cast("B").toreadonly()
        self._size += view.nbytes
        if self._rest:
            missing = _GROUP - len(self._rest)
            self._rest += view[:missing]
            view = view[missing:]
            if len(self._rest) < _GROUP:
                return
            _mix(self._lanes, np.frombuffer(self._rest, np.uint64))
        whole = view.nbytes // _GROUP * _GROUP
        if whole:
            _mix(self._lanes, np.frombuffer(view[:whole], np.uint64))
        self._rest = bytes(view[whole:])

    @property
    def value(self) -> int:
        """An unsigned number of 64 bits."""
        lanes = self._lanes.copy()
        _mix(lanes, np.frombuffer(self._rest.ljust(_GROUP, b"\0"), np.uint64))
        found = np.array([self._size] * _LANES, np.uint64)
        for lane in lanes:
            _mix(found, np.full(_LANES, lane))
        return int(found[0])


def checksum(data: Any) -> int:
    found = Checksum()
    found.update(data)
    return found.value


@njit(cache=True, inline="always")
def _mixed(state: Any, word: Any) -> Any:
    """One to one in each argument, so a change of one word always changes the result."""
    state = (state ^ word) * GOLDEN
    return (state << _LEFT) | (state >> _RIGHT)


@njit(cache=True, nogil=True)
def _mix(lanes: Any, words: Any) -> None:
    """Takes in words, in whole groups. Four lanes are independent of each other: a multiplication takes
    several cycles, and they wait at the same time."""
    a, b, c, d = lanes[0], lanes[1], lanes[2], lanes[3]
    for k in range(0, len(words), _LANES):
        a = _mixed(a, words[k])
        b = _mixed(b, words[k + 1])
        c = _mixed(c, words[k + 2])
        d = _mixed(d, words[k + 3])
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d
