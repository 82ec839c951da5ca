"""Outer, semi, anti and as-of joins against SQL's sequence of joins, over random queries.

`pytest --soak` runs ten times more, with new seeds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given

import windrow as wr
from outer_cases import OuterCase, outer_cases, outer_ids
from queries import examples, tiny
from test_random_queries import in_windows
from windrow.engine.operator import runner_of
from windrow.testing.oracle import SECOND


def check(case: OuterCase) -> None:
    output, measured = case.run()
    answer = case.answer()
    got = outer_ids(output)
    assert got == answer, f"too many: {got - answer}, missing: {answer - got}"
    assert measured.results == answer.total()


@examples(30)
@given(outer_cases(most_streams=2, matches=False, spills=True))
def test_two_streams(case: OuterCase) -> None:
    check(case)


@examples(30)
@given(outer_cases(matches=False, spills=True))
def test_roles_of_two_to_four_streams(case: OuterCase) -> None:
    check(case)


@examples(30)
@given(outer_cases(spills=True))
def test_matches(case: OuterCase) -> None:
    check(case)


@examples(150)
@given(outer_cases(counted=True, spills=True))
def test_row_windows(case: OuterCase) -> None:
    check(case)


# --- When results come ------------------------------------------------------------------------------------


def test_a_row_without_a_match_comes_when_none_can_come_any_more() -> None:
    streams = {"a": wr.Stream("ts", "10 s"), "b": wr.Stream("ts", "3 s")}
    op = wr.Operator(wr.Query(streams, "a.k = b.k", late="2 s", how="left"))
    assert outer_ids(op.process({"a": tiny([0.0, 1.0], k=[1, 2]), "b": tiny([0.0], k=[7])})) == {}
    # b has come to 12 s, so with `late` a row at 10 s may still come: it would match the first row of a.
    assert outer_ids(op.process({"b": tiny([12.0], k=[8])})) == {}
    assert outer_ids(op.process({"b": tiny([10.0], k=[1])})) == {(0, 0): 1}
    assert outer_ids(op.process({"b": tiny([13.1], k=[8])})) == {(1, None): 1}
    assert op.metrics().combinations_parked == 0
    assert op.metrics().results_unmatched == 1


def test_a_row_that_can_match_nothing_comes_at_once() -> None:
    streams = {"a": wr.Stream("ts", "10 s"), "b": wr.Stream("ts", "3 s")}
    schemas = {x: tiny([], k=pa.array([], pa.int64())).schema for x in "ab"}
    for how, row in (("left", (0, None)), ("anti", (0,))):
        op = wr.Operator(wr.Query(streams, "a.k = b.k", how=how), schemas=schemas)
        call = {"a": tiny([0.0, 1.0], k=pa.array([None, 1], pa.int64()))}
        assert outer_ids(op.process(call)) == {row: 1}
    on = "a.k = b.k and a.k > 5"
    op = wr.Operator(wr.Query(streams, on, how="left"), schemas=schemas)
    assert outer_ids(op.process({"a": tiny([0.0], k=[1])})) == {(0, None): 1}


def test_calls_without_rows_give_out_what_is_decided() -> None:
    streams = {"a": wr.Stream("ts", "10 s"), "b": wr.Stream("ts", "3 s")}
    op = wr.Operator(wr.Query(streams, "a.k = b.k", how="left"))
    assert op.process({"a": tiny([0.0], k=[1]), "b": tiny([0.0], k=[2])}).num_rows == 0
    runner_of(op).advance_event_time({"b": 11 * SECOND})
    assert outer_ids(op.process({})) == {(0, None): 1}


def test_a_silent_stream_holds_rows_up_until_it_is_idle() -> None:
    streams = {"a": wr.Stream("ts", "1 s"), "b": wr.Stream("ts", "1 s")}
    patient = wr.Operator(wr.Query(streams, "a.k = b.k", how="left"))
    hasty = wr.Operator(wr.Query(streams, "a.k = b.k", how="left", idle="5 s"))
    for call in ({"a": tiny([0.0], k=[1]), "b": tiny([0.0], k=[2])}, {"a": tiny([20.0], k=[1])}):
        held, given_out = patient.process(call), hasty.process(call)
    assert held.num_rows == 0
    assert outer_ids(given_out) == {(0, None): 1}
    assert patient.finish().num_rows == 2


def test_nothing_is_taken_after_the_end() -> None:
    streams = {"a": wr.Stream("ts", "10 s"), "b": wr.Stream("ts", "3 s")}
    op = wr.Operator(wr.Query(streams, "a.k = b.k", how="left"))
    op.process({"a": tiny([0.0], k=[1]), "b": tiny([0.0], k=[2])})
    assert outer_ids(op.finish()) == {(0, None): 1}
    assert op.process({"b": tiny([5.0], k=[1])}).num_rows == 0
    assert op.metrics().rows_late == 1


def test_rows_that_wait_for_a_stream_never_seen_are_not_lost() -> None:
    op = wr.Operator(
        wr.Query({"a": wr.Stream("ts", "1 s"), "b": wr.Stream("ts", "1 s")}, "a.k = b.k", how="left")
    )
    op.process({"a": tiny([0.0], k=[1])})
    with pytest.raises(wr.DataError, match=r"'b'.*never arrived.*schemas"):
        op.finish()


# --- As-of ------------------------------------------------------------------------------------------------

QUOTES = tiny([1.0, 2.0, 2.0, 4.0], k=[1, 1, 1, 1])


@pytest.mark.parametrize(
    ("match", "at", "row"),
    [("last", 2.0, 1), ("last", 3.9, 1), ("first", 2.0, 3), ("nearest", 3.0, 1), ("nearest", 3.5, 3)],
)
def test_which_row_is_taken(match: str, at: float, row: int) -> None:
    streams = {"t": wr.Stream("ts", "5 s"), "q": wr.Stream("ts", "5 s")}
    query = wr.Query(streams, "t.k = q.k", match={"q": match})
    for quotes in (QUOTES, QUOTES.take([3, 2, 1, 0])):
        op = wr.Operator(query)
        found = [op.process({"q": quotes}), op.process({"t": tiny([at], k=[1])}), op.finish()]
        assert outer_ids(pa.concat_tables(found[1:])) == {(0, row): 1}


def test_the_last_row_is_known_once_time_has_passed_the_others() -> None:
    streams = {"t": wr.Stream("ts", "60 s"), "q": wr.Stream("ts", "60 s")}
    op = wr.Operator(wr.Query(streams, "t.k = q.k", match={"q": "last"}))
    assert op.process({"q": tiny([1.0], k=[1]), "t": tiny([2.0], k=[1])}).num_rows == 0
    assert outer_ids(op.process({"q": tiny([2.5], k=[1])})) == {(0, 0): 1}


def test_rows_of_one_time_are_ordered_by_their_values() -> None:
    """Without an id: by the columns in their order, nulls last, lists after all others."""
    times = pa.array([0] * 4, pa.timestamp("us"))
    values = {"l": [[1], [0], None, [2]], "x": [2.0, 1.0, None, 1.0], "n": ["b", "b", "a", "c"]}
    quotes = pa.table({"ts": times, "k": [1] * 4, **values})
    streams = {"t": wr.Stream("ts", "5 s"), "q": wr.Stream("ts", "5 s")}
    for order in permutations(range(4)):
        op = wr.Operator(wr.Query(streams, "t.k = q.k", match={"q": "last"}))
        op.process({"q": quotes.take(list(order)), "t": tiny([0.0], k=[1])})
        (row,) = op.finish().to_pylist()
        assert (row["q"]["x"], row["q"]["n"], row["q"]["l"]) == (1.0, "b", [0])


# --- The oracle against DuckDB ------------------------------------------------------------------------------


def duckdb_answer(case: OuterCase) -> Counter[tuple]:
    """Two streams, as SQL has it: ON holds the conditions and the windows."""
    a, b = case.windows
    on = f"{case.sql} and {in_windows(case.windows)}"
    names = {"semi": f"{a} semi join {b} on {on}", "anti": f"{a} anti join {b} on {on}"}
    source = names.get(str(case.how), f"{a} {case.how} join {b} on {on}")
    columns = f"{a}.id" if case.how in names else f"{a}.id, {b}.id"
    with duckdb.connect() as connection:
        for alias in case.windows:
            connection.register(alias, case.tables[alias].filter(case.tables[alias].column("ts").is_valid()))
        return Counter(connection.execute(f"select {columns} from {source}").fetchall())


@examples(20)
@given(outer_cases(most_streams=2, matches=False, late=False, idle=False, nans=False, snapshots=False))
def test_the_oracle_agrees_with_duckdb(case: OuterCase) -> None:
    assume(not any(name in case.sql for name in ("alike", "jaccard", "overlap")))  # unknown to DuckDB
    assume(isinstance(case.how, str))
    # With how="anti" a condition on the first stream alone filters it, as in WHERE.
    assume(case.how != "anti" or not any(t.aliases == ("a",) for t in case.terms))
    calls = [{alias: list(range(table.num_rows)) for alias, table in case.tables.items()}]
    everything = replace(case, calls=calls, options={"allow_cross_join": True})
    assert everything.answer() == duckdb_answer(everything)


def test_as_of_agrees_with_duckdb() -> None:
    rng = np.random.default_rng(4)
    count, span = 2000, 20 * SECOND
    tables = {}
    for alias in "tq":
        times = np.sort(rng.choice(1_000 * SECOND, count, replace=False))
        stamps = pa.array(times, pa.timestamp("us"))
        tables[alias] = pa.table({"id": np.arange(count), "ts": stamps, "k": rng.integers(0, 20, count)})
    streams = {alias: wr.Stream("ts", "20 s") for alias in tables}
    for match, sign in (("last", ">="), ("first", "<")):
        op = wr.Operator(wr.Query(streams, "t.k = q.k", how="left", match={"q": match}))
        cuts = [{a: t.slice(n, 100) for a, t in tables.items()} for n in range(0, count, 100)]
        got = outer_ids(pa.concat_tables([*map(op.process, cuts), op.finish()]))
        with duckdb.connect() as connection:
            for alias, table in tables.items():
                connection.register(alias, table)
            near = f"abs(epoch_us(t.ts) - epoch_us(q.ts)) <= {span}"
            found = f"select t.id, case when {near} then q.id end from t"
            rows = connection.execute(
                f"{found} asof left join q on t.k = q.k and t.ts {sign} q.ts"
            ).fetchall()
        assert got == Counter(rows)
        assert None in {row[1] for row in rows}


@pytest.mark.parametrize(
    "on",
    [
        "a.k = b.k and coalesce(b.k, 0) = c.k",
        "a.k = b.k and coalesce(b.k, 7) > c.k",
        "a.k = b.k and abs(coalesce(b.k, 3) - c.k) <= 1",
        "a.k = b.k and coalesce(b.k, 0) = c.k and a.k + 1 >= c.k",
        "a.k = b.k and coalesce(b.k, a.k) = c.k",
        "a.k = b.k and (b.k is null or b.k = c.k) and a.k = c.k",
    ],
)
def test_conditions_that_hold_without_a_row_agree_with_duckdb(on: str) -> None:
    rng = np.random.default_rng(6)
    tables = {}
    for alias in "abc":
        keys = pa.array(rng.integers(0, 12, 120), mask=rng.random(120) < 0.1)
        tables[alias] = tiny(np.sort(rng.uniform(0, 60, 120)), k=keys)
    windows = {"a": 4 * SECOND, "b": 2 * SECOND, "c": 3 * SECOND}
    streams = {alias: wr.Stream("ts", f"{size // SECOND} s") for alias, size in windows.items()}
    op = wr.Operator(wr.Query(streams, on, how={"b": "optional", "c": "optional"}))
    cuts = [{a: t.slice(n, 17) for a, t in tables.items()} for n in range(0, 120, 17)]
    got = outer_ids(pa.concat_tables([*map(op.process, cuts), op.finish()]))
    first, rest = on.split(" and ", 1)

    def near(x: str, y: str) -> str:
        return (
            f"epoch_us({y}.ts) - epoch_us({x}.ts) <= {windows[x]} and "
            f"epoch_us({x}.ts) - epoch_us({y}.ts) <= {windows[y]}"
        )

    with duckdb.connect() as connection:
        for alias, table in tables.items():
            connection.register(alias, table)
        rows = connection.execute(
            f"select a.id, b.id, c.id from a left join b on {first} and {near('a', 'b')} "
            f"left join c on {rest} and {near('a', 'c')} and (b.ts is null or {near('b', 'c')})"
        ).fetchall()
    assert got == Counter(rows)
    assert any(b is None and c is not None for _, b, c in rows)


# --- Refused ----------------------------------------------------------------------------------------------

STREAMS = {x: wr.Stream("ts", "5 s") for x in "abc"}
PAIR = {x: STREAMS[x] for x in "ab"}
REFUSED = [
    (PAIR, {"how": "outer"}, r"how: unknown kind of join 'outer'.*Available: anti, full"),
    (PAIR, {"how": {"b": "maybe"}}, r"stream 'b': how: unknown role 'maybe'.*absent"),
    (PAIR, {"how": {"z": "optional"}}, r"how: unknown stream 'z'"),
    (PAIR, {"how": 3}, r"how: expected one of inner, left.*got 3"),
    (PAIR, {"how": {"a": "optional", "b": "optional"}}, r"how: no stream is required.*how='full'"),
    (STREAMS, {"how": "left"}, r"how: 'left' is for two streams, got 3.*'optional'"),
    (PAIR, {"match": {"z": "last"}}, r"match: unknown stream 'z'"),
    (PAIR, {"match": {"b": "latest"}}, r"stream 'b': match: unknown match 'latest'.*Did you mean 'last'"),
    (PAIR, {"match": "last"}, r"match: expected last, first, nearest by stream"),
    (PAIR, {"match": {"a": "last", "b": "last"}}, r"match: every required stream has a match"),
    (PAIR, {"how": "left", "match": {"a": "last"}}, r"match: a 'left' join keeps every row of 'a'"),
    (PAIR, {"how": "full", "match": {"b": "last"}}, r"match: a 'full' join keeps every row of 'b'"),
    (PAIR, {"how": "semi", "match": {"b": "last"}}, r"match: stream 'b' is 'exists'.*no row"),
    (
        PAIR | {"b": wr.Stream("ts", "5 rows per key")},
        {"match": {"b": "last"}},
        r"match: the window of 'b' is counted in rows per key",
    ),
    (PAIR, {"how": "left", "memory": "9 rows", "shed": "uniform"}, r"shed: .*inner joins only"),
]


@pytest.mark.parametrize(("streams", "options", "told"), REFUSED)
def test_bad_kinds_are_refused(streams: dict, options: dict, told: str) -> None:
    with pytest.raises(wr.QueryError, match=told):
        wr.Query(streams, "a.k = b.k", **options)


@pytest.mark.parametrize(
    ("on", "how", "told"),
    [
        ("a.k = b.k", {"c": "optional"}, r"on: no condition links \['c'\] with 'a'"),
        (
            "a.k = c.k and b.k = c.k",
            {"c": "optional"},
            r"on: no condition on required streams .* allow_cross_join=True",
        ),
        ("a.k = b.k and b.k = c.k", {"b": "exists", "c": "optional"}, r"b.k = c.k refers to 'b'.*'exists'"),
    ],
)
def test_conditions_that_link_nothing_are_refused(on: str, how: dict, told: str) -> None:
    schemas = {x: tiny([], k=pa.array([], pa.int64())).schema for x in "abc"}
    with pytest.raises(wr.QueryError, match=told):
        wr.Operator(wr.Query(STREAMS, on, how=how), schemas=schemas)
