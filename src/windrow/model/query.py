"""The query: streams, their windows, the predicate, and how it may be run.

All values are frozen and validate themselves; text such as "5 minutes" is parsed once, here. Every setting is
one field with its reader and its help text: see `settings.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from windrow.errors import Option, QueryError, placed
from windrow.model.access import PATHS, Access
from windrow.model.consistency import ORDERS, check_consistency, checked_order, read_order
from windrow.model.function import Function as Function
from windrow.model.function import read_functions
from windrow.model.interval import Interval
from windrow.model.join_kind import INNER, JoinShapes, read_how, read_match
from windrow.model.limits import UNLIMITED, Deadline, MemoryLimit, read_disk_limit
from windrow.model.notebook import html_table
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import parse_policies, parse_shed
from windrow.model.policies.time_policies import TimePolicy
from windrow.model.settings import (
    Parsed,
    by_alias,
    changed_settings,
    choice,
    duration,
    keep_read_values,
    number,
    optional,
    read_values,
    setting,
    settings_class,
    text,
    truth,
)
from windrow.model.units import LONGEST, format_duration, parse_duration, parse_rows

MIN_STREAMS = 2
MAX_STREAMS = 8
ALGORITHMS = ("eager", "naive", "general")
DURATION = "a duration such as '5 seconds'"
NanRule = Literal["spark", "never"]


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


def _late_text(late: Any) -> str:
    if not isinstance(late, Mapping):
        return format_duration(late)
    return ", ".join(f"{alias} {format_duration(each)}" for alias, each in late.items())


@settings_class("wr.Stream")
class Stream:
    """One input: its event time column, its window, and how the window is searched."""

    time: str = setting(
        text("the name of a timestamp column"),
        "Name of the event time column, a timestamp.",
        fixed="rows were ordered, admitted and expired by it",
    )
    within: str | timedelta | Window = setting(
        Window.parse, 'The window: "5 minutes", "1000 rows" or "100 rows per key".'
    )
    access: str | Access | None = setting(
        Access.parse,
        f"How the window is searched: {', '.join(PATHS)}, or hash with a number of buckets such as "
        '"hash(30)"; None leaves it to the planner.',
        default=None,
    )
    source_partition: str | None = setting(
        optional(text("the name of a column")),
        "Name of the column that holds the partition of the source a row was read from, such as Kafka's "
        "`partition`. Event time is then tracked per source partition, and the slowest that is not idle "
        "decides which rows are late.",
        default=None,
        fixed="how far each partition of the source has come is known only if it was always tracked",
    )

    window = Parsed[Window]("within")
    path = Parsed[Access | None]("access")

    def checked(self, alias: str) -> Stream:
        """The same stream with its settings read."""
        with placed(Option(stream=alias)):
            return Stream(**read_values(self))


@settings_class("wr.Query")
class Query:
    """A window join of 2 to 8 streams, as a frozen value.

    `streams` maps aliases to `Stream`, in the order of the result's columns.
    """

    streams: Mapping[str, Stream]
    on: str = setting(
        text("a SQL predicate such as 'a.id = b.id'"),
        'A SQL predicate over the aliases: "a.id = b.auction_id and b.price > 10".',
        fixed="rows that it filters out were not kept, and it decides which partition a row is in",
    )
    late: str | timedelta | int | Mapping[str, str | timedelta | int] = setting(
        by_alias(duration()),
        "How far a row may lag behind the newest of its stream in earlier batches; one for all streams, or a "
        "mapping by alias, zero for those it leaves out. A DataFrame with a watermark brings its own.",
        default="0 seconds",
        example=DURATION,
        show=_late_text,
    )
    idle: str | timedelta | int | None = setting(
        optional(duration()),
        "After this much event time without rows a stream no longer holds the others' windows open.",
        default=None,
        example=DURATION,
        show=format_duration,
    )
    ahead: str | timedelta | int | None = setting(
        lambda value: None if value in (None, UNLIMITED) else duration()(value),
        "How far a row's time may be ahead of the clock; rows beyond are set aside and counted, since "
        "one alone would make all others of its stream late. Only where there is a clock: on Spark's "
        "streams that of the micro-batch, in one process the one given to `process`. None or "
        '"unlimited" for no bound.',
        default="1 day",  # more than any time zone mistake, and soon over
        example="a duration such as '1 day', or 'unlimited'",
        show=lambda ahead: UNLIMITED if ahead is None else format_duration(ahead),
    )
    memory: str | int | MemoryLimit | None = setting(
        MemoryLimit.parse,
        'What the windows may hold in all: "256 MiB", "100000 rows", or None for no limit.',
        default=None,
    )
    disk: str | int | MemoryLimit | None = setting(
        read_disk_limit,
        'What the windows may hold on local disk beyond `memory`: "20 GiB", or "unlimited". They spill to it '
        "before rows are shed; unlimited, none are, and the answer is exact. None keeps windows in memory.",
        default=None,
    )
    deadline: str | timedelta | Deadline | None = setting(
        Deadline.parse,
        'How long a call of `process`, or a micro-batch, may take: "2 seconds", or the rate to keep up '
        'with: "50000 rows/s"; None for no limit.',
        default=None,
    )
    shed: str | MemoryPolicy | TimePolicy | tuple[str | MemoryPolicy, str | TimePolicy] = setting(
        parse_policies,
        'What to shed under a limit: the name of a policy such as "age" or "harvest", a policy such '
        'as `policies.Age(age_bins=40)`, or one for memory and one for time: ("age", "harvest"). One for '
        "time alone needs a deadline; one for memory alone, where there is a deadline, a limit too.",
        default="auto",
        show=lambda shed: " and ".join(map(str, shed)),
    )
    evaluate: str | Interval | None = setting(
        Interval.parse,
        'How much is processed at once: "eager", "every 100 rows", "every 5 seconds". It changes cost, '
        "never the answer; a call of `process` always finishes the rows it was given.",
        default=None,
    )
    expire: str | Interval | None = setting(
        Interval.parse, 'When old rows expire: "eager", or "every 10 seconds" of event time.', default=None
    )
    order: str | tuple[str, ...] | Mapping[str, tuple[str, ...]] = setting(
        read_order,
        f"{', '.join(ORDERS)}, or the order itself: aliases for all directions, or a mapping from the "
        "arriving stream's alias to the aliases it probes.",
        default="heuristic",
    )
    algorithm: str = setting(
        choice("algorithm", *ALGORITHMS),
        '"eager" starts from the arriving rows; "naive" follows one order whatever arrives; "general" '
        "takes for each stream the order of least expected cost, wherever it puts the arriving rows.",
        default="eager",
    )
    replan_factor: float = setting(
        number("a factor above 1, such as 2.0", lambda n: n > 1),
        "The order is chosen anew when a measured rate, distinct count or selectivity has changed by "
        "this factor since the last choice.",
        default=2.0,
    )
    allow_cross_join: bool = setting(
        truth, "Allow a predicate whose join graph is in pieces: a cross product.", default=False
    )
    functions: Mapping[str, Function | Callable[..., Any]] = setting(
        read_functions,
        "Python functions the predicate may call, by name.",
        default=None,
        texts=False,
        show=", ".join,
    )
    seed: int = setting(
        number("a whole number of at least 0", lambda n: n >= 0, whole=True),
        "For every random choice.",
        default=0,
    )
    how: str | Mapping[str, str] = setting(
        read_how,
        '"inner"; "left", "right", "full", "semi" or "anti" for two streams; or the role of each stream that '
        'is not required: {"clicks": "optional", "refunds": "absent", "logins": "exists"}.',
        default=INNER,
        fixed="it decides which rows are kept, and which of them wait for a match",
    )
    match: Mapping[str, str] | None = setting(
        read_match,
        'As-of: {"quotes": "last"} takes, of the rows that fit a combination, only the last at or before the '
        'newest of the others; "first" the first after it, "nearest" the nearest in time.',
        default=None,
        fixed="it decides which rows wait for a match",
    )
    on_error: str | None = setting(
        optional(choice("rule", "raise", "null")),
        'What happens when a cast, a division or another operation of an expression fails for a row: "raise" '
        'ends the query with an error that names it; "null" takes it as null and counts it (`rows_failed`, '
        "`combinations_failed`). None follows `spark.sql.ansi.enabled` on Spark, which is on by default, and "
        "raises elsewhere. It may change at a restart.",
        default=None,
    )
    nan: str = setting(
        choice("rule", "spark", "never"),
        'What NaN matches in the predicate: with "spark" it equals itself and is above every other number, '
        'with "never" a comparison with NaN does not hold, whatever it is.',
        default="spark",
        fixed="rows that it filters out were not kept",
    )

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
        with placed(Option("order")):
            put(self, "order", checked_order(self))
        check_consistency(self)

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
        given = "".join(f", {name}={value}" for name, value in self._changed().items())
        return f"Query({streams} on {self.on!r}{given})"

    def _repr_html_(self) -> str:
        streams = {f"stream {a}": f"{s.window}, by {s.time}" for a, s in self.streams.items()}
        return html_table("Query", {**streams, "on": self.on, **self._changed()})

    def _changed(self) -> dict[str, str]:
        return changed_settings(self, shed=parse_shed("auto", None, None))

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
    def sampled(self) -> bool:
        """Whether results are a sample, with weights."""
        return self.memory_limit is not None and self.memory_policy.samples

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
