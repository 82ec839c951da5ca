"""Time policies as frozen descriptions: how to do less under a deadline (GrubJoin).

Harvesting sheds work, not rows: each arriving row looks only at those parts of the other windows that yield
most. Dropping sheds rows before they are admitted; it is the baseline.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.policies.base import Policy
from windrow.model.settings import Parsed
from windrow.model.units import format_duration, parse_duration

METHODS = (
    *("knapsack", "greedy", "greedy-output", "greedy-output-per-cost", "reverse", "double-sided"),
    "exhaustive",
)
"""How a harvest is chosen; `harvest/solve.py` has a function for each, in this order."""
CORRELATIONS = ("per stream", "pairwise")
BASIC_WINDOWS = 10
MOST_BASIC_WINDOWS = 500
"""In a window. With more, keeping account of them takes longer than it saves."""


@dataclass(frozen=True, kw_only=True)
class TimePolicy(Policy):
    """
    Parameters
    ----------
    interval
        How often the throttle is adapted, in event time, as GrubJoin has it; None for after every sub-batch,
        so that the time left and the rows left decide.
    boost
        The factor by which the throttle opens when there is time to spare.
    buffer
        Rows of a stream that may wait in the operator for the next call when time is up; those that come when
        it is full are dropped and counted. None: no row waits or is dropped, since taking a row in costs
        little.
    """

    interval: str | timedelta | int | None = None
    boost: float = 1.2
    buffer: int | None = None

    interval_micros = Parsed[int | None]("interval")

    def _validate(self) -> None:
        self._parse("interval")
        if not (_is_number(self.boost) and 1 < self.boost < inf):
            raise QueryError(f"boost is a factor above 1, such as 1.2, got {self.boost!r}")
        buffer = self.buffer
        if buffer is not None and (not isinstance(buffer, int) or isinstance(buffer, bool) or buffer < 0):
            raise QueryError(f"buffer is a number of rows, got {self.buffer!r}")

    def _parse(self, name: str) -> None:
        value = getattr(self, name)
        if value is None:
            return
        known = isinstance(value, int) and not isinstance(value, bool)
        with placed(Option(name)):
            micros = value if known else parse_duration(value)
        if micros <= 0:
            raise QueryError(f"{name} must be positive, got {value!r}")
        object.__setattr__(self, name, micros)

    @property
    def plans_calls(self) -> bool:
        """Whether it decides for a whole call what to give up, rather than anew with each sub-batch."""
        return False

    def check(self, spans: Sequence[int]) -> None:
        """Refuses windows it cannot serve; `spans` are those of windows in time, in microseconds."""

    def described(self) -> dict[str, Any]:
        """As plain values: what must be the same for a stored state to be used again."""
        return {"policy": self.name}


@dataclass(frozen=True, kw_only=True)
class Harvesting(TimePolicy):
    """Looks at the parts of the windows that yield most for the time there is (GrubJoin, sections 4 and 5).

    Parameters
    ----------
    method
        How the parts are chosen: "knapsack" (ours), the paper's "greedy" (with its other metrics,
        "greedy-output" and "greedy-output-per-cost"), "reverse" and "double-sided", or "exhaustive", which
        tries everything.
    basic
        Length of the basic windows that are looked at or left out; None for a tenth of the shortest window.
    shredding
        Share of the rows that look at an even sample of everything instead: from what they find the lags
        between streams are learned, and the recall is known.
    correlations
        "pairwise" keeps a histogram of lags for each two streams; "per stream", the paper's way, one for
        each stream, and takes lags to be independent.
    half_life
        Of what was learned, in lengths of the longest window.
    conserve
        Let go of rows that have grown older than anything that is looked at (section 7).
    whole_calls
        Plan each call as a whole, from what work of every kind costs: what is given up may also be keys,
        probes or results. False for the paper's throttle fraction, set anew with each sub-batch, alone; as
        with `interval`, `buffer` and `conserve`, which belong to it.
    """

    name = "harvest"
    method: str = METHODS[0]
    basic: str | timedelta | int | None = None
    shredding: float = 0.1
    correlations: str = "pairwise"
    half_life: float = 1.0
    conserve: bool = False
    whole_calls: bool = True

    def _validate(self) -> None:
        super()._validate()
        self._parse("basic")
        if self.method not in METHODS:
            raise QueryError(unknown("method", str(self.method), METHODS))
        if self.correlations not in CORRELATIONS:
            raise QueryError(unknown("kind of correlations", str(self.correlations), CORRELATIONS))
        if not (_is_number(self.half_life) and self.half_life > 0):
            raise QueryError(f"half_life must be above 0 windows, got {self.half_life!r}")
        if not (_is_number(self.shredding) and 0 <= self.shredding < 1):
            raise QueryError(
                f"shredding is a share from 0 to below 1, got {self.shredding!r}; with 1 every "
                "row would look at a sample of everything and nothing be harvested"
            )
        for option in ("conserve", "whole_calls"):
            if not isinstance(getattr(self, option), bool):
                given = getattr(self, option)
                raise QueryError(f"{option} must be true or false, got {given!r}")
        if self.shredding == 0:
            warnings.warn(
                "shed harvest: with shredding=0 no lags are learned any more once there is not time for "
                "everything, and the recall is not known; a share such as 0.05 tells both",
                stacklevel=3,
            )

    @property
    def plans_calls(self) -> bool:
        return self.whole_calls and self.interval is None and self.buffer is None and not self.conserve

    def check(self, spans: Sequence[int]) -> None:
        basic = self.basic
        if basic is None or not spans:
            return
        assert isinstance(basic, int)
        if basic > min(spans):
            raise QueryError(
                f"basic windows of {format_duration(basic)} are longer than the shortest "
                f"window of {format_duration(min(spans))}; use at most half of it"
            )
        parts = -(-max(spans) // basic)
        if parts > MOST_BASIC_WINDOWS:
            raise QueryError(
                f"basic windows of {format_duration(basic)} cut the window of "
                f"{format_duration(max(spans))} into {parts:,} parts; keeping account of more than "
                f"{MOST_BASIC_WINDOWS} takes longer than it saves, so use at least "
                f"{format_duration(-(-max(spans) // MOST_BASIC_WINDOWS))}"
            )

    def basic_of(self, spans: Sequence[int]) -> int:
        """The length of a basic window, in microseconds."""
        if self.basic is not None:
            assert isinstance(self.basic, int)
            return self.basic
        return max(1, min(spans) // BASIC_WINDOWS, -(-max(spans) // MOST_BASIC_WINDOWS))


@dataclass(frozen=True, kw_only=True)
class Dropping(TimePolicy):
    """Drops rows before they come in, at rates that by the cost model lose least (RandomDrop)."""

    name = "drop"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TIME_POLICIES: dict[str, type[TimePolicy]] = {policy.name: policy for policy in (Harvesting, Dropping)}
