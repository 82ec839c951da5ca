"""Outer, semi, anti and as-of joins in SQL and TOML on local Spark, against DuckDB over the same rows."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import duckdb
import pyarrow as pa
import pytest

import windrow as wr
from pipelines import in_microseconds
from spark_tools import Stream, failing, frame, rows, run, spark
from windrow.pipeline.toml_reader import read_pipeline
from windrow.sql_frontend.parser import parse_script

SPANS = {"a": 4, "b": 2, "c": 3}
DATA = {"a": rows(1, 200), "b": rows(2, 60), "c": rows(3, 60)}
WINDOWS = {alias: f"[RANGE {span} SECONDS]" for alias, span in SPANS.items()}


def fit(*aliases: str) -> str:
    """The windows of all pairs, as DuckDB has them."""
    return " and ".join(f"{y}.ts - {x}.ts <= {SPANS[x]}e6" for x, y in permutations(aliases, 2))


def over(sql: str) -> Counter[tuple]:
    with duckdb.connect() as database:
        for name, table in DATA.items():
            database.register(name, in_microseconds(table))
        return Counter(database.sql(sql).fetchall())


def asked(text: str, partitions: int = 3) -> Counter[tuple]:
    frames = {name: frame(table) for name, table in DATA.items() if f" {name} [" in text}
    return Counter(map(tuple, wr.sql(text, spark(), frames, time="ts", partitions=partitions).collect()))


A, B, C = (f"{alias} {window}" for alias, window in WINDOWS.items())
ON = f"a.k = b.k and {fit('a', 'b')}"
CASES = {
    "left": (
        f"SELECT a.id, b.id AS other FROM {A} LEFT JOIN {B} ON a.k = b.k AND b.x > 2 AND a.x > 1",
        f"select a.id, b.id from a left join b on {ON} and b.x > 2 and a.x > 1",
    ),
    "left, filtered": (
        f"SELECT a.id, b.id AS other FROM {A} LEFT JOIN {B} ON a.k = b.k WHERE a.x > 1 AND b.id IS NULL",
        f"select a.id, b.id from a left join b on {ON} where a.x > 1 and b.id is null",
    ),
    "right": (
        f"SELECT a.id, b.id AS other FROM {A} RIGHT OUTER JOIN {B} ON a.k = b.k",
        f"select a.id, b.id from a right join b on {ON}",
    ),
    "full": (
        f"SELECT a.id, b.id AS other FROM {A} FULL JOIN {B} ON a.k = b.k AND a.x < b.x",
        f"select a.id, b.id from a full join b on {ON} and a.x < b.x",
    ),
    "semi": (
        f"SELECT a.id FROM {A} LEFT SEMI JOIN {B} ON a.k = b.k",
        f"select a.id from a semi join b on {ON}",
    ),
    "anti": (
        f"SELECT a.id FROM {A} LEFT ANTI JOIN {B} ON a.k = b.k",
        f"select a.id from a anti join b on {ON}",
    ),
    "exists": (
        f"SELECT a.id FROM {A} WHERE a.x > 1 AND EXISTS (SELECT * FROM {B} WHERE b.k = a.k AND b.x > a.x)",
        f"select a.id from a where a.x > 1 and exists (select 1 from b where b.x > a.x and {ON})",
    ),
    "not exists, inner": (
        f"SELECT a.id, b.id AS other FROM {A}, {B} WHERE a.k = b.k AND NOT EXISTS "
        f"(SELECT 1 FROM {C} WHERE c.k = a.k AND c.x > b.x)",
        f"select a.id, b.id from a join b on {ON} where not exists "
        f"(select 1 from c where c.k = a.k and c.x > b.x and {fit('a', 'b', 'c')})",
    ),
    "left twice": (
        f"SELECT a.id, b.id AS b, c.id AS c FROM {A} LEFT JOIN {B} ON a.k = b.k LEFT JOIN {C} ON c.k = b.k "
        "WHERE a.x > 0",
        f"select a.id, b.id, c.id from a left join b on {ON} left join c on c.k = b.k and "
        f"{fit('a', 'c')} and {fit('b', 'c')} where a.x > 0",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sql_says_what_it_says_elsewhere(name: str) -> None:
    ours, theirs = CASES[name]
    want = over(theirs)
    assert asked(ours) == want
    assert want.total() > 20


def test_as_of() -> None:
    """Of rows of one time DuckDB takes any, so only times are compared."""
    text = f"SELECT a.id, b.ts AS t FROM {A} ASOF LEFT JOIN {B} ON a.k = b.k AND a.ts >= b.ts"
    near = "case when a.ts - b.ts <= 2e6 then b.ts end"
    want = over(f"select a.id, {near} from a asof left join b on a.k = b.k and a.ts >= b.ts")
    got: Counter[tuple] = Counter()
    frames = {name: frame(DATA[name]) for name in "ab"}
    out = wr.sql(text, spark(), frames, time="ts", partitions=3)
    for row in out.selectExpr("id", "unix_micros(t)").collect():
        got[tuple(row)] += 1
    assert got == want
    inner = asked(f"SELECT a.id FROM {A} ASOF JOIN {B} ON a.k = b.k AND b.ts <= a.ts")
    assert inner == Counter((key,) for key, time in want if time is not None)


WRONG = {
    "RIGHT JOIN is for two": f"SELECT a.id FROM {A} RIGHT JOIN {B} ON a.k = b.k JOIN {C} ON c.k = a.k",
    "write inner joins first": f"SELECT a.id FROM {A} LEFT JOIN {B} ON a.k = b.k JOIN {C} ON c.k = b.k",
    "belongs in WHERE": f"SELECT a.id FROM {A} LEFT ANTI JOIN {B} ON a.k = b.k AND a.x > 1",
    "one comparison of time columns": f"SELECT a.id FROM {A} ASOF JOIN {B} ON a.k = b.k",
    "write < in place of <=": f"SELECT a.id FROM {A} ASOF JOIN {B} ON a.k = b.k AND a.ts <= b.ts",
    "unknown stream 'b'": f"SELECT b.id FROM {A} LEFT SEMI JOIN {B} ON a.k = b.k",
    "EXISTS takes SELECT": f"SELECT a.id FROM {A} WHERE EXISTS (SELECT 1 FROM {B}, {C} WHERE b.k = a.k)",
    "ASOF FULL JOIN": f"SELECT a.id FROM {A} ASOF FULL JOIN {B} ON a.k = b.k AND a.ts >= b.ts",
}


@pytest.mark.parametrize("told", WRONG)
def test_what_sql_refuses(told: str) -> None:
    assert told in failing(lambda: parse_script(WRONG[told]).bind(time="ts"))


def test_a_pipeline_says_how(tmp_path) -> None:
    file = tmp_path / "pipeline.toml"
    streams = "".join(
        f'[streams.{x}]\nformat = "parquet"\npath = "{x}"\ntime = "ts"\nwithin = "5 s"\n' for x in "abc"
    )
    join = '[join]\non = "a.k = b.k and a.k = c.k"\nhow = {b = "optional", c = "absent"}\n'
    end = '[sink]\nformat = "parquet"\npath = "out"\n[run]\ncheckpoint = "checkpoint"\n'
    file.write_text(f'{streams}{join}match = {{b = "last"}}\n{end}')
    query = read_pipeline(file).query
    assert (query.how, query.match) == ({"b": "optional", "c": "absent"}, {"b": "last"})
    assert query.kind.result_aliases == ("a", "b")


@pytest.mark.parametrize(
    ("how", "partitioning", "told"),
    [
        ("left", "range", "nothing to partition by range"),
        ("full", "grid", "nothing to partition by grid"),
    ],
)
def test_layouts_that_would_part_matches_are_refused(how: str, partitioning: str, told: str) -> None:
    frames = {name: frame(DATA[name]) for name in "ab"}
    settings = {"time": "ts", "within": "5 s", "how": how, "partitions": 3, "partitioning": partitioning}
    with pytest.raises(wr.QueryError, match=told):
        wr.join(frames, on="a.k = b.k and abs(a.x - b.x) < 1", **settings)
    with pytest.raises(wr.QueryError, match="skewed_keys: only inner joins"):
        skewed = {"values": [1], "splits": 2}
        wr.join(frames, on="a.k = b.k", **settings | {"partitioning": None, "skewed_keys": skewed})


def test_results_say_whether_they_are_certain() -> None:
    frames = {name: frame(DATA[name]) for name in "ab"}
    exact = wr.join(frames, on="a.k = b.k", time="ts", within="4 s", how="left", partitions=3)
    assert exact.columns == ["a", "b"]
    limit = "WITH (memory = '60 rows', shed = 'random')"
    text = f"SELECT a.id, b.id AS other, certain FROM {A} LEFT JOIN {B} ON a.k = b.k {limit}"
    frames = {name: frame(table) for name, table in DATA.items() if name != "c"}
    out = wr.sql(text, spark(), frames, time="ts", partitions=2).collect()
    want = over(CASES["right"][1].replace("right", "left"))
    sure = Counter((row["id"], row["other"]) for row in out if row["certain"])
    assert sure <= want
    assert len(out) > sure.total()


def test_a_star_shows_the_streams_that_have_rows() -> None:
    frames = {name: frame(DATA[name]) for name in "ab"}
    text = f"SELECT * FROM {A} LEFT SEMI JOIN {B} ON a.k = b.k"
    assert wr.sql(text, spark(), frames, time="ts", partitions=1).columns == DATA["a"].column_names


# --- Among shared queries -----------------------------------------------------------------------------------

SHARED = {
    how: wr.Query({x: wr.Stream("ts", "2 seconds") for x in "ab"}, "a.k = b.k and a.x > 3", how=how)
    for how in ("inner", "left", "full", "anti")
}
FAR = 1_000.0


def shared_ids(rows: list) -> dict[str, Counter]:
    found: dict[str, Counter] = {name: Counter() for name in SHARED}
    for row in rows:
        found[row["query"]][row["a"], row["b"]] += 1
    return found


def exact(name: str, *calls: dict[str, pa.Table]) -> Counter:
    op = wr.Operator(SHARED[name])
    outputs = [*map(op.process, calls), op.finish()]
    answer: Counter = Counter()
    for row in pa.concat_tables(outputs).to_pylist():
        answer[tuple(row.get(x) and row[x]["id"] for x in "ab")] += 1
    return answer


def test_shared_queries_of_all_kinds() -> None:
    tables = {"a": rows(3, 200), "b": rows(4, 200)}
    frames = {x: frame(table) for x, table in tables.items()}
    out = wr.share(SHARED, frames, partitions=3).selectExpr("query", "a.id as a", "b.id as b").collect()
    assert shared_ids(out) == {name: exact(name, tables) for name in SHARED}


def test_shared_streams_of_all_kinds_go_on_from_their_checkpoint(tmp_path) -> None:
    """The last files only move time on, so that all rows before are decided."""
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    calls = [{"a": rows(10 + n, 80, 9 * n, 9), "b": rows(20 + n, 80, 9 * n, 9)} for n in range(3)]
    ends = [{x: rows(90 + n, 1, FAR * (n + 1), 1).slice(0, 1) for x in "ab"} for n in range(2)]
    for part in (calls[:2], [*calls[2:], *ends]):
        for call in part:
            a.put(call["a"])
            b.put(call["b"])
        out = wr.share(SHARED, {"a": a.read(), "b": b.read()}, partitions=3, state=str(tmp_path / "state"))
        run(out, tmp_path, ["query", "a.id as a", "b.id as b"])
    late = {call[x].column("id")[0].as_py() for call in ends for x in "ab"}
    got = shared_ids(spark().read.parquet(str(tmp_path / "out")).collect())
    for name, found in got.items():
        assert Counter({pair: n for pair, n in found.items() if not late & set(pair)}) == exact(name, *calls)


def test_statements_of_several_kinds() -> None:
    frames = {x: frame(DATA[x]) for x in "ab"}
    text = "; ".join(
        f"SELECT a.id AS a, b.id AS b FROM {A} {kind} JOIN {B} ON a.k = b.k" for kind in ("", "LEFT", "LEFT")
    )
    out = wr.sql(text, spark(), frames, time="ts", partitions=2).collect()
    found: dict[str, Counter] = {}
    for row in out:
        found.setdefault(row["query"], Counter())[row["a"], row["b"]] += 1
    inner, first, second = found.values()
    assert first == second and inner <= first
    assert {pair for pair in first if pair[1] is None} == set(first) - set(inner)
