"""The definition of the exact results: plain loops over plain rows, short and slow.

A row is a dict with its own `id`, its event time `ts` in microseconds (None if null) and its values. A
*call* is the input of one `process`: alias -> rows in table order. A predicate is a list of `Term`s, all of
which must hold. A term that is null (None) does not hold.

Time windows (`expected`): a combination is a result if every term holds and `ts_j - ts_i <= T_i` for all
pairs. The order of arrival does not matter, except that late rows are left out.

If an operation fails for a row, such as a division by zero, a term over that row alone is null and listed in
`fails`. A term over rows of several streams is `FAILED`, and does not hold.

Row windows (`expected_counted`): all admitted rows are processed one at a time in (ts, arrival) order. A new
row joins the rows that are in the other windows at that moment.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Row = dict[str, Any]
Call = Mapping[str, Sequence[Row]]
SECOND = 1_000_000


class Unknown(Enum):
    """Value of a term over several streams if one of its operations fails."""

    FAILED = "failed"


FAILED = Unknown.FAILED
Truth = bool | None | Unknown


@dataclass(frozen=True)
class Term:
    """One conjunct, as SQL and as a Python function of alias -> row, which returns its truth."""

    sql: str
    aliases: tuple[str, ...]
    holds: Callable[[Mapping[str, Row]], Truth]
    kind: str = "residual"
    """"equality", "band", "comparison", "filter" or "residual"."""
    columns: tuple[tuple[str, str], ...] = ()
    """For an equality: (alias, name in the row) of both sides, which make the join key."""
    fails: Mapping[str, Callable[[Row], bool]] = field(default_factory=dict)
    """By alias, whether an operation on a row of that stream alone fails."""

    def holds_or_fails(self, bound: Mapping[str, Row]) -> bool:
        return self.holds(bound) in (True, FAILED)


@dataclass(frozen=True)
class Admitted:
    """The calls without late rows and rows with a null time, which are counted."""

    calls: list[dict[str, list[Row]]]
    null_time: Counter[str]
    late: Counter[str]

    def rows(self, alias: str) -> list[Row]:
        return [row for call in self.calls for row in call.get(alias, ())]


def admit(
    calls: Iterable[Call],
    *,
    late: int | Mapping[str, int],
    idle: int | None = None,
    one_clock: bool = False,
    source_partition: Mapping[str, str] | None = None,
) -> Admitted:
    """Drop late rows: those older than their stream's time, as of the previous call, minus `late`.

    A stream's time is its max event time; with `idle`, at least the max event time of all streams minus
    `idle`; with `one_clock` (row windows), the latest time of any stream.

    `source_partition` names a stream's column. The stream's time is then the lowest of its partitions' max
    event times, ignoring partitions that are idle. It never goes back.
    """
    tracked = source_partition or {}
    newest: dict[str, int] = {}
    partitions: dict[str, dict[Any, int]] = {alias: {} for alias in tracked}
    slowest: dict[str, int] = {}
    admitted, null_time, too_late = [], Counter[str](), Counter[str]()
    for call in calls:
        for alias, times in partitions.items():
            active = [t for t in times.values() if idle is None or t >= max(newest.values()) - idle]
            if active:
                slowest[alias] = max(slowest.get(alias, min(active)), min(active))
        known = {a: time for a, time in newest.items() if a not in tracked} | slowest
        if one_clock and known:
            known = dict.fromkeys(call, max(known.values()))
        reached = {alias: known.get(alias, -math.inf) for alias in call}
        if newest and idle is not None:
            reached = {alias: max(time, max(newest.values()) - idle) for alias, time in reached.items()}
        kept: dict[str, list[Row]] = {}
        for alias, rows in call.items():
            timed = [row for row in rows if row["ts"] is not None]
            delay = late if isinstance(late, int) else late.get(alias, 0)
            kept[alias] = [row for row in timed if row["ts"] >= reached[alias] - delay]
            null_time[alias] += len(rows) - len(timed)
            too_late[alias] += len(timed) - len(kept[alias])
            if timed:
                newest[alias] = max(newest.get(alias, timed[0]["ts"]), max(row["ts"] for row in timed))
            for row in timed if alias in tracked else ():
                partition = row[tracked[alias]]
                times = partitions[alias]
                times[partition] = max(times.get(partition, row["ts"]), row["ts"])
        admitted.append(kept)
    return Admitted(admitted, null_time, too_late)


def expected(
    streams: Mapping[str, Sequence[Row]], windows: Mapping[str, int], terms: Sequence[Term]
) -> Counter[tuple[Any, ...]]:
    """Results over time windows (microseconds): how often each tuple of row ids occurs."""

    def in_time(bound: Mapping[str, Row], alias: str, row: Row) -> bool:
        return all(
            row["ts"] - other["ts"] <= windows[a] and other["ts"] - row["ts"] <= windows[alias]
            for a, other in bound.items()
        )

    return Counter(_combinations(streams, terms, in_time))


def expected_counted(
    calls: Sequence[Call], windows: Mapping[str, int | tuple[int, bool]], terms: Sequence[Term]
) -> Counter[tuple[Any, ...]]:
    """Results with row windows, over admitted calls. A window is microseconds, or (rows, per key)."""
    arrived = [
        (row["ts"], number, position, alias, row)
        for number, call in enumerate(calls)
        for position, alias in enumerate(windows)
        for row in call.get(alias, ())
    ]
    arrived.sort(key=lambda entry: entry[:3])  # stable: rows of one table keep their order
    past: dict[str, list[Row]] = {alias: [] for alias in windows}
    results: Counter[tuple[Any, ...]] = Counter()
    for now, _, _, alias, row in arrived:
        held = {a: _in_window(past[a], windows[a], now, _key_columns(a, terms)) for a in windows}
        results.update(_combinations(held | {alias: [row]}, terms))
        past[alias].append(row)
    return results


def failed_rows(alias: str, rows: Iterable[Row], terms: Sequence[Term]) -> int:
    """Number of rows for which a term over them alone fails, and that no other such term excludes."""
    own = [term for term in terms if term.aliases == (alias,)]
    tests = [term.fails[alias] for term in terms if alias in term.fails]
    return sum(
        any(fails(row) for fails in tests)
        and all((t.fails and t.fails[alias](row)) or t.holds({alias: row}) is True for t in own)
        for row in rows
    )


def _in_window(
    past: Sequence[Row], window: int | tuple[int, bool], now: int, key: Sequence[str]
) -> Sequence[Row]:
    """The rows of one stream, oldest first, that are in its window at time `now`."""
    if isinstance(window, int):
        return [row for row in past if row["ts"] >= now - window]
    size, per_key = window
    if not per_key:
        return past[-size:]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in past:
        # All NaN are one key.
        values = tuple("NaN" if row[column] != row[column] else row[column] for column in key)
        if None not in values:
            groups.setdefault(values, []).append(row)
    return [row for group in groups.values() for row in group[-size:]]


def _key_columns(alias: str, terms: Sequence[Term]) -> list[str]:
    """All equality columns of a stream together are its join key."""
    return sorted({column for term in terms for a, column in term.columns if a == alias})


def _combinations(
    streams: Mapping[str, Sequence[Row]],
    terms: Sequence[Term],
    fits: Callable[[Mapping[str, Row], str, Row], bool] = lambda bound, alias, row: True,
) -> Iterator[tuple[Any, ...]]:
    """Id tuples of all combinations whose terms hold; a term is checked once all its streams are bound."""
    aliases = list(streams)
    due = [
        [t for t in terms if a in t.aliases and set(t.aliases) <= set(aliases[: depth + 1])]
        for depth, a in enumerate(aliases)
    ]

    def extend(bound: dict[str, Row], depth: int) -> Iterator[tuple[Any, ...]]:
        if depth == len(aliases):
            yield tuple(row["id"] for row in bound.values())
            return
        alias = aliases[depth]
        for row in streams[alias]:
            if fits(bound, alias, row):
                longer = bound | {alias: row}
                if all(term.holds(longer) is True for term in due[depth]):
                    yield from extend(longer, depth + 1)

    return extend({}, 0)
