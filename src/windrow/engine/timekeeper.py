"""Time under a deadline: how much is processed at once, and what part of the full work may be done.

What full work would take for a row is learned from what the part of it took that was done. With each quantum
the throttle fraction is set to what lets the rows left take the time left; so a burst within a call is met as
soon as the first of its rows have been timed, and a fraction that was wrong for a few rows does no harm to
the next call. With an interval it is instead adapted every so much event time, from rows consumed against
rows that came, as in GrubJoin; then a call can run out of time, and what is left over waits or is dropped, or
without a buffer is taken in late and not counted as consumed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windrow.model.deadline import Deadline
from windrow.model.time_policies import TimePolicy
from windrow.planning.throttle import Throttle, adapted, consumption

Clock = Callable[[], float]
"""Seconds, from any origin."""
MARGIN = 0.9
"""Of the time allowed that is planned with; the rest is for what comes after the last quantum."""
LAST = 0.03
"""Of the time allowed that the rows left get when time is up already. With nothing, those that come at the
end of a call would never be looked at, and what that loses would never be seen."""
PARTS_SHEDDING = 16
"""Quanta in a call while work is shed: each is a chance to correct the course."""
PARTS = 4
"""While there is time for everything."""
LEAST_SECONDS = 1e-3
"""Of a call, however late it already is."""
HOPELESS = 0.01
CALLS_TO_WARN = 3
FIRST_ROWS = 64
LEAST_ROWS = 16
_FADE = 0.85
"""How much what was learned of the cost of a row counts, one quantum later."""


class TimeKeeper:
    def __init__(self, deadline: Deadline, policy: TimePolicy, clock: Clock) -> None:
        self.deadline = deadline
        self.policy = policy
        self.clock = clock
        self.throttle = Throttle(boost=policy.boost)
        self.overrun = 0
        """Calls that took more than a fifth longer than they should."""
        self.calls = 0
        self.seconds = 0.0
        """What the last call took."""
        self.lately = 1.0
        """The throttle fraction of the last call: the mean over its rows."""
        self._throttled = 0.0
        self._spent = 0.0
        self._done = 0.0
        """Seconds lately, and the full work for how many rows was done in them."""
        self._began = 0.0
        self._budget = 0.0
        self._rows = 0
        """Of this call, and how many of them are left."""
        self._rows_left = 0
        self._quantum_began = 0.0
        self._interval_ends: int | None = None
        self._came = 0.0
        self._consumed = 0.0
        self._waiting = 0
        self._hopeless = 0
        """Calls in a row that were late with next to nothing left to shed."""

    # -- the data flow ------------------------------------------------------------------------------

    def begin(self, rows: int, came: int, seconds: float | None = None) -> None:
        """A call begins with so many rows to process, of which `came` are new; it may take so many seconds,
        or what the deadline says."""
        self._began = self.clock()
        self._budget = self.deadline.seconds(came) if seconds is None else max(seconds, LEAST_SECONDS)
        self._rows = self._rows_left = rows
        self._came -= self._waiting  # What waited for time was counted when it came.
        self._throttled = 0.0
        self.calls += 1
        if self._by_quanta:
            self._look_ahead()

    @property
    def z(self) -> float:
        """The throttle fraction."""
        return self.throttle.fraction

    @property
    def left(self) -> float:
        """Seconds left in this call."""
        return self._budget - (self.clock() - self._began)

    @property
    def out_of_time(self) -> bool:
        """Whether what is left must wait or go."""
        return self.policy.buffer is not None and self.left <= 0

    def rows(self) -> int:
        """How many to process next."""
        if self.cost == 0.0:
            return FIRST_ROWS
        ends_in_time = self.policy.buffer is not None  # then the last quantum must be short
        parts = PARTS if self.z == 1.0 and not ends_in_time else PARTS_SHEDDING
        if self.left <= 0:
            # Too late to correct the course, and each quantum has a cost of its own.
            return max(LEAST_ROWS, self._rows // parts)
        affordable = int(self._budget / parts / (self.cost * self.z))
        if ends_in_time:
            return max(1, affordable)
        return max(LEAST_ROWS, min(self._rows // parts, affordable))

    @property
    def cost(self) -> float:
        """Seconds a row would take lately if everything were looked at."""
        return self._spent / self._done if self._done else 0.0

    def start(self) -> None:
        """A quantum begins."""
        self._quantum_began = self.clock()

    def stop(self, rows: int, share: float, now: int) -> None:
        """A quantum of so many rows was processed, up to this event time, with this share of full work."""
        # A clock that is set back tells nothing of the quantum; time below 0 would spoil what others told.
        self._spent = _FADE * self._spent + max(0.0, self.clock() - self._quantum_began)
        self._done = _FADE * self._done + rows * share
        self._throttled += rows * self.z
        self._rows_left -= rows
        self._came += rows
        if self.policy.buffer is not None or self.left > 0:
            # Where no row waits, those taken in when time was up are the ones that would have waited.
            self._consumed += rows
        if self._by_quanta:
            self._look_ahead()
        else:
            self._pass(now)

    def end(self, waiting: int, newest: int | None) -> None:
        """The call is over; so many rows wait for the next, and event time has come to `newest`, be its rows
        processed or not."""
        self._waiting = waiting
        self._came += self._rows_left
        done = self._rows - self._rows_left
        self.lately = self._throttled / done if done else self.z
        if not self._by_quanta and newest is not None:
            self._pass(newest)
        self.seconds = self.clock() - self._began
        late = self.seconds > 1.2 * self._budget > 0
        self.overrun += late
        hopeless = late and self.z <= HOPELESS and self._by_quanta
        self._hopeless = self._hopeless + 1 if hopeless else 0
        if self._hopeless == CALLS_TO_WARN:
            warnings.warn(
                f"deadline: calls take {self.seconds:.3g} s with hardly anything looked at, and may "
                f"take {self._budget:.3g} s; taking rows in and building results costs that much, so allow "
                "more time, or bring fewer rows with a call",
                stacklevel=2,
            )

    # -- inside -------------------------------------------------------------------------------------

    @property
    def _by_quanta(self) -> bool:
        return self.policy.interval_micros is None

    def _look_ahead(self) -> None:
        """The fraction for which the rows left take the time left."""
        full = self.cost * self._rows_left
        if full > 0:
            left = max(LAST * self._budget, self.left - (1 - MARGIN) * self._budget)
            fraction = min(1.0, max(self.throttle.floor, left / full))
            self.throttle = replace(self.throttle, fraction=fraction)

    def _pass(self, now: int) -> None:
        """Event time goes on; at the end of an interval the fraction follows consumption (s. 3.1)."""
        assert self.policy.interval_micros is not None
        if self._interval_ends is None:
            self._interval_ends = now + self.policy.interval_micros
        if now < self._interval_ends:
            return
        self.throttle = adapted(self.throttle, consumption(self._consumed, self._came))
        self._came = self._consumed = 0.0
        self._interval_ends = now + self.policy.interval_micros

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        return {
            "throttle": self.throttle.fraction,
            "lately": self.lately,
            "cost": [self._spent, self._done],
            "interval_ends": self._interval_ends,
            "came": self._came,
            "consumed": self._consumed,
            "waiting": self._waiting,
            "calls": self.calls,
            "overrun": self.overrun,
            "hopeless": self._hopeless,
        }

    def load(self, saved: dict[str, Any]) -> None:
        self.throttle = replace(self.throttle, fraction=saved["throttle"])
        self.lately = saved["lately"]
        self._spent, self._done = saved["cost"]
        self._interval_ends, self._came = saved["interval_ends"], saved["came"]
        self._consumed, self._waiting = saved["consumed"], saved["waiting"]
        self.calls, self.overrun = saved["calls"], saved["overrun"]
        self._hopeless = saved["hopeless"]
