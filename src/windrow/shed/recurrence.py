"""Rows that found something just now may find more than others of their age and key: how much more, learned.

A row's matches fade (a quarter of a window halves them), and their number tells its level: 0 without any,
then one level a doubling. By level the results that rows find are counted, and those that were expected of
them by age and key alone; the ratio is the level's factor. It begins as a trend, a power of the matches, and
what it has beyond that is drawn towards 1 by as much as chance explains.
Where stories break and end that is what iJoin's local priority goes by; where matches tell nothing beyond the
key the factors come to be 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.kernels import fitting, recurring

Array = np.ndarray
LEVELS = 8
HALVED = 0.25
"""Windows in which matches fade to a half."""
BEGIN = 0.5
"""Power of the matches to begin with."""
_MATCHES = np.log(2.0) * np.array([-1.0, *range(2 + recurring.TOP - LEVELS, recurring.TOP + 1)])
"""Logarithm of the matches of each level; a row without any is taken to have half a one."""


class Recurrence:
    """Of one stream.

    Parameters
    ----------
    half_life
        Of what is learned, in windows.
    """

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._found = np.zeros(LEVELS)
        self._expected = np.zeros(LEVELS)

    def found(
        self,
        rows: Array,
        times: Array,
        stored: Array,
        each: float,
        span: float,
        matches: Array,
        matched: Array,
    ) -> None:
        """These rows found a result each at `times`, where `stored`: it is noted down, and counts as `each`.
        `span` is the window in seconds."""
        recurring.count(rows, times, stored, each, _fading(span), matches, matched, self._found)

    def lived(
        self,
        rates: Array,
        now: int,
        seconds: float,
        passed: float,
        span: float,
        matches: Array,
        matched: Array,
    ) -> None:
        """Rows were held for the last `seconds`, and expected to find so much per second by age and key;
        `passed` is how long ago rows last were."""
        fade = 0.5 ** (passed / max(span, 1e-9) / self._half_life)
        self._found *= fade
        self._expected *= fade
        recurring.expect(rates, now, seconds, _fading(span), matches, matched, self._expected)

    def factors(self, now: int, span: float, matches: Array, matched: Array) -> Array:
        """How much more than others each row finds."""
        out = np.empty(len(matches))
        trend = fitting.trend_of(self._found, self._expected, _MATCHES, BEGIN)
        factors = trend * fitting.ratio(self._found, self._expected * trend, 2)
        recurring.look_up(factors, now, _fading(span), matches, matched, out)
        return out

    def save(self) -> list[list[float]]:
        return [self._found.tolist(), self._expected.tolist()]

    def load(self, plain: list[Any]) -> None:
        self._found, self._expected = map(np.array, plain)


def _fading(span: float) -> float:
    """By how much matches fade in a microsecond, as an exponent."""
    return float(np.log(2.0) / (HALVED * max(span, 1e-9) * 1e6))
