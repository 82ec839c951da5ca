"""Measures the time of a call under a deadline, and sets the throttle fraction if calls are not planned.

A call's time runs from the arrival of its rows to the delivery of its results. What a call costs is learned
from it when the call ends. While it runs, time is counted, not measured: work done so far, at the cost of
earlier calls. Another attempt at the call then does the same work, however fast it runs, and returns the same
results. Only GrubJoin's throttle on a given clock, as in the lab, reads it within a call.

If calls are not planned (`call_planner.py`), the throttle fraction is the fraction of the full work there is
time for. Each sub-batch sets it so that the remaining rows take the remaining time. With an adaptation
interval it is instead adapted at intervals of event time, from rows consumed and rows arrived, as in
GrubJoin. Then a call can run out of time: the remaining rows wait in the buffer or are dropped. Without a
buffer they are processed late and do not count as consumed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

from windrow.harvest.call_costs import CallCosts
from windrow.harvest.throttle import LEAST, adapted
from windrow.model.limits import Deadline
from windrow.model.policies.time_policies import TimePolicy
from windrow.model.stateful import Stateful

Clock = Callable[[], float]
"""Seconds from an arbitrary origin."""
MARGIN = 0.9
"""Fraction of the time limit to plan with; the rest covers the work after the last sub-batch."""
OVERTIME_FRACTION = 0.03
"""Fraction of the time limit for the rows left when time is up. With none, rows at the end of a call would
never probe, and their loss would never be measured."""
PARTS_SHEDDING = 16
"""Maximum sub-batches of a call that sheds work: the throttle is corrected after each."""
PARTS = 4
"""Sub-batches of a call with time for the full work."""
LEAST_SECONDS = 1e-3
"""Minimum time limit of a call, however late it is."""
MISSED = 1.2
"""Multiple of its time limit from which on a call has missed its deadline."""
MIN_USEFUL_THROTTLE, CALLS_TO_WARN = 0.01, 3
"""Calls in a row that miss their deadline at this throttle fraction, with almost nothing left to shed, before
a warning."""
FIRST_ROWS = 64
"""Rows in the first sub-batch, which measures the cost of a row."""
LEAST_ROWS = 16
_DECAY = 0.85
"""Decay per sub-batch of the measured cost of a row."""


class DeadlineController(Stateful):
    version = 3
    formerly = (("_waiting", "_buffered"), ("_hopeless", "_unavoidable"))
    saved = (
        "z", "mean_throttle", "missed_deadlines", "costs", "_spent", "_done", "_interval_ends",
        "_arrived", "_consumed", "_buffered", "_unavoidable",
    )  # fmt: skip
    clocks = ("_interval_ends",)

    def __init__(self, deadline: Deadline, policy: TimePolicy, clock: Clock | None) -> None:
        self.deadline = deadline
        self.policy = policy
        self.clock = clock or perf_counter
        self.counts = clock is None or policy.plans_calls
        """Whether time is counted while a call runs."""
        self.costs = CallCosts()
        """Costs of calls that are not planned."""
        self._counted: Clock | None = None
        """Seconds of the work done so far in this call."""
        self.z = 1.0
        """The throttle fraction."""
        self.budget = 0.0
        """Seconds the call may take."""
        self.missed_deadlines = 0
        self.seconds = 0.0
        """Duration of the last call."""
        self.mean_throttle = 1.0
        """Fraction of the last call's full work that was done."""
        self._throttled = 0.0
        self._spent = 0.0
        self._done = 0.0
        """Decayed seconds spent, and the number of rows whose full work they would cover."""
        self._paced = True
        """Whether each sub-batch sets the throttle fraction."""
        self._parts = PARTS_SHEDDING
        self._began: float | None = None
        self._rows = 0
        """Rows of this call; `_rows_left` of them are not processed yet."""
        self._rows_left = 0
        self._sub_batch_began = 0.0
        self._interval_ends: int | None = None
        self._arrived = 0.0
        self._consumed = 0.0
        self._buffered = 0
        self._unavoidable = 0
        """Calls in a row whose deadline could not be met."""

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any] | None:
        return values | {"costs": CallCosts()} if version == 2 else None

    # -- the data flow ------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the clock of a call."""
        self._began = self.clock()

    def begin_call(
        self, rows: int, arrived: int, seconds: float | None = None, counted: Clock | None = None
    ) -> None:
        """Begin a call of `rows` rows, `arrived` of them new, limited to `seconds` or the deadline. `counted`
        says how much time has passed, if it is counted."""
        if self._began is None:
            self.open()
        self._counted = counted if self.counts else None
        # A deadline in rows per second allows no time if no row is new.
        allowed = self.deadline.seconds(arrived) or LEAST_SECONDS
        self.budget = allowed if seconds is None else max(seconds, LEAST_SECONDS)
        self._rows = self._rows_left = rows
        self._arrived -= self._buffered  # Rows that waited were counted on arrival.
        self._throttled = 0.0
        if self.policy.plans_calls:
            self.z, self._paced = 1.0, False
        elif self._by_sub_batches:
            self._set_throttle()

    def pace(self, z: float, parts: int) -> None:
        """Start this call with throttle fraction z. Each of at most `parts` sub-batches sets it again."""
        self.z, self._parts, self._paced = max(LEAST, z), parts, True

    @property
    def _elapsed(self) -> float:
        """Seconds of this call so far."""
        if self._counted is not None:
            return self._counted()
        assert self._began is not None
        return self.clock() - self._began

    @property
    def seconds_left(self) -> float:
        """Seconds left in this call."""
        return self.budget - self._elapsed

    @property
    def out_of_time(self) -> bool:
        """Whether the remaining rows must wait or be dropped."""
        return self.policy.buffer_rows is not None and self.seconds_left <= 0

    def next_rows(self) -> int:
        """Number of rows in the next sub-batch."""
        if self.cost == 0.0:
            # Measure what a row costs; unless time is counted, which shows it only when the call ends.
            return max(FIRST_ROWS, self._rows // PARTS) if self.counts else FIRST_ROWS
        ends_in_time = self.policy.buffer_rows is not None  # the last sub-batch must then be short
        parts = PARTS if self.z == 1.0 and not ends_in_time else self._parts
        if self.seconds_left <= 0:
            # Too late for corrections, and each sub-batch has a fixed cost.
            return max(LEAST_ROWS, self._rows // parts)
        affordable = int(self.budget / parts / (self.cost * self.z))
        if ends_in_time:
            return max(1, affordable)
        return max(LEAST_ROWS, min(self._rows // parts, affordable))

    @property
    def cost(self) -> float:
        """Recent seconds per row at full work."""
        return self._spent / self._done if self._done else 0.0

    def begin_sub_batch(self, rows: int) -> None:
        """Begin a sub-batch of this many rows."""
        self._sub_batch_began = self._elapsed
        self._rows_left -= rows

    def end_sub_batch(self, rows: int, share: float, now: int) -> None:
        """End a sub-batch up to event time `now` that did a fraction `share` of the full work."""
        # The clock may be set back; a negative duration would corrupt the decayed sum.
        self._spent = _DECAY * self._spent + max(0.0, self._elapsed - self._sub_batch_began)
        self._done = _DECAY * self._done + rows * share
        self._throttled += rows * self.z
        self._arrived += rows
        if self.policy.buffer_rows is not None or self.seconds_left > 0:
            # Without a buffer, rows processed after the deadline count as rows that would have waited.
            self._consumed += rows
        if self._by_sub_batches:
            self._set_throttle()
        elif not self.policy.plans_calls:
            self._adapt(now)

    def end_call(self, buffered: int, newest: int | None, work: float = 1.0) -> None:
        """End the call with `buffered` rows buffered and event time at `newest`, processed or not. `work` is
        the fraction of the work done, apart from throttling."""
        self._buffered = buffered
        self._arrived += self._rows_left
        done = self._rows - self._rows_left
        self.mean_throttle = min(self._throttled / done if done else 1.0, work)
        if self.policy.interval_micros is not None and newest is not None:
            self._adapt(newest)

    def close(self, short: bool = False) -> None:
        """Stop the clock: results are delivered. `short` if there was no time to store the rows."""
        assert self._began is not None
        self.seconds = self.clock() - self._began
        self._began = self._counted = None
        late = self.seconds > MISSED * self.budget > 0
        self.missed_deadlines += late
        unavoidable = (late and self.z <= MIN_USEFUL_THROTTLE and self._by_sub_batches) or short
        self._unavoidable = self._unavoidable + 1 if unavoidable else 0
        if self._unavoidable == CALLS_TO_WARN:
            what = f"storing rows alone takes longer than {self.budget:.3g} s; rows are dropped to hold it"
            if not short:
                what = (
                    f"calls take {self.seconds:.3g} s, limit {self.budget:.3g} s, although almost nothing is "
                    "probed; storing rows and building results alone exceed the limit"
                )
            warnings.warn(f"deadline: {what}. Raise the deadline or pass fewer rows per call", stacklevel=2)

    # -- inside -------------------------------------------------------------------------------------

    @property
    def _by_sub_batches(self) -> bool:
        return self.policy.interval_micros is None and self._paced

    def _set_throttle(self) -> None:
        """Set the fraction at which the remaining rows take the remaining time."""
        full = self.cost * self._rows_left
        if full > 0:
            left = self.seconds_left - (1 - MARGIN) * self.budget
            self.z = min(1.0, max(LEAST, max(OVERTIME_FRACTION * self.budget, left) / full))

    def _adapt(self, now: int) -> None:
        """At the end of an adaptation interval, adapt the fraction to the consumption (s. 3.1)."""
        assert self.policy.interval_micros is not None
        if self._interval_ends is None:
            self._interval_ends = now + self.policy.interval_micros
        if now < self._interval_ends:
            return
        self.z = adapted(self.z, self.policy.boost_factor, self._consumed, self._arrived)
        self._arrived = self._consumed = 0.0
        self._interval_ends = now + self.policy.interval_micros
