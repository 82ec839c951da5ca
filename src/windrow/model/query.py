"""The query: streams, their windows, the predicate, and how it may be run.

All values are frozen and validate themselves; text such as "5 minutes" is parsed once, here. Every setting is
one field with its reader and its help text: see `settings.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from windrow.errors import Option, QueryError, placed
from windrow.model.access import PATHS, Access
from windrow.model.consistency import check_deadline, check_kind, check_late, check_limits, checked_order
from windrow.model.evaluation_rules import NAN, ON_ERROR, NanRule
from windrow.model.function import Function as Function
from windrow.model.function import read_functions
from windrow.model.interval import Interval
from windrow.model.join_kind import HOW, INNER, MATCH, JoinShapes
from windrow.model.keywords import checks_keywords
from windrow.model.limits import DISK, UNLIMITED, Deadline, MemoryLimit
from windrow.model.notebook import html_table
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import parse_policies, parse_shed
from windrow.model.policies.time_policies import TimePolicy
from windrow.model.setting_texts import changed_settings
from windrow.model.settings import (
    Parsed,
    by_alias,
    choice,
    documented,
    duration,
    keep_read_values,
    optional,
    read_values,
    setting,
    text,
    truth,
    whole,
)
from windrow.model.units import LONGEST, format_duration, parse_duration, parse_rows

MIN_STREAMS = 2
MAX_STREAMS = 8
ORDERS = ("heuristic", "low-selectivity", "exhaustive")
ALGORITHMS = ("eager", "naive", "general")
_DEFAULTS = {"late": 0, "ahead": 86_400_000_000, "shed": parse_shed("auto", None, None)}
"""Defaults after parsing."""
DURATION = "a duration such as '5 seconds'"


@dataclass(frozen=True)
class Window:
    """How long a row stays joinable: a time, or a number of rows (of the stream, or of its key)."""

    kind: Literal["time", "rows", "rows per key"]
    size: int
    """Microseconds, or rows."""

    @classmethod
    def parse(cls, value: str | timedelta | Window) -> Window:
        """Accepts "5 minutes", a timedelta, "1000 rows", "100 rows per key" or a Window."""
        if isinstance(value, Window):
            window = value
        elif isinstance(value, str) and (rows := parse_rows(value)) is not None:
            window = cls("rows per key" if rows[1] else "rows", rows[0])
        else:
            window = cls("time", parse_duration(value))
        if window.size <= 0:
            raise QueryError(f"window must be positive, got {window}")
        if window.size > LONGEST:
            raise QueryError(f"window must be at most {Window(window.kind, LONGEST)}, got {window}")
        return window

    @property
    def is_time(self) -> bool:
        return self.kind == "time"

    def __str__(self) -> str:
        if self.is_time:
            return format_duration(self.size)
        return f"{self.size} {self.kind}"


def _factor(value: Any) -> float:
    if not isinstance(value, int | float) or not value > 1:
        raise QueryError(f"expected a factor above 1, such as 2.0, got {value!r}")
    return value


def _order(value: Any) -> str | tuple[str, ...] | Mapping[str, tuple[str, ...]]:
    """Read a strategy, or aliases; whether these exist is checked later."""
    if isinstance(value, str):
        return choice("order", *ORDERS)(value)
    if isinstance(value, Mapping):
        return {alias: tuple(order) for alias, order in value.items()}
    if not isinstance(value, list | tuple):
        raise QueryError(f"expected {', '.join(ORDERS)} or aliases in order, got {value!r}")
    return tuple(value)


@checks_keywords("wr.Stream")
@documented
@dataclass(frozen=True)
class Stream:
    """One input: its event time column, its window, and how the window is searched."""

    time: str = field(
        metadata=setting(
            text("the name of a timestamp column"),
            "Name of the event time column, a timestamp.",
            fixed="rows were ordered, admitted and expired by it",
        )
    )
    within: str | timedelta | Window = field(
        metadata=setting(Window.parse, 'The window: "5 minutes", "1000 rows" or "100 rows per key".')
    )
    access: str | Access | None = field(
        default=None,
        metadata=setting(
            Access.parse,
            f"How the window is searched: {', '.join(PATHS)}, or hash with a number of buckets such as "
            '"hash(30)"; None leaves it to the planner.',
        ),
    )
    source_partition: str | None = field(
        default=None,
        metadata=setting(
            optional(text("the name of a column")),
            "Name of the column that holds the partition of the source a row was read from, such as Kafka's "
            "`partition`. Event time is then tracked per source partition, and the slowest that is not idle "
            "decides which rows are late.",
            fixed="how far each partition of the source has come is known only if it was always tracked",
        ),
    )

    def checked(self, alias: str) -> Stream:
        """The same stream with its settings read."""
        with placed(Option(stream=alias)):
            return Stream(**read_values(self))

    window = Parsed[Window]("within")
    path = Parsed[Access | None]("access")


@checks_keywords("wr.Query")
@documented
@dataclass(frozen=True)
class Query:
    """A window join of 2 to 8 streams, as a frozen value.

    `streams` maps aliases to `Stream`, in the order of the result's columns.
    """

    streams: Mapping[str, Stream]
    on: str = field(
        metadata=setting(
            text("a SQL predicate such as 'a.id = b.id'"),
            'A SQL predicate over the aliases: "a.id = b.auction_id and b.price > 10".',
            fixed="rows that it filters out were not kept, and it decides which partition a row is in",
        )
    )
    late: str | timedelta | int | Mapping[str, str | timedelta | int] = field(
        default="0 seconds",
        metadata=setting(
            by_alias(duration()),
            "How far a row may lag behind the newest of its stream in earlier batches; one for all streams, "
            "or a mapping by alias, zero for those it leaves out. A DataFrame with a watermark brings its "
            "own.",
            example=DURATION,
        ),
    )
    idle: str | timedelta | int | None = field(
        default=None,
        metadata=setting(
            optional(duration()),
            "After this much event time a silent stream no longer holds the others' windows open.",
            example=DURATION,
        ),
    )
    ahead: str | timedelta | int | None = field(
        default="1 day",  # more than any time zone mistake, and soon over
        metadata=setting(
            lambda value: None if value in (None, UNLIMITED) else duration()(value),
            "How far a row's time may be ahead of the clock; rows beyond are set aside and counted, since "
            "one alone would make all others of its stream late. Only where there is a clock: on Spark's "
            "streams that of the micro-batch, in one process the one given to `process`. None or "
            '"unlimited" for no bound.',
            example="a duration such as '1 day', or 'unlimited'",
        ),
    )
    memory: str | int | MemoryLimit | None = field(
        default=None,
        metadata=setting(
            MemoryLimit.parse,
            'What the windows may hold in all: "256 MiB", "100000 rows", or None for no limit.',
        ),
    )
    disk: str | int | MemoryLimit | None = field(default=None, metadata=DISK)
    deadline: str | timedelta | Deadline | None = field(
        default=None,
        metadata=setting(
            Deadline.parse,
            'How long a call of `process`, or a micro-batch, may take: "2 seconds", or the rate to keep up '
            'with: "50000 rows/s"; None for no limit.',
        ),
    )
    shed: str | MemoryPolicy | TimePolicy | tuple[str | MemoryPolicy, str | TimePolicy] = field(
        default="auto",
        metadata=setting(
            parse_policies,
            'What to give up under a limit: the name of a policy such as "age" or "harvest", a policy such '
            'as `policies.Age(buckets=40)`, or one for memory and one for time: ("age", "harvest"). One for '
            "time alone needs a deadline; one for memory alone, where there is a deadline, a limit too.",
        ),
    )
    evaluate: str | Interval | None = field(
        default=None,
        metadata=setting(
            Interval.parse,
            'How much is processed at once: "eager", "every 100 rows", "every 5 seconds". It changes cost, '
            "never the answer; a call of `process` always finishes the rows it was given.",
        ),
    )
    expire: str | Interval | None = field(
        default=None,
        metadata=setting(
            Interval.parse, 'When old rows expire: "eager", or "every 10 seconds" of event time.'
        ),
    )
    order: str | tuple[str, ...] | Mapping[str, tuple[str, ...]] = field(
        default="heuristic",
        metadata=setting(
            _order,
            f"{', '.join(ORDERS)}, or the order itself: aliases for all directions, or a mapping from the "
            "arriving stream's alias to the aliases it probes.",
        ),
    )
    algorithm: str = field(
        default="eager",
        metadata=setting(
            choice("algorithm", *ALGORITHMS),
            '"eager" starts from the arriving rows; "naive" follows one order whatever arrives; "general" '
            "takes for each stream the order of least expected cost, wherever it puts the arriving rows.",
        ),
    )
    revise: float = field(
        default=2.0,
        metadata=setting(
            _factor,
            "The order is chosen anew when a measured rate, distinct count or selectivity has changed by "
            "this factor since the last choice.",
        ),
    )
    cross: bool = field(
        default=False,
        metadata=setting(truth, "Allow a predicate whose join graph is in pieces: a cross product."),
    )
    functions: Mapping[str, Function | Callable[..., Any]] = field(
        default_factory=dict,
        metadata=setting(read_functions, "Python functions the predicate may call, by name.", texts=False),
    )
    seed: int = field(
        default=0, metadata=setting(whole(0, "a whole number from 0 up"), "For every random choice.")
    )
    how: str | Mapping[str, str] = field(default=INNER, metadata=HOW)
    match: Mapping[str, str] | None = field(default=None, metadata=MATCH)
    on_error: str | None = field(default=None, metadata=ON_ERROR)
    nan: str = field(default="spark", metadata=NAN)

    idle_timeout_us = Parsed[int | None]("idle")
    head_start = Parsed[int | None]("ahead")
    evaluate_interval = Parsed[Interval | None]("evaluate")
    expire_interval = Parsed[Interval | None]("expire")
    nan_rule = Parsed[NanRule]("nan")
    calls = Parsed[Mapping[str, Function]]("functions")
    memory_limit = Parsed[MemoryLimit | None]("memory")
    disk_limit = Parsed[MemoryLimit | None]("disk")
    time_limit = Parsed[Deadline | None]("deadline")

    def __post_init__(self) -> None:
        put = object.__setattr__
        self._check_streams()
        put(self, "streams", MappingProxyType({a: s.checked(a) for a, s in self.streams.items()}))
        keep_read_values(self)
        with placed(Option("shed")):
            put(self, "shed", parse_shed(self.shed, self.memory_limit, self.time_limit))
        check_limits(self)
        check_deadline(self)
        with placed(Option("order")):
            put(self, "order", checked_order(self))
        check_kind(self)
        check_late(self)

    def _check_streams(self) -> None:
        if not isinstance(self.streams, Mapping):
            raise QueryError(
                f"expected {{'a': wr.Stream('at', '5 minutes'), ...}}, got {self.streams!r}",
                Option("streams"),
            )
        count = len(self.streams)
        if not MIN_STREAMS <= count <= MAX_STREAMS:
            raise QueryError(
                f"a join takes {MIN_STREAMS} to {MAX_STREAMS} streams, got {count}", Option("streams")
            )
        lowered: dict[str, str] = {}
        for alias, stream in self.streams.items():
            with placed(Option("streams")):
                if not isinstance(alias, str) or not alias.isidentifier():
                    raise QueryError(f"an alias must be a plain name such as 'a', got {alias!r}")
                if alias.lower() in lowered:
                    raise QueryError(
                        f"duplicate alias {alias!r}: SQL takes it for {lowered[alias.lower()]!r}"
                    )
            lowered[alias.lower()] = alias
            if not isinstance(stream, Stream):
                raise QueryError(
                    f"expected wr.Stream(time=..., within=...), got {stream!r}", Option(stream=alias)
                )

    def __repr__(self) -> str:
        streams = ", ".join(f"{alias} [{s.window}]" for alias, s in self.streams.items())
        given = "".join(f", {name}={value}" for name, value in changed_settings(self, _DEFAULTS).items())
        return f"Query({streams} on {self.on!r}{given})"

    def _repr_html_(self) -> str:
        streams = {f"stream {a}": f"{s.window}, by {s.time}" for a, s in self.streams.items()}
        return html_table("Query", {**streams, "on": self.on, **changed_settings(self, _DEFAULTS)})

    @cached_property
    def watermark_delays(self) -> tuple[int, ...]:
        """`late` of each stream in microseconds."""
        late = self.late
        delays = [late.get(a, 0) if isinstance(late, Mapping) else late for a in self.aliases]
        return tuple(delay for delay in delays if isinstance(delay, int))

    @property
    def watermark_delay_us(self) -> int:
        """The largest `late` of a stream, in microseconds."""
        return max(self.watermark_delays)

    @property
    def shed_limit(self) -> MemoryLimit | None:
        """What the windows may hold, in memory and on disk, before rows are evicted; None for no limit."""
        memory, disk = self.memory_limit, self.disk_limit
        if memory is None or disk is None:
            return memory
        return None if disk.is_unlimited else MemoryLimit("bytes", memory.size + disk.size)

    @property
    def memory_policy(self) -> MemoryPolicy:
        """The memory policy of `shed`."""
        assert isinstance(self.shed, tuple) and isinstance(self.shed[0], MemoryPolicy)
        return self.shed[0]

    @property
    def time_policy(self) -> TimePolicy:
        """The time policy of `shed`."""
        assert isinstance(self.shed, tuple) and isinstance(self.shed[1], TimePolicy)
        return self.shed[1]

    @property
    def raises(self) -> bool:
        """Whether an operation that fails ends the query."""
        return self.on_error != "null"

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self.streams)

    @cached_property
    def kind(self) -> JoinShapes:
        """`how` and `match`, parsed."""
        return JoinShapes.parse(self.how, self.match, self.aliases, bool(self.shed_limit or self.deadline))

    @cached_property
    def counts_rows(self) -> bool:
        """Whether any window is a row window."""
        return any(not s.window.is_time for s in self.streams.values())
