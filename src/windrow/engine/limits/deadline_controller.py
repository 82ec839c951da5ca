"""Time under a deadline: how much is processed at once, and what part of the full work may be done.

The costs of a call are learned from timed sub-batches (`harvest/call_costs.py`). A policy asks for these
costs and the time left, and decides once per call what it gives up. While there is time for everything, a
call is cut as it would be without a deadline.

The throttle fraction is the part of the work which depends on it that there is time for. With each sub-batch
it is set to what lets the rows left take the time left. With an interval it is instead adapted every so much
event time, from rows consumed against rows that came, as in GrubJoin; then a call can run out of time, and
what is left over waits or is dropped, or without a buffer is taken in late and not counted as consumed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

from windrow.engine.limits.stopwatch import Stopwatch
from windrow.engine.sub_batches import DEFAULT_SUB_BATCH_ROWS
from windrow.harvest.call_costs import Costs, Timed
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
WORTH = 0.02
"""Of a call's time that its being cut finer may cost."""
PARTS = 4
"""While there is time for everything, where each sub-batch decides anew."""
LEAST_SECONDS = 1e-3
"""Of a call, however late it already is."""
MIN_USEFUL_THROTTLE = 0.01
CALLS_TO_WARN = 3
FIRST_ROWS = 64
LEAST_ROWS = 16
_FADE = 0.85
"""How much what was learned of the cost of a row counts, one sub-batch later."""


