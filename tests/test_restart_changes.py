"""An operator goes on from its snapshot with a changed query: what happens to rows held is defined.

Results that appear after the change are those of the new query whose newest row arrives after it, among the
rows still held and the rows that arrive from then on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windrow as wr
from outer_cases import OuterCase, outer_cases, outer_ids
from queries import Case, cases, examples
from queries import rows_of as timed
from results import ids
from windrow.engine.operator import runner_of
from windrow.engine.row_windows import NEVER, OUT
from windrow.testing import oracle
from windrow.testing.oracle import Row

PAYLOAD = "payload"


@dataclass(frozen=True)
class Change:
    """A restart after some calls of a case, with other windows, lateness and columns."""

    after: int
    windows: Mapping[str, Any]
    options: Mapping[str, Any]
    adds: frozenset[str]
    drops: frozenset[str]
    """Aliases of the streams that gain a column, and of those that lose one."""

    def query(self, case: Case, **changes: Any) -> wr.Query:
        return replace(case, windows=self.windows, options={**case.options, **self.options}).query(**changes)

    def table(self, alias: str, before: pa.Table) -> pa.Table:
        if alias in self.drops:
            before = before.drop_columns(PAYLOAD)
        if alias in self.adds:
            before = before.append_column("extra", before.column("id"))
        return before


@st.composite
def changes(draw: st.DrawFn, case: Case, windows: bool = True) -> Change:
    def other(window: Any) -> Any:
        factor = draw(st.sampled_from([0.3, 1, 1, 4])) if windows else 1
        if isinstance(window, int):
            return max(1, int(window * factor))
        return max(1, int(window[0] * factor)), window[1]

    given = case.options["late"]
    late = max(given.values()) if isinstance(given, Mapping) else given
    options: dict[str, Any] = {"late": draw(st.sampled_from([given, late // 3, 4 * late + 1]))}
    if "idle" in case.options or draw(st.integers(0, 3)) == 0:
        options["idle"] = draw(st.sampled_from([None, 0, 3 * late + 7]))
    return Change(
        draw(st.integers(0, len(case.calls))),
        {alias: other(window) for alias, window in case.windows.items()},
        options,
        draw(st.frozensets(st.sampled_from(list(case.windows)))),
        draw(st.frozensets(st.sampled_from(list(case.windows)))),
    )


def with_payload(case: Case) -> Case:
    tables = {a: t.append_column(PAYLOAD, t.column("id")) for a, t in case.tables.items()}
    return replace(case, tables=tables)


@dataclass
class Run:
    """What a case answers before and after a change, and what it held at the change."""

    case: Case
    change: Change
    before: pa.Table
    after: pa.Table
    held: dict[str, set[int]]
    buffered: dict[str, set[int]]
    complete_from: int | None


def run(case: Case, change: Change) -> Run:
    schemas = {a: t.schema for a, t in case.tables.items()}
    op = wr.Operator(case.query(), schemas)
    inputs = case.inputs()
    before = [op.process(call) for call in inputs[: change.after]]
    held, buffered = dict(_held(op)), dict(_buffered(op))
    now = {a: change.table(a, t.slice(0, 0)).schema for a, t in case.tables.items()}
    op = wr.Operator.restore(change.query(case), op.snapshot(), schemas=now)
    # A second restart at the same place changes nothing more.
    op = wr.Operator.restore(change.query(case), op.snapshot(), schemas=now)
    assert runner_of(op).changes == ()
    after = [op.process({a: change.table(a, t) for a, t in call.items()}) for call in inputs[change.after :]]
    complete = op.metrics().complete_from
    nothing = runner_of(wr.Operator(case.query(), schemas)).result_schema.empty_table()
    empty = runner_of(op).result_schema.empty_table()
    return Run(
        case,
        change,
        pa.concat_tables([nothing, *before]),
        pa.concat_tables([empty, *after, op.finish()]),
        held,
        buffered,
        complete,
    )


def _held(op: wr.Operator) -> Iterator[tuple[str, set[int]]]:
    """The rows of each stream that can be in a later result."""
    windows = runner_of(op).join.windows
    for alias, window, counted in zip(op.query.aliases, windows, windows.row_windows, strict=True):
        numbers = window.live_payload().column("id").to_pylist()
        if counted is not None:
            out = window.column(OUT)[window.first : window.end]
            numbers = [n for n, displaced in zip(numbers, out, strict=True) if displaced == NEVER]
        yield alias, set(numbers)


def _buffered(op: wr.Operator) -> Iterator[tuple[str, set[int]]]:
    for alias, waiting in zip(op.query.aliases, runner_of(op).buffer, strict=True):
        yield alias, {n for _, rows, _ in waiting.parts for n in rows.column("id").to_pylist()}


def admitted(case: Case, change: Change) -> list[dict[str, list[Row]]]:
    """Rows of the calls: by the old lateness up to the change, then by the new one. What the old one had
    ruled out by then stays late."""
    after = change.after
    other = replace(case, options={**case.options, **change.options}).admitted().calls[after:]
    newest: dict[str, int] = {}
    for call in case.inputs()[:after]:
        for alias, table in call.items():
            for row in timed(table):
                if row["ts"] is not None:
                    newest[alias] = max(newest.get(alias, row["ts"]), row["ts"])
    late, idle = case.options["late"], case.options.get("idle")
    top = max(newest.values(), default=-math.inf)
    passed = {}
    for alias in case.windows:
        reached = top if case.counted else newest.get(alias, -math.inf)
        delay = late.get(alias, 0) if isinstance(late, Mapping) else late
        passed[alias] = (reached if idle is None else max(reached, top - idle)) - delay
    kept = [{a: [r for r in rows if r["ts"] >= passed[a]] for a, rows in call.items()} for call in other]
    return case.admitted().calls[:after] + kept


def rows_of(calls: list[dict[str, list[Row]]], alias: str) -> list[Row]:
    return [row for call in calls for row in call.get(alias, ())]


# --- Time windows -----------------------------------------------------------------------------------------


@examples(60)
@given(st.data())
def test_windows_lateness_and_columns_may_change(data: st.DataObject) -> None:
    case = with_payload(data.draw(cases(most_streams=3, snapshots=False)))
    change = data.draw(changes(case))
    ran = run(case, change)
    calls = admitted(case, change)
    old = {a: rows_of(calls[: change.after], a) for a in case.windows}
    new = {a: rows_of(calls[change.after :], a) for a in case.windows}
    assert ids(ran.before) == oracle.expected(old, case.windows, case.terms)

    def answer(rows: Mapping[str, list[Row]]) -> Counter[tuple]:
        return oracle.expected(rows, change.windows, case.terms)

    held = {a: [row for row in old[a] if row["id"] in ran.held[a]] for a in case.windows}
    both = {a: held[a] + new[a] for a in case.windows}
    assert ids(ran.after) == answer(both) - answer(held)
    assert_columns(ran)
    whole = answer({a: old[a] + new[a] for a in case.windows}) - answer(old)
    times = {a: {row["id"]: row["ts"] for row in old[a] + new[a]} for a in case.windows}

    def complete(result: tuple) -> bool:
        newest = max(times[a][n] for a, n in zip(case.windows, result, strict=True))
        return ran.complete_from is None or newest >= ran.complete_from

    missing = whole - ids(ran.after)
    assert not [result for result in missing if complete(result)]
    if all(change.windows[a] <= window for a, window in case.windows.items()):
        assert ran.complete_from is None


def assert_columns(ran: Run) -> None:
    """A new column is null in rows that were held, and a column that is gone is gone from all."""
    arrived = {
        a: {n for call in ran.case.calls[ran.change.after :] for n in call.get(a, ())}
        for a in ran.case.windows
    }
    for alias in ran.case.windows:
        names = ran.after.schema.field(alias).type.names
        assert (PAYLOAD in names) == (alias not in ran.change.drops)
        for row in ran.after.column(alias).to_pylist():
            if alias in ran.change.adds:
                assert row["extra"] == (row["id"] if row["id"] in arrived[alias] else None)
            if alias not in ran.change.drops:
                assert row[PAYLOAD] == row["id"]


# --- Row windows ------------------------------------------------------------------------------------------


@examples(60)
@given(st.data())
def test_row_windows_may_change(data: st.DataObject) -> None:
    case = with_payload(data.draw(cases(counted=True, most_streams=3, snapshots=False)))
    change = data.draw(changes(case))
    ran = run(case, change)
    calls = admitted(case, change)
    want = counted_answer(ran, calls)
    assert ids(ran.before) + ids(ran.after) == want
    assert_columns(ran)


def counted_answer(ran: Run, calls: list[dict[str, list[Row]]]) -> Counter[tuple]:
    """Like `oracle.expected_counted`; the first row that was not processed before the change sees the new
    windows, and of rows before it only those that were held. Others still count."""
    case, change = ran.case, ran.change
    arrived = sorted(
        (
            (row["ts"], number, position, alias, row)
            for number, call in enumerate(calls)
            for position, alias in enumerate(case.windows)
            for row in call.get(alias, ())
        ),
        key=lambda entry: entry[:3],
    )
    past: dict[str, list[Row]] = {alias: [] for alias in case.windows}
    gone: dict[str, set[int]] = {alias: set() for alias in case.windows}
    found: Counter[tuple] = Counter()
    for now, number, _, alias, row in arrived:
        before = number < change.after and row["id"] not in ran.buffered[alias]
        windows = case.windows if before else change.windows
        there = {}
        for a, window in windows.items():
            standing = oracle._in_window(past[a], window, now, oracle._key_columns(a, case.terms))
            there[a] = [r for r in standing if before or r["id"] not in gone[a]]
        found.update(oracle._combinations(there | {alias: [row]}, case.terms))
        past[alias].append(row)
        if before and row["id"] not in ran.held[alias]:
            gone[alias].add(row["id"])
    return found


# --- Outer joins ------------------------------------------------------------------------------------------


@examples(60)
@given(st.data())
def test_lateness_and_columns_of_outer_joins_may_change(data: st.DataObject) -> None:
    """Rows that wait for a match go on waiting, and each comes out once."""
    case = with_payload(
        data.draw(outer_cases(most_streams=3, snapshots=False, counted=data.draw(st.booleans())))
    )
    change = replace(data.draw(changes(case, windows=False)), drops=frozenset())
    ran = run(case, change)
    calls = admitted(case, change)
    settled = Settled(**{**vars(case), "calls_admitted": calls})
    assert outer_ids(ran.before) + outer_ids(ran.after) == settled.answer()


@dataclass(frozen=True, repr=False)
class Settled(OuterCase):
    """A case whose admitted rows are known."""

    calls_admitted: Any = ()

    def admitted(self) -> oracle.Admitted:
        return oracle.Admitted(self.calls_admitted, Counter(), Counter())


def test_windows_of_an_outer_join_are_fixed() -> None:
    streams = {alias: wr.Stream("ts", "5 seconds") for alias in "ab"}
    query = wr.Query(streams, "a.k = b.k", how="left")
    blob = wr.Operator(query).snapshot()
    longer = {alias: wr.Stream("ts", "6 seconds") for alias in "ab"}
    with pytest.raises(wr.StateError, match=r"stream 'a': within was '5 seconds', now '6 seconds'.*outer"):
        wr.Operator.restore(replace(query, streams=longer), blob)
