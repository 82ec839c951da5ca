"""What is asked: streams, their windows, the predicate, and how it may be run.

All values are frozen and validate themselves; texts such as "5 minutes" become values once, here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa

from windrow.errors import QueryError, unknown
from windrow.model.access import Access
from windrow.model.interval import Interval
from windrow.model.join_kind import CERTAIN, INNER, JoinKind
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import parse_shed
from windrow.model.policies.time_policies import TimePolicy
from windrow.model.units import LONGEST, format_duration, parse_duration, parse_rows

MIN_STREAMS = 2
MAX_STREAMS = 8
ORDERS = ("heuristic", "low-selectivity", "exhaustive")
ALGORITHMS = ("eager", "naive", "general")
AHEAD = "1 day"
"""More than any mistake about time zones, and soon over by itself."""
UNLIMITED = "unlimited"


@dataclass(frozen=True)
class Window:
    """How long a row stays joinable: a time, or a number of rows (of the stream, or of its key)."""

    kind: Literal["time", "rows", "rows per key"]
    size: int
    """Microseconds, or rows."""

    @classmethod
    def parse(cls, value: str | timedelta | Window, where: str) -> Window:
        if isinstance(value, Window):
            window = value
        elif isinstance(value, str) and (rows := parse_rows(value)) is not None:
            window = cls("rows per key" if rows[1] else "rows", rows[0])
        else:
            window = cls("time", parse_duration(value, where))
        if window.size <= 0:
            raise QueryError(f"{where}: window must be positive, got {window}")
        if window.size > LONGEST:
            raise QueryError(f"{where}: window must be at most {Window(window.kind, LONGEST)}, got {window}")
        return window

    @property
    def is_time(self) -> bool:
        return self.kind == "time"

    def __str__(self) -> str:
        if self.is_time:
            return format_duration(self.size)
        return f"{self.size} {self.kind}"


@dataclass(frozen=True)
class Function:
    """A Python function that predicates may call by name.

    `call` gets one Python value per argument, or whole pyarrow arrays if `vectorized`.
    """

    call: Callable[..., Any]
    returns: pa.DataType = field(default_factory=pa.bool_)
    vectorized: bool = False


@dataclass(frozen=True)
class Stream:
    """One input: its event time column, its window, and how the window is searched.

    Parameters
    ----------
    time
        Name of the event time column, a timestamp.
    within
        The window: "5 minutes", "1000 rows" or "100 rows per key".
    access
        "hash", "hash(30)", "sorted", "inverted", "scan"; None leaves it to the planner.
    """

    time: str
    within: str | timedelta | Window
    access: str | Access | None = None

    def checked(self, alias: str) -> Stream:
        """The same with window and access path as values; mistakes are told under the stream's alias."""
        where = f"stream '{alias}'"
        if not isinstance(self.time, str) or not self.time:
            raise QueryError(f"{where}: time must be the name of a timestamp column, got {self.time!r}")
        return Stream(self.time, Window.parse(self.within, where), Access.parse(self.access, where))

    @property
    def window(self) -> Window:
        assert isinstance(self.within, Window)
        return self.within

    @property
    def path(self) -> Access | None:
        assert not isinstance(self.access, str)
        return self.access