class DeadlineController(Stateful):
    saved = (
        "throttle", "mean_throttle", "costs", "calls", "last", "missed_deadlines", "_spent",
        "_done", "_taken", "_taken_rows", "_after", "_cuts_before", "_interval_ends", "_arrived",
        "_consumed", "_waiting", "_hopeless",
    )  # fmt: skip
    clocks = ("_interval_ends",)

    def __init__(self, deadline: Deadline, policy: TimePolicy, clock: Clock) -> None:
        self.deadline = deadline
        self.policy = policy
        self.clock = clock
        self.watch = Stopwatch(clock)
        self.costs = Costs()
        self.throttle = self._whole = Throttle(boost=policy.boost)
        self.missed_deadlines = 0
        """Calls that took more than a fifth longer than they should."""
        self.calls = 0
        self.seconds = 0.0
        """What the last call took."""
        self.last = 0.0
        """What the last call took for a row."""
        self.mean_throttle = 1.0
        """The throttle fraction of the last call: the mean over its rows."""
        self.part = 1.0
        """Of the time the call would take that what the policy decided for it takes."""
        self.short = False
        """Whether this call has no time to take its rows in."""
        self._throttled = 0.0
        self._spent = 0.0
        self._done = 0.0
        """Seconds lately, and the full work for how many rows was done in them."""
        self._taken = 0.0
        self._taken_rows = 0.0
        """Seconds lately that do not depend on the throttle fraction, and of how many rows."""
        self._after = 0.0
        """Seconds between the last sub-batch and the end of a call, lately."""
        self._began: float | None = None
        self._budget = 0.0
        self._rows = 0
        """Of this call, and how many of them are left."""
        self._rows_left = 0
        self._sub_batch_began = 0.0
        self._stopped = 0.0
        self._cuts = 0
        self._cuts_before = 1
        """Sub-batches of this call, and of the last that had any."""
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
        self._cuts = 0
        self.watch.start()
        self._stopped = self.clock()
        self.part, self.short = 1.0, False
        self.calls += 1
        if self.policy.plans_calls:
            self.throttle = self._whole
        elif self._by_sub_batches:
            self._set_throttle()

    def admit(self, rows: int, z: float, part: float) -> None:
        """Of the rows left so many are admitted; what is done for them is this part of the exact call, the
        throttle fraction being z."""
        self._rows -= self._rows_left - rows
        self._rows_left, self.part, self._stopped = rows, part, self.clock()
        if z < 1.0:
            self.throttle = replace(self.throttle, fraction=max(self.throttle.floor, z))

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
    def spare(self) -> float:
        """Seconds left for sub-batches, without what comes after the last."""
        return self.seconds_left - self._after

    @property
    def budget(self) -> float:
        """Seconds that the call may take."""
        return self._budget

    @property
    def rows_left(self) -> int:
        """Of this call, those of the sub-batch at hand left out."""
        return self._rows_left

    @property
    def cuts_left(self) -> float:
        """Sub-batches that the rows left are likely to be cut into."""
        return max(1.0, self._cuts_before - self._cuts, self._rows_left / DEFAULT_SUB_BATCH_ROWS)

    @property
    def out_of_time(self) -> bool:
        """Whether what is left must wait or go."""
        return self.policy.buffer is not None and self.seconds_left <= 0

    def next_rows(self) -> int:
        """How many to process next, where each sub-batch decides anew."""
        if self.cost == 0.0:
            return FIRST_ROWS
        ends_in_time = self.policy.buffer is not None  # then the last sub-batch must be short
        if self.policy.plans_calls and self.z == 1.0:
            return max(LEAST_ROWS, self._rows // self.parts)
        parts = PARTS if self.z == 1.0 and not ends_in_time else PARTS_SHEDDING
        if self.seconds_left <= 0:
            # Too late to correct the course, and each sub-batch has a cost of its own.
            return max(LEAST_ROWS, self._rows // parts)
        affordable = int(self._budget / parts / (self._fixed + self._varying * self.z))
        if ends_in_time:
            return max(1, affordable)
        return max(LEAST_ROWS, min(self._rows // parts, affordable))

    @property
    def parts(self) -> int:
        """How many sub-batches a call is worth to be cut into."""
        each = self.costs.fitted().sub_batch
        return max(1, min(PARTS_SHEDDING, int(WORTH * self._budget / max(each, 1e-9))))

    @property
    def cost(self) -> float:
        """Seconds a row would take lately if everything were looked at."""
        return self._fixed + self._varying if self._done else 0.0

    @property
    def _fixed(self) -> float:
        return self._taken / self._taken_rows if self._taken_rows else 0.0

    @property
    def _varying(self) -> float:
        return self._spent / self._done if self._done else 0.0

    def begin_sub_batch(self, rows: int) -> None:
        """A sub-batch of so many rows begins."""
        if self._cuts or not self.policy.plans_calls:
            self.watch.start()
        self._sub_batch_began = self.clock()
        self._rows_left -= rows

    def end_sub_batch(self, rows: int, share: float, now: int, timed: Timed | None = None) -> None:
        """A sub-batch of so many rows was processed, up to this event time, with this share of the work that
        depends on the throttle; without times by kind, all of it does."""
        # A clock that is set back tells nothing of the sub-batch; time below 0 would spoil what others told.
        self._stopped = self.clock()
        spent, fixed = max(0.0, self._stopped - self._sub_batch_began), 0.0
        if timed is not None:
            if self.z < 1.0:
                known = self.costs.fitted()
                fixed = timed.take + min(timed.probe, known.probe + known.probe_row * rows)
            else:
                # To look at parts of windows costs otherwise, and would spoil what is known of whole ones.
                self.costs.add(timed)
                fixed = timed.take
        self._spent = _FADE * self._spent + max(0.0, spent - fixed)
        self._done = _FADE * self._done + rows * share
        self._taken, self._taken_rows = _FADE * self._taken + fixed, _FADE * self._taken_rows + rows
        self._throttled += rows * self.z
        self._cuts += 1
        self._arrived += rows
        if self.policy.buffer is not None or self.seconds_left > 0:
            # Where no row waits, those taken in when time was up are the ones that would have waited.
            self._consumed += rows
        if not self._by_sub_batches:
            self._adapt(now)
        elif not self.policy.plans_calls or self.z < 1.0:
            self._set_throttle()

    def end_call(self, waiting: int, newest: int | None, built: float = 1.0) -> None:
        """The call is over; so many rows wait for the next, and event time has come to `newest`, be its rows
        processed or not. Of the results that were found this part was built."""
        self._waiting = waiting
        self._arrived += self._rows_left
        done = self._rows - self._rows_left
        self.mean_throttle = self._throttled / done if done else self.z
        self.mean_throttle = min(self.mean_throttle, self.part, built)
        self._cuts_before = self._cuts or self._cuts_before
        if not self._by_sub_batches and newest is not None:
            self._adapt(newest)

    def close(self) -> None:
        """The results are handed over."""
        assert self._began is not None
        now = self.clock()
        self.seconds = now - self._began
        self._began = None
        self.last = self.seconds / max(1, self._rows)
        after = max(0.0, now - self._stopped)
        # Soon less, slowly more: the first calls have much to set up.
        self._after += (0.5 if after < self._after else 0.2) * (after - self._after)
        late = self.seconds > 1.2 * self._budget > 0
        self.missed_deadlines += late
        hopeless = (late and self.z <= MIN_USEFUL_THROTTLE and self._by_sub_batches) or self.short
        self._hopeless = self._hopeless + 1 if hopeless else 0
        if self._hopeless == CALLS_TO_WARN:
            remedy = "Raise the deadline or pass fewer rows per call"
            if self.short:
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
        return self.policy.interval_micros is None

    def _set_throttle(self) -> None:
        """The fraction for which the rows left take the time left."""
        full = self._varying * self._rows_left
        if full > 0:
            left = self.seconds_left - (1 - MARGIN) * self._budget - self._fixed * self._rows_left
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
