"""Time policies as frozen descriptions: how to do less under a deadline (GrubJoin).

Harvesting sheds work, not rows: each arriving row probes only the parts of the other windows that yield most.
Dropping sheds rows before they are admitted; it is the baseline.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta
from math import inf

from windrow.errors import Option, QueryError
from windrow.model.policies.base import Policy, decay, policy
from windrow.model.settings import (
    Parsed,
    choice,
    duration,
    number,
    optional,
    setting,
    truth,
)
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
SPAN = optional(duration(least=1))


@policy
class TimePolicy(Policy):
    """Decides how to do less under a deadline."""

    adaptation_interval: str | timedelta | int | None = setting(
        SPAN,
        "The adaptation interval of the throttle fraction, in event time (GrubJoin). None: it adapts after "
        "every sub-batch, to the time and the rows that are left.",
        default=None,
    )
    boost_factor: float = setting(
        number("a factor above 1, such as 1.2", lambda n: 1 < n < inf),
        "The factor by which the throttle fraction grows when there is time to spare.",
        default=1.2,
    )
    buffer_rows: int | None = setting(
        optional(number("a number of rows", lambda n: n >= 0, whole=True)),
        "Rows of a stream that may wait in the operator for the next call when time is up. Rows that arrive "
        "while the buffer is full are dropped and counted. None: no row waits or is dropped, because storing "
        "a row costs little.",
        default=None,
    )

    interval_micros = Parsed[int | None]("adaptation_interval")

    @property
    def plans_calls(self) -> bool:
        """Whether it decides for a whole call what to shed, rather than for each sub-batch."""
        return False

    def check(self, spans: Sequence[int]) -> None:
        """Refuse windows that it cannot serve. `spans` are the time windows in microseconds."""


@policy
class Harvesting(TimePolicy):
    """Probes the parts of the windows that yield most in the time available (GrubJoin, sections 4 and 5)."""

    name = "harvest"
    method: str = setting(
        choice("method", *METHODS),
        'How the parts are chosen: "knapsack" (ours), the paper\'s "greedy" (with its other metrics, '
        '"greedy-output" and "greedy-output-per-cost"), "reverse" and "double-sided", or "exhaustive", which '
        "tries everything.",
        default=METHODS[0],
    )
    basic_window: str | timedelta | int | None = setting(
        SPAN,
        "Length of the basic windows that are probed or skipped; None for a tenth of the shortest window.",
        default=None,
    )
    parts: bool = setting(
        truth,
        "Probe basic windows in part where that uses the time better. False: only whole ones, as in the "
        "paper; then nothing is found if there is not time for the cheapest.",
        default=True,
    )
    shredding_fraction: float = setting(
        number("a fraction from 0 to below 1", lambda n: 0 <= n < 1),
        "Fraction of the rows that probe an even sample of everything instead (window shredding). Their "
        "results show the lags between streams and the recall. With 1 no row would be left to "
        "harvest.",
        default=0.1,
    )
    correlations: str = setting(
        choice("kind of correlations", *CORRELATIONS),
        '"pairwise" keeps a histogram of lags for each pair of streams; "per stream", as in the paper, one '
        "for each stream, which assumes that lags are independent.",
        default="pairwise",
    )
    half_life: float = decay(1.0, "lengths of the longest window")
    conserve_memory: bool = setting(
        truth, "Evict rows that are older than any part that is probed (section 7).", default=False
    )
    whole_calls: bool = setting(
        truth,
        "Plan each call as a whole, from the cost of each kind of work; then keys, probes or results may be "
        "shed as well. False: only the paper's throttle fraction, set for each sub-batch, as with "
        "`adaptation_interval`, `buffer_rows` and `conserve_memory`, which belong to it.",
        default=True,
    )
    basic_micros = Parsed[int | None]("basic_window")

    def _validate(self) -> None:
        super()._validate()
        if self.shredding_fraction == 0:
            warnings.warn(
                "shed harvest: with shredding_fraction=0 no lags are learned once there is not time for "
                "everything, and the recall is unknown; a fraction such as 0.05 measures both",
                stacklevel=3,
            )

    @property
    def plans_calls(self) -> bool:
        per_sub_batch = (
            self.adaptation_interval is not None or self.buffer_rows is not None or self.conserve_memory
        )
        return self.whole_calls and not per_sub_batch

    def check(self, spans: Sequence[int]) -> None:
        basic = self.basic_micros
        if basic is None or not spans:
            return
        if basic > min(spans):
            raise QueryError(
                f"basic windows of {format_duration(basic)} are longer than the shortest "
                f"window of {format_duration(min(spans))}; use at most half of it",
                Option("basic_window"),
            )
        parts = -(-max(spans) // basic)
        if parts > MOST_BASIC_WINDOWS:
            raise QueryError(
                f"basic windows of {format_duration(basic)} cut the window of "
                f"{format_duration(max(spans))} into {parts:,} parts; tracking more than "
                f"{MOST_BASIC_WINDOWS} takes longer than it saves, so use at least "
                f"{format_duration(-(-max(spans) // MOST_BASIC_WINDOWS))}",
                Option("basic_window"),
            )

    def basic_of(self, spans: Sequence[int]) -> int:
        """The length of a basic window, in microseconds."""
        if self.basic_micros is not None:
            return self.basic_micros
        # A tenth of the shortest window, unless that cuts the longest one into too many.
        return max(1, min(spans) // BASIC_WINDOWS, -(-max(spans) // MOST_BASIC_WINDOWS))


@policy
class Dropping(TimePolicy):
    """Drops rows before they are admitted, at the rates that lose least by the cost model (RandomDrop)."""

    name = "drop"


TIME_POLICIES: dict[str, type[TimePolicy]] = {each.name: each for each in (Harvesting, Dropping)}
