"""Random rows, and the calls in which they arrive.

Values come from tiny domains, so that there are results, duplicates and ties. Hypothesis draws how rows are
made; the rows come from a drawn seed, each row from its own generator, so that a failing case shrinks to few
rows without changing those that remain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from likenesses import LISTS, random_list
from windrow.testing.oracle import SECOND, Row

CUTS = (1, 2, 7, 49, 50, 51, 100)
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "ts": pa.timestamp("us"),
        "i": pa.int64(),
        "j": pa.int32(),
        "f": pa.float64(),
        "s": pa.string(),
        "flag": pa.bool_(),
        "d": pa.date32(),
        "w": pa.timestamp("us"),
        "m": pa.decimal128(10, 2),
        "y": pa.binary(),
        "h": pa.int16(),
        "g": pa.float32(),
        "q": pa.decimal128(6, 3),
        "e": pa.decimal128(24, 1),
        "z": pa.timestamp("us", "UTC"),
        **LISTS,
    }
)
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, 2, -1, 3, 7],
    "j": [1, 0, 2, -1, 3, 5],
    "f": [0.0, 1.0, -0.0, 0.1, 0.2, 0.3, 2.0, float("inf")],
    "s": ["x", "y", "X", "", "éa", "a longer text than fits a word"],
    "flag": [True, False],
    "d": [date(2024, 2, 29), date(1969, 12, 31), date(2024, 3, 1)],
    "w": [
        datetime(2024, 2, 29),
        datetime(1969, 12, 31),
        datetime(2024, 2, 29, 0, 0, 0, 1),
        datetime(1970, 1, 1),
    ],
    "m": [Decimal("1.00"), Decimal("1.01"), Decimal("-3.50"), Decimal("0.00")],
    "y": [b"x", b"", b"\x00\xff", b"x\x00"],
    "h": [1, 0, 2, -1, 7],
    "g": [1.0, 0.0, 0.5, -0.0, 2.0, 0.25],
    "q": [Decimal("1.000"), Decimal("1.010"), Decimal("0.000"), Decimal("-3.500")],
    "e": [Decimal("1.0"), Decimal("0.0"), Decimal("2.0"), Decimal("-3.5"), Decimal("12345678901234567890.5")],
    "z": [datetime(2024, 2, 29, tzinfo=UTC), datetime(1969, 12, 31, 23, tzinfo=UTC)],
}
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Flow:
    """How rows are made: their seed, how many values, how often nothing, how dense in time."""

    seed: int
    spread: int
    nulls: float
    nans: float
    start: int
    """Microseconds since 1970; may be negative."""
    step: int
    """Mean microseconds between two rows of a stream; times are multiples of half a second or so."""

    def table(self, alias: str, count: int) -> pa.Table:
        rows = [self._row(alias, n, count) for n in range(count)]
        return pa.Table.from_pylist(rows, SCHEMA)

    def _row(self, alias: str, number: int, count: int) -> Row:
        rng = Random(f"{self.seed}/{alias}/{number}")
        row: Row = {}
        for name, values in VALUES.items():
            row[name] = None if rng.random() < self.nulls else rng.choice(values[: self.spread])
        if rng.random() < self.nans:
            row["f"] = float("nan")
        tick = rng.randrange(4 * count + 1) // 4 * self.step + rng.choice([0, 0, 0, 1, -1, self.step // 2])
        time = EPOCH + timedelta(microseconds=self.start + tick)
        row |= {"id": number, "ts": None if rng.random() < self.nulls / 4 else time}
        return row | {name: random_list(rng, name, self.nulls) for name in LISTS}


@st.composite
def flows(draw: st.DrawFn, streams: int, nans: bool = True) -> Flow:
    """The more streams, the fewer values: else no combination of rows satisfies a random predicate."""
    return Flow(
        seed=draw(st.integers(0, 2**32)),
        spread=draw(st.sampled_from([2, 3, 8] if streams < 4 else [1, 2, 2, 3])),
        nulls=draw(st.sampled_from([0.0, 0.05, 0.3] if streams < 4 else [0.0, 0.02, 0.1])),
        nans=draw(st.sampled_from([0.0, 0.1])) if nans else 0.0,
        start=draw(st.sampled_from([0, -20 * SECOND, 1_700_000_000 * SECOND])),
        step=draw(st.sampled_from([SECOND, SECOND // 2, 100])),
    )


@st.composite
def arrivals(
    draw: st.DrawFn, tables: Mapping[str, pa.Table], late: int, together: bool
) -> list[dict[str, list[int]]]:
    """Calls that hand out every row once.

    Rows come in order of time, each delayed by up to `late` (or, at times, more: then some are late).
    `together`: in one order over all streams, cut into calls. Else each stream has its own cuts, and the
    streams may run far ahead of each other.
    """
    rng = Random(draw(st.integers(0, 2**32)))
    delay = draw(st.sampled_from([0, late, late, 2 * late + 2 * SECOND, 3 * late + 300]))
    cut = draw(st.sampled_from(CUTS))
    queue = [
        (0 if time is None else time + rng.randint(0, delay), rng.random(), alias, number)
        for alias, table in tables.items()
        for number, time in enumerate(table.column("ts").cast(pa.int64()).to_pylist())
    ]
    queue.sort()
    calls: list[dict[str, list[int]]] = []
    if together:
        for first in range(0, len(queue), cut):
            call: dict[str, list[int]] = {}
            for _, _, alias, number in queue[first : first + cut]:
                call.setdefault(alias, []).append(number)
            calls.append(call)
    else:
        waiting = {alias: [n for *_, a, n in queue if a == alias] for alias in tables}
        eagerness = {alias: draw(st.sampled_from([0.2, 0.5, 1.0])) for alias in tables}
        while any(waiting.values()):
            call = {}
            for alias, numbers in waiting.items():
                if numbers and rng.random() < eagerness[alias]:
                    call[alias], waiting[alias] = numbers[:cut], numbers[cut:]
            calls.append(call)
    for call in calls:
        for alias in tables:
            if alias not in call and rng.random() < 0.1:
                call[alias] = []
    if calls and draw(st.booleans()):
        calls.insert(rng.randrange(len(calls) + 1), {})
    return calls
