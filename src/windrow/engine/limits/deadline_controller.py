"""The time of a call under a deadline, and the throttle fraction where each sub-batch sets it anew.

A call's time runs from when its rows are handed over until its results are. Where whole calls are planned
(`call_planner.py`) that is all there is to it.

Else the throttle fraction is the part of the work that there is time for. With each sub-batch it is set to
what lets the rows left take the time left. With an interval it is instead adapted every so much event time,
from rows consumed against rows that arrived, as in GrubJoin; then a call can run out of time, and what is
left over waits or is dropped, or without a buffer is processed late and not counted as consumed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

from windrow.harvest.throttle import Throttle, adapted, consumption
from windrow.model.limits import Deadline
from windrow.model.policies.time_policies import TimePolicy
from windrow.model.stateful import Stateful

Clock = Callable[[], float]
"""Seconds, from any origin."""
MARGIN = 0.9
"""Of the time allowed that is planned with; the rest is for what comes after the last sub-batch."""
OVERTIME_FRACTION = 0.03
"""Of the time allowed that the rows left get when time is up already. With nothing, those that come at the
end of a call would never be looked at, and what that loses would never be seen."""
PARTS_SHEDDING = 16
"""Sub-batches in a call while work is shed, at most: each is a chance to correct the course."""
PARTS = 4
"""While there is time for everything, where each sub-batch decides anew."""
LEAST_SECONDS = 1e-3
"""Of a call, however late it already is."""
MIN_USEFUL_THROTTLE = 0.01
CALLS_TO_WARN = 3
FIRST_ROWS = 64
"""Of the first call: they tell what the others will cost."""
LEAST_ROWS = 16
_FADE = 0.85
"""How much what was learned of the cost of a row counts, one sub-batch later."""


class DeadlineController(Stateful):
    saved = (
        "throttle", "mean_throttle", "calls", "missed_deadlines", "_spent", "_done", "_interval_ends",
        "_arrived", "_consumed", "_waiting", "_hopeless",
    )  # fmt: skip
    clocks = ("_interval_ends",)

    def __init__(self, deadline: Deadline, policy: TimePolicy, clock: Clock) -> None:
        self.deadline = deadline
        self.policy = policy
        self.clock = clock
        self.throttle = Throttle(boost=policy.boost)
        self.missed_deadlines = 0
        """Calls that took more than a fifth longer than they should."""
        self.calls = 0
        self.seconds = 0.0
        """What the last call took."""
        self.mean_throttle = 1.0
        """The part of the last call's full work that was done."""
        self._throttled = 0.0
        self._spent = 0.0
        self._done = 0.0
        """Seconds lately, and the full work for how many rows was done in them."""
        self._paced = True
        """Whether each sub-batch sets the throttle fraction anew."""
        self._began: float | None = None
        self._budget = 0.0
        self._rows = 0
        """Of this call, and how many of them are left."""
        self._rows_left = 0
        self._sub_batch_began = 0.0
        self._interval_ends: int | None = None
        self._arrived = 0.0
        self._consumed = 0.0
        self._waiting = 0
        self._hopeless = 0
        """Calls in a row that were late with next to nothing left to shed."""

    # -- the data flow ------------------------------------------------------------------------------

    def open(self) -> None:
        """A call begins: its time runs from here."""
        self._began = self.clock()

    def begin_call(self, rows: int, came: int, seconds: float | None = None) -> None:
        """So many rows are to be processed, of which `came` are new; the call may take so many seconds, or
        what the deadline says."""
        if self._began is None:
            self.open()
        self._budget = self.deadline.seconds(came) if seconds is None else max(seconds, LEAST_SECONDS)
        self._rows = self._rows_left = rows
        self._arrived -= self._waiting  # What waited for time was counted when it came.
        self._throttled = 0.0
        self.calls += 1
        if self.policy.plans_calls:
            self.throttle, self._paced = replace(self.throttle, fraction=1.0), False
        elif self._by_sub_batches:
            self._set_throttle()

    def pace(self, z: float) -> None:
        """Each sub-batch of this call sets the throttle fraction anew, beginning with z."""
        self.throttle, self._paced = replace(self.throttle, fraction=max(self.throttle.floor, z)), True

    @property
    def z(self) -> float:
        """The throttle fraction."""
        return self.throttle.fraction

    @property
    def seconds_left(self) -> float:
        """Seconds left in this call."""
        assert self._began is not None
        return self._budget - (self.clock() - self._began)

    @property
    def budget(self) -> float:
        """Seconds that the call may take."""
        return self._budget

    @property
    def out_of_time(self) -> bool:
        """Whether what is left must wait or go."""
        return self.policy.buffer is not None and self.seconds_left <= 0

    def next_rows(self) -> int:
        """How many to process next."""
        if self.cost == 0.0:
            return FIRST_ROWS
        ends_in_time = self.policy.buffer is not None  # then the last sub-batch must be short
        parts = PARTS if self.z == 1.0 and not ends_in_time else PARTS_SHEDDING
        if self.seconds_left <= 0:
            # Too late to correct the course, and each sub-batch has a cost of its own.
            return max(LEAST_ROWS, self._rows // parts)
        affordable = int(self._budget / parts / (self.cost * self.z))
        if ends_in_time:
            return max(1, affordable)
        return max(LEAST_ROWS, min(self._rows // parts, affordable))

    @property
    def cost(self) -> float:
        """Seconds a row would take lately if everything were probed."""
        return self._spent / self._done if self._done else 0.0

    def begin_sub_batch(self, rows: int) -> None:
        """A sub-batch of so many rows begins."""
        self._sub_batch_began = self.clock()
        self._rows_left -= rows

    def end_sub_batch(self, rows: int, share: float, now: int) -> None:
        """A sub-batch of so many rows was processed, up to this event time, with this share of the work."""
        # A clock that is set back tells nothing of the sub-batch; time below 0 would spoil what others told.
        self._spent = _FADE * self._spent + max(0.0, self.clock() - self._sub_batch_began)
        self._done = _FADE * self._done + rows * share
        self._throttled += rows * self.z
        self._arrived += rows
        if self.policy.buffer is not None or self.seconds_left > 0:
            # Where no row waits, those processed when time was up are the ones that would have waited.
            self._consumed += rows
        if self._by_sub_batches:
            self._set_throttle()
        elif not self.policy.plans_calls:
            self._adapt(now)

    def end_call(self, waiting: int, newest: int | None, work: float = 1.0) -> None:
        """The call is over; so many rows wait for the next, and event time has come to `newest`, be its rows
        processed or not. Of the work this part was done, besides what the throttle left out."""
        self._waiting = waiting
        self._arrived += self._rows_left
        done = self._rows - self._rows_left
        self.mean_throttle = min(self._throttled / done if done else 1.0, work)
        if self.policy.interval_micros is not None and newest is not None:
            self._adapt(newest)

    def close(self, short: bool = False) -> None:
        """The results are handed over. `short` if there was no time to store the rows."""
        assert self._began is not None
        self.seconds = self.clock() - self._began
        self._began = None
        late = self.seconds > 1.2 * self._budget > 0
        self.missed_deadlines += late
        hopeless = (late and self.z <= MIN_USEFUL_THROTTLE and self._by_sub_batches) or short
        self._hopeless = self._hopeless + 1 if hopeless else 0
        if self._hopeless == CALLS_TO_WARN:
            remedy = "Raise the deadline or pass fewer rows per call"
            if short:
                what = (
                    f"storing rows alone takes longer than {self._budget:.3g} s; rows are dropped to hold it"
                )
            else:
                what = (
                    f"calls take {self.seconds:.3g} s, limit {self._budget:.3g} s, although almost nothing "
                    "is probed; storing rows and building results alone exceed the limit"
                )
            warnings.warn(f"deadline: {what}. {remedy}", stacklevel=2)

    # -- inside -------------------------------------------------------------------------------------

    @property
    def _by_sub_batches(self) -> bool:
        return self.policy.interval_micros is None and self._paced

    def _set_throttle(self) -> None:
        """The fraction for which the rows left take the time left."""
        full = self.cost * self._rows_left
        if full > 0:
            left = self.seconds_left - (1 - MARGIN) * self._budget
            fraction = min(1.0, max(self.throttle.floor, max(OVERTIME_FRACTION * self._budget, left) / full))
            self.throttle = replace(self.throttle, fraction=fraction)

    def _adapt(self, now: int) -> None:
        """Event time goes on; at the end of an interval the fraction follows consumption (s. 3.1)."""
        assert self.policy.interval_micros is not None
        if self._interval_ends is None:
            self._interval_ends = now + self.policy.interval_micros
        if now < self._interval_ends:
            return
        self.throttle = adapted(self.throttle, consumption(self._consumed, self._arrived))
        self._arrived = self._consumed = 0.0
        self._interval_ends = now + self.policy.interval_micros