@dataclass(frozen=True)
class Query:
    """A window join of 2 to 8 streams, as a frozen value.

    Parameters
    ----------
    streams
        Alias to `Stream`, in the order of the result's columns.
    on
        A SQL predicate over the aliases: "a.id = b.auction_id and b.price > 10".
    late
        How far a row may lag behind the newest of its stream in earlier batches.
    idle
        After this much event time a silent stream no longer holds the others' windows open.
    ahead
        How far a row's time may be ahead of the clock; rows beyond are set aside and counted, since one
        alone would make all others of its stream late. Only where there is a clock: on Spark's streams, that
        of the micro-batch; in one process, if `process` is told. None or "unlimited" for no bound.
    memory
        What the windows may hold in all: "256 MiB", "100000 rows", or None for no limit.
    deadline
        How long a call of `process` may take, such as "2 seconds", or the rate to keep up with, such as
        "50000 rows/s"; None for no limit.
    shed
        What to give up under a limit: the name of a policy such as "age" or "harvest", a policy such as
        `Age(buckets=40)`, or one for memory and one for time: ("age", "harvest"). One for time alone needs
        a deadline; one for memory alone, where there is a deadline, a memory limit too.
    evaluate
        How much is processed at once: "eager", "every 100 rows", "every 5 seconds". It changes cost, never
        the answer; a call of `process` always finishes the rows it was given.
    expire
        When old rows expire: "eager", or "every 10 seconds" of event time.
    order
        "heuristic", "low-selectivity", "exhaustive", or the order itself: aliases for all directions,
        or a mapping from the arriving stream's alias to the aliases it probes.
    algorithm
        "eager" starts from the arriving rows; "naive" follows one order whatever arrives; "general" takes
        for each stream the order with the least expected cost, wherever it puts the arriving rows.
    revise
        The order is chosen anew when a measured rate, distinct count or selectivity has changed by this
        factor since the last choice.
    cross
        Allow a predicate whose join graph is in pieces: a cross product.
    functions
        Python functions the predicate may call, by name.
    seed
        For every random choice.
    how
        "inner", "left", "right", "full", "semi" or "anti" for two streams; or the role of each stream that is
        not required: {"clicks": "optional", "refunds": "absent", "logins": "exists"}.
    match
        As-of: {"quotes": "last"} takes, of the rows that fit a combination, only the last at or before the
        newest of the others; "first" the first after it, "nearest" the nearest in time.
    """

    streams: Mapping[str, Stream]
    on: str
    late: str | timedelta | int = "0 seconds"
    idle: str | timedelta | int | None = None
    ahead: str | timedelta | int | None = AHEAD
    memory: str | int | MemoryLimit | None = None
    deadline: str | timedelta | Deadline | None = None
    shed: str | MemoryPolicy | TimePolicy | tuple[str | MemoryPolicy, str | TimePolicy] = "auto"
    evaluate: str | Interval | None = None
    expire: str | Interval | None = None
    order: str | tuple[str, ...] | Mapping[str, tuple[str, ...]] = "heuristic"
    algorithm: str = "eager"
    revise: float = 2.0
    cross: bool = False
    functions: Mapping[str, Function | Callable[..., Any]] = field(default_factory=dict)
    seed: int = 0
    how: str | Mapping[str, str] = INNER
    match: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        self._check_streams()
        put(self, "streams", MappingProxyType({a: s.checked(a) for a, s in self.streams.items()}))
        if not isinstance(self.on, str) or not self.on.strip():
            raise QueryError(f"on: expected a SQL predicate such as 'a.id = b.id', got {self.on!r}")
        if self.ahead == UNLIMITED:
            put(self, "ahead", None)
        for name in ("late", "idle", "ahead"):
            value = getattr(self, name)
            if value is None and name == "late":
                raise QueryError("late: expected a duration such as '5 seconds', got None")
            if value is not None and not isinstance(value, int):
                put(self, name, parse_duration(value, name))
            if value is not None and getattr(self, name) < 0:
                raise QueryError(f"{name}: must not be negative, got {value}")
        put(self, "memory", MemoryLimit.parse(self.memory, "memory"))
        put(self, "deadline", Deadline.parse(self.deadline, "deadline"))
        put(self, "shed", parse_shed(self.shed, self.memory_limit, self.time_limit))
        self._check_limits()
        self._check_deadline()
        put(self, "evaluate", Interval.parse(self.evaluate, "evaluate"))
        put(self, "expire", Interval.parse(self.expire, "expire"))
        if not isinstance(self.revise, int | float) or not self.revise > 1:
            raise QueryError(f"revise: expected a factor above 1, such as 2.0, got {self.revise!r}")
        if self.algorithm not in ALGORITHMS:
            raise QueryError(f"algorithm: {unknown('algorithm', self.algorithm, ALGORITHMS)}")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise QueryError(f"seed: expected a whole number from 0 up, got {self.seed!r}")
        put(self, "order", self._checked_order())
        wrapped = {name: f if isinstance(f, Function) else Function(f) for name, f in self.functions.items()}
        put(self, "functions", MappingProxyType(wrapped))
        self._check_kind()

    def _check_streams(self) -> None:
        count = len(self.streams)
        if not MIN_STREAMS <= count <= MAX_STREAMS:
            raise QueryError(f"streams: a join takes {MIN_STREAMS} to {MAX_STREAMS} streams, got {count}")
        lowered: dict[str, str] = {}
        for alias, stream in self.streams.items():
            if not isinstance(alias, str) or not alias.isidentifier():
                raise QueryError(f"streams: an alias must be a plain name such as 'a', got {alias!r}")
            if alias.lower() in lowered:
                raise QueryError(
                    f"streams: duplicate alias {alias!r}: SQL takes it for {lowered[alias.lower()]!r}"
                )
            lowered[alias.lower()] = alias
            if not isinstance(stream, Stream):
                raise QueryError(
                    f"stream '{alias}': expected wr.Stream(time=..., within=...), got {stream!r}"
                )

    def _check_limits(self) -> None:
        split = self.memory_policy.split
        if not isinstance(split, str) and set(split) != set(self.streams):
            raise QueryError(
                f"shed: split must give a share to each of {list(self.streams)}, got {dict(split)}"
            )
        if self.memory_limit is None and self.memory_policy.samples:
            raise QueryError(
                f"shed: '{self.memory_policy.name}' samples to stay inside a limit; set memory='64 MiB' or so"
            )
        self.memory_policy.check(self.aliases)
        if (
            self.memory_limit is not None
            and self.memory_limit.kind == "rows"
            and self.memory_limit.size < len(self.streams)
        ):
            raise QueryError(
                f"memory: {self.memory_limit} is less than one row for each of {len(self.streams)} streams"
            )

    def _check_deadline(self) -> None:
        if self.deadline is None:
            return
        self.time_policy.check([s.window.size for s in self.streams.values() if s.window.is_time])
        if self.counts_rows and self.time_policy.buffer is not None:
            raise QueryError(
                "shed: windows counted in rows must see every row, so none may wait in a buffer or be "
                "dropped from it; leave buffer out"
            )
        if self.memory_limit is not None and self.memory_policy.samples:
            raise QueryError(
                f"shed: a '{self.memory_policy.name}' sample has weights only if all its results are found; "
                "leave the deadline out, or choose another policy such as 'auto'"
            )
        if self.algorithm != "eager":
            raise QueryError(
                "deadline: parts of windows are chosen by their age against the arriving row, so probing "
                f"must start from it: algorithm must be 'eager', got {self.algorithm!r}"
            )

    def _check_kind(self) -> None:
        if not self.kind.shapes:
            return
        option = "match" if self.how == INNER else "how"
        counted = next((a for a, s in self.streams.items() if not s.window.is_time), None)
        if counted is not None:
            raise QueryError(
                f"{option}: the window of '{counted}' is counted in rows, and only inner joins have such "
                f"windows; give '{counted}' a time, such as within='5 minutes'"
            )
        if self.deadline is not None:
            raise QueryError(
                f"{option}: only inner joins have a deadline; leave deadline out, or bound the memory instead"
            )
        if self.memory_limit is not None and self.memory_policy.samples:
            raise QueryError(
                f"shed: a '{self.memory_policy.name}' sample has weights for inner joins only; choose "
                "another policy such as 'auto'"
            )
        if self.tells_certainty and CERTAIN in self.streams:
            raise QueryError(
                f"streams: results of this join have a column '{CERTAIN}' under a limit; rename the stream"
            )

    def _checked_order(self) -> str | Mapping[str, tuple[str, ...]]:
        """A strategy's name, or alias of the arriving stream -> all aliases in probing order."""
        if isinstance(self.order, str):
            if self.order not in ORDERS:
                raise QueryError(f"order: {unknown('order', self.order, ORDERS)}")
            if self.order == "exhaustive" and len(self.streams) > 5:
                raise QueryError(
                    "order: 'exhaustive' tries every order and is for up to 5 streams; use 'heuristic'"
                )
            return self.order
        if not isinstance(self.order, Mapping | list | tuple):
            raise QueryError(f"order: expected {', '.join(ORDERS)} or aliases in order, got {self.order!r}")
        if not isinstance(self.order, Mapping):
            given = tuple(self.order)
            self._check_permutation(given, set(self.streams), "order")
            if self.algorithm == "eager":
                return MappingProxyType({a: (a, *(x for x in given if x != a)) for a in self.streams})
            return MappingProxyType(dict.fromkeys(self.streams, given))
        orders: dict[str, tuple[str, ...]] = {}
        for alias in self.streams:
            if alias not in self.order:
                raise QueryError(
                    f"order: direction '{alias}' is missing; give an order for each of {list(self.streams)}"
                )
            given = tuple(self.order[alias])
            if alias not in given:
                given = (alias, *given)
            self._check_permutation(given, set(self.streams), f"order of direction '{alias}'")
            orders[alias] = given
        return MappingProxyType(orders)

    @staticmethod
    def _check_permutation(given: tuple[str, ...], aliases: set[str], where: str) -> None:
        if len(given) != len(aliases) or set(given) != aliases:
            raise QueryError(f"{where}: expected each of {sorted(aliases)} once, got {list(given)}")

    @property
    def watermark_delay_us(self) -> int:
        """`late` in microseconds."""
        assert isinstance(self.late, int)
        return self.late

    @property
    def idle_timeout_us(self) -> int | None:
        """`idle` in microseconds."""
        assert self.idle is None or isinstance(self.idle, int)
        return self.idle

    @property
    def head_start(self) -> int | None:
        """`ahead` in microseconds."""
        assert self.ahead is None or isinstance(self.ahead, int)
        return self.ahead

    @property
    def evaluate_interval(self) -> Interval | None:
        """`evaluate` as a value."""
        assert not isinstance(self.evaluate, str)
        return self.evaluate

    @property
    def expire_interval(self) -> Interval | None:
        """`expire` as a value."""
        assert not isinstance(self.expire, str)
        return self.expire

    @property
    def memory_limit(self) -> MemoryLimit | None:
        """`memory` as a value."""
        assert self.memory is None or isinstance(self.memory, MemoryLimit)
        return self.memory

    @property
    def time_limit(self) -> Deadline | None:
        """`deadline` as a value."""
        assert self.deadline is None or isinstance(self.deadline, Deadline)
        return self.deadline

    @property
    def memory_policy(self) -> MemoryPolicy:
        """What `shed` says of memory."""
        assert isinstance(self.shed, tuple) and isinstance(self.shed[0], MemoryPolicy)
        return self.shed[0]

    @property
    def time_policy(self) -> TimePolicy:
        """What `shed` says of time."""
        assert isinstance(self.shed, tuple) and isinstance(self.shed[1], TimePolicy)
        return self.shed[1]

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self.streams)

    @cached_property
    def kind(self) -> JoinKind:
        """`how` and `match` as a value."""
        return JoinKind.parse(self.how, self.match, self.aliases)

    @property
    def tells_certainty(self) -> bool:
        """Whether results say if they stand whatever was shed: where a limit can make one false."""
        return self.memory is not None and self.kind.doubtful

    @property
    def result_aliases(self) -> tuple[str, ...]:
        """Streams with a column in the result."""
        return tuple(alias for k, alias in enumerate(self.aliases) if k not in self.kind.hidden)

    @cached_property
    def counts_rows(self) -> bool:
        """Whether any window is counted in rows."""
        return any(not s.window.is_time for s in self.streams.values())
