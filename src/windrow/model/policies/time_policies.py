"""Time policies as frozen descriptions: how to do less under a deadline (GrubJoin).

Harvesting sheds work, not rows: each arriving row probes only the parts of the other windows that yield most.
Dropping sheds rows before they are admitted; it is the baseline.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from math import inf
from numbers import Integral
from typing import Any

from windrow.errors import QueryError
from windrow.model.keywords import checks_keywords
from windrow.model.policies.base import Policy
from windrow.model.policies.validation import HALF_LIFE, number
from windrow.model.settings import Parsed, choice, duration, optional, setting, truth
from windrow.model.units import format_duration

METHODS = (
    *("knapsack", "greedy", "greedy-output", "greedy-output-per-cost", "reverse", "double-sided"),
    "exhaustive",
)
"""How a harvest is chosen; `harvest/solve.py` has a function for each, in this order."""
CORRELATIONS = ("per stream", "pairwise")
BASIC_WINDOWS = 10
MOST_BASIC_WINDOWS = 500
"""Per window. With more, the bookkeeping takes longer than it saves."""
SPAN = setting(optional(duration(least=1)))


@dataclass(frozen=True, kw_only=True)
class TimePolicy(Policy):
    """
    Parameters
    ----------
    interval
        The adaptation interval of the throttle fraction, in event time (GrubJoin). None: it adapts after
        every sub-batch, to the time and the rows that are left.
    boost
        The factor by which the throttle fraction grows when there is time to spare.
    buffer
        Rows of a stream that may wait in the operator for the next call when time is up. Rows that arrive
        while the buffer is full are dropped and counted. None: no row waits or is dropped, because storing a
        row costs little.
    """

    interval: str | timedelta | int | None = field(default=None, metadata=SPAN)
    boost: float = field(
        default=1.2, metadata=setting(number(lambda n: 1 < n < inf, "a factor above 1, such as 1.2"))
    )
    buffer: int | None = field(
        default=None, metadata=setting(optional(number(lambda n: n >= 0, "a number of rows", Integral)))
    )

    interval_micros = Parsed[int | None]("interval")

    @property
    def plans_calls(self) -> bool:
        """Whether it decides for a whole call what to shed, rather than for each sub-batch."""
        return False

    def check(self, spans: Sequence[int]) -> None:
        """Refuse windows that it cannot serve. `spans` are the time windows in microseconds."""

    def described(self) -> dict[str, Any]:
        """Plain values that must be equal for stored state to be restored."""
        return {"policy": self.name, **{f.name: repr(getattr(self, f.name)) for f in fields(self)}}


@checks_keywords("wr.policies.Harvesting")
@dataclass(frozen=True, kw_only=True)
class Harvesting(TimePolicy):
    """Probes the parts of the windows that yield most in the time available (GrubJoin, sections 4 and 5).

    Parameters
    ----------
    method
        How the parts are chosen: "knapsack" (ours), the paper's "greedy" (with its other metrics,
        "greedy-output" and "greedy-output-per-cost"), "reverse" and "double-sided", or "exhaustive", which
        tries everything.
    basic
        Length of the basic windows that are probed or skipped; None for a tenth of the shortest window.
    parts
        Probe basic windows in part where that uses the time better. False: only whole ones, as in the paper;
        then nothing is found if there is not time for the cheapest.
    shredding
        Fraction of the rows that probe an even sample of everything instead (window shredding). Their results
        teach the lags between streams and measure the recall. With 1 no row would be left to harvest.
    correlations
        "pairwise" keeps a histogram of lags for each pair of streams; "per stream", as in the paper, one for
        each stream, which assumes that lags are independent.
    half_life
        Half-life of the learned statistics, in lengths of the longest window.
    conserve
        Evict rows that are older than any part that is probed (section 7).
    whole_calls
        Plan each call as a whole, from the cost of each kind of work; then keys, probes or results may be
        shed as well. False: only the paper's throttle fraction, set for each sub-batch, as with `interval`,
        `buffer` and `conserve`, which belong to it.
    """

    name = "harvest"
    method: str = field(default=METHODS[0], metadata=setting(choice("method", *METHODS)))
    basic: str | timedelta | int | None = field(default=None, metadata=SPAN)
    parts: bool = field(default=True, metadata=setting(truth))
    shredding: float = field(
        default=0.1, metadata=setting(number(lambda n: 0 <= n < 1, "a fraction from 0 to below 1"))
    )
    correlations: str = field(
        default="pairwise", metadata=setting(choice("kind of correlations", *CORRELATIONS))
    )
    half_life: float = field(default=1.0, metadata=HALF_LIFE)
    conserve: bool = field(default=False, metadata=setting(truth))
    whole_calls: bool = field(default=True, metadata=setting(truth))

    def _validate(self) -> None:
        super()._validate()
        if self.shredding == 0:
            warnings.warn(
                "shed harvest: with shredding=0 no lags are learned once there is not time for everything, "
                "and the recall is unknown; a fraction such as 0.05 measures both",
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


@checks_keywords("wr.policies.Dropping")
@dataclass(frozen=True, kw_only=True)
class Dropping(TimePolicy):
    """Drops rows before they are admitted, at the rates that lose least by the cost model (RandomDrop)."""

    name = "drop"


TIME_POLICIES: dict[str, type[TimePolicy]] = {policy.name: policy for policy in (Harvesting, Dropping)}
