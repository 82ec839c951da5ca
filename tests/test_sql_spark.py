"""`wr.sql` on local Spark: the rows of `wr.join`, groups as DuckDB has them, shared joins, sources."""

from __future__ import annotations

from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import windrow as wr
from pipelines import in_microseconds
from spark_tools import Stream, failing, frame, rows, run, spark, written

SELECT = """
SELECT a.id AS a, b.id AS b, a.x + b.x AS sum
FROM left a [RANGE 4 SECONDS], right b [RANGE 2 SECONDS]
WHERE a.k = b.k AND b.x > 2
"""


def tables(seed: int = 1, count: int = 300) -> dict[str, pa.Table]:
    return {"left": rows(seed, count), "right": rows(seed + 1, count)}


def frames(**named: pa.Table):
    return {name: frame(table) for name, table in named.items()}


def ask(text: str, data: dict[str, pa.Table], **settings):
    return wr.sql(text, spark(), frames(**data), time="ts", **settings)


def over(data: dict[str, pa.Table], sql: str) -> list[tuple]:
    with duckdb.connect() as database:
        for name, table in data.items():
            database.register(name, in_microseconds(table))
        return database.sql(sql).fetchall()


PAIRS = """
    select a.*, b.id as b_id, b.x as b_x, b.ts as b_ts, a.x + b.x as sum from "left" a join "right" b
    on a.k = b.k and b.x > 2 where b.ts - a.ts <= 4e6 and a.ts - b.ts <= 2e6
"""


def test_a_batch_gives_the_rows_of_join():
    data = tables()
    out = ask(SELECT, data)
    assert out.columns == ["a", "b", "sum"]
    want = over(data, f"select id, b_id, sum from ({PAIRS})")
    assert Counter(map(tuple, out.collect())) == Counter(want) and len(want) > 100
    joined = wr.join(
        {"a": frame(data["left"]), "b": frame(data["right"])}, "a.k = b.k and b.x > 2", "ts",
        {"a": "4 seconds", "b": "2 seconds"},
    )  # fmt: skip
    assert Counter(map(tuple, joined.selectExpr("a.id", "b.id", "a.x + b.x").collect())) == Counter(want)


def test_a_stream_gives_the_rows_of_join(tmp_path):
    left, right = Stream(tmp_path / "left"), Stream(tmp_path / "right")
    cut = [rows(n, 80, start=6 * n, span=9) for n in range(1, 5)]
    left.put(*cut[:2])
    right.put(*cut[2:])
    text = SELECT + " WITH (late = '1 second', partitions = 3)"
    read = {"left": left.read(), "right": right.read()}
    out = wr.sql(text, spark(), read, time={"left": "ts", "right": "ts"}, state=str(tmp_path / "state"))
    assert out.isStreaming
    run(out, tmp_path / "sql", ["a", "b"])
    joined = wr.join(
        {"a": left.read(), "b": right.read()}, "a.k = b.k and b.x > 2", "ts",
        {"a": "4 seconds", "b": "2 seconds"}, late="1 second", partitions=3, state=str(tmp_path / "other"),
    )  # fmt: skip
    run(joined, tmp_path / "join", ["a.id as a", "b.id as b"])
    assert written(tmp_path / "sql") == written(tmp_path / "join")
    assert written(tmp_path / "sql").total() > 20


def test_groups_are_those_of_duckdb():
    data = tables()
    out = ask(
        """
        SELECT window_start, a.k, count(*) AS n, count(a.s) AS texts, sum(b.x) AS total, avg(b.x) AS mean,
               min(b.x) AS least, max(a.x + b.x) AS most, sum(b.x) / count(*) + a.k AS made
        FROM left a [RANGE 4 SECONDS], right b [RANGE 2 SECONDS] WHERE a.k = b.k AND b.x > 2
        GROUP BY TUMBLE(b.ts, INTERVAL 5 SECONDS), a.k HAVING count(*) > 2
        """,
        data,
    )
    want = over(
        data,
        f"""select b_ts // 5000000 * 5000000, k, count(*), count(s), sum(b_x), avg(b_x), min(b_x), max(sum),
        sum(b_x) / count(*) + k from ({PAIRS}) group by 1, 2 having count(*) > 2""",
    )
    got = [(round(r[0].timestamp() * 1e6), *r[1:]) for r in out.collect()]
    assert len(want) > 10
    for mine, theirs in zip(sorted(got), sorted(want), strict=True):
        assert mine == pytest.approx(theirs)


def test_windows_that_slide():
    data = tables()
    text = """SELECT window_start, window_end, count(*) AS n FROM left a, right b WHERE a.k = b.k
              GROUP BY {} WINDOW 2 SECONDS"""
    hop = ask(text.format("HOP(b.ts, INTERVAL 2 SECONDS, INTERVAL 6 SECONDS)"), data).collect()
    window = ask(text.format("window(b.ts, '6 seconds', '2 seconds')"), data).collect()
    assert sorted(hop) == sorted(window)
    results = ask("SELECT b.ts FROM left a, right b WHERE a.k = b.k WINDOW 2 SECONDS", data).count()
    assert sum(row.n for row in hop) == 3 * results > 0
    assert all((row.window_end - row.window_start).total_seconds() == 6 for row in hop)


def test_groups_of_a_stream_end_with_the_watermark(tmp_path):
    left, right = Stream(tmp_path / "left"), Stream(tmp_path / "right")
    cut = {
        name: [rows(s + n, 100, start=10 * n, span=10) for n in range(3)]
        for s, name in ((10, "left"), (20, "right"))
    }
    left.put(*cut["left"])
    right.put(*cut["right"])
    text = """SELECT window_start AS start, count(*) AS n FROM left a, right b WHERE a.k = b.k
              GROUP BY TUMBLE(greatest(a.ts, b.ts), INTERVAL 5 SECONDS) WINDOW 2 SECONDS"""
    read = {"left": left.read(), "right": right.read()}
    out = wr.sql(text, spark(), read, time="ts", state=str(tmp_path / "state"), partitions=2)
    run(out, tmp_path, ["start", "n"])
    whole = ask(text, {name: pa.concat_tables(tables) for name, tables in cut.items()}).collect()
    got = written(tmp_path)
    assert set(got) < {tuple(row) for row in whole}  # the last windows are still open
    assert len(got) >= len(whole) - 2


def test_estimates_of_a_sample_hold_the_truth():
    data = {"left": rows(1, 1500, keys=5), "right": rows(2, 1500, keys=5)}
    text = """SELECT window_start, count(*) AS n, sum(b.x) AS total, avg(b.x) AS mean, max(b.x) AS most,
                     min(b.x) AS least
              FROM left a, right b WHERE a.k = b.k
              GROUP BY TUMBLE(b.ts, INTERVAL 10 SECONDS) WINDOW 4 SECONDS"""
    exact = {r.window_start: r for r in ask(text, data).collect()}
    sampled = ask(
        f"{text} WITH (memory = '300 rows', shed = 'cluster', confidence = 0.999)", data, partitions=1
    )
    assert sampled.columns[1:7] == ["n", "n_low", "n_high", "total", "total_low", "total_high"]
    found = sampled.collect()
    assert {r.window_start for r in found} <= set(exact) and found
    for row in found:
        truth = exact[row.window_start]
        assert row.n_low <= truth.n <= row.n_high and row.n_low < row.n_high
        assert row.total_low <= truth.total <= row.total_high
        assert row.mean_low <= truth.mean <= row.mean_high
        assert row.most_low == row.most <= truth.most and row.most_high is None
        assert row.least_high == row.least >= truth.least and row.least_low is None


def test_estimates_on_a_stream(tmp_path):
    """Groups gather their sample over all batches: figures are those of one batch with all rows."""
    left, right = Stream(tmp_path / "left"), Stream(tmp_path / "right")
    for n in range(4):
        left.put(rows(10 + n, 300, start=10 * n, span=10, keys=5))
        right.put(rows(20 + n, 300, start=10 * n, span=10, keys=5))
    text = """SELECT window_start AS start, count(*) AS n FROM left a, right b WHERE a.k = b.k
              GROUP BY TUMBLE(greatest(a.ts, b.ts), INTERVAL 15 SECONDS) WINDOW 4 SECONDS"""
    limited = f"{text} WITH (memory = '200 rows', shed = 'cluster', confidence = 0.999)"

    def read():
        return {"left": left.read(), "right": right.read()}

    settings = {"time": "ts", "partitions": 1}
    sampled = wr.sql(limited, spark(), read(), state=str(tmp_path / "state"), **settings)
    run(sampled, tmp_path / "sampled", ["start", "n", "n_low", "n_high"])
    exact = wr.sql(text, spark(), read(), state=str(tmp_path / "other"), **settings)
    run(exact, tmp_path / "exact", ["start", "n"])
    truth = dict(written(tmp_path / "exact"))
    found = list(written(tmp_path / "sampled"))
    assert len(found) >= 1 and len(truth) >= 1
    for start, n, low, high in found:
        assert low < n < high and low <= truth_of(truth, start) <= high


def truth_of(truth: dict, start) -> int:
    return next(n for at, n in truth if at == start)


def test_a_sample_brings_its_weights():
    out = ask("SELECT a.id FROM left a, right b WHERE a.k = b.k WINDOW 4 SECONDS "
              "WITH (memory = '100 rows', shed = uniform)", tables(), partitions=1)  # fmt: skip
    assert out.columns == ["id", "weight", "cluster"]
    assert all(row.weight >= 1 for row in out.collect())


def test_names_are_told_apart_and_stars_unfold():
    data = tables()
    out = ask("SELECT a.*, b.id, a.x * 2 FROM left a, right b WHERE a.k = b.k WINDOW 1 SECOND", data)
    assert out.columns == ["a_id", "ts", "k", "x", "s", "b_id", "column7"]
    both = ask("SELECT * FROM left a, right b WHERE a.k = b.k WINDOW 1 SECOND", data)
    assert both.columns == [f"{alias}_{c}" for alias in "ab" for c in ("id", "ts", "k", "x", "s")]
    whole = ask("SELECT a, b.x FROM left a, right b WHERE a.k = b.k WINDOW 1 SECOND", data)
    assert whole.columns == ["a", "x"] and whole.schema["a"].dataType.typeName() == "struct"


SEVERAL = """
SELECT a.id AS a, b.id AS b FROM left a, right b WHERE a.k = b.k WINDOW 1 SECOND WITH (name = 'near');
SELECT a.id AS a, b.id AS b, b.x FROM left a, right b WHERE a.k = b.k AND b.x > 2
WINDOW 4 SECONDS WITH (name = far);
SELECT window_start, count(*) AS n FROM left a, right b WHERE a.k = b.k
GROUP BY TUMBLE(b.ts, INTERVAL 5 SECONDS) WINDOW 1 SECOND WITH (name = 'counts')
"""


def alone(name: str, data: dict[str, pa.Table]):
    one = next(text for text in SEVERAL.split(";") if name in text)
    return ask(one, data)


def test_several_statements_share_their_join():
    data = tables()
    out = ask(SEVERAL, data)
    assert out.columns[0] == "query" and set(out.columns[1:]) == {"a", "b", "x", "window_start", "n"}
    for name in ("near", "far", "counts"):
        single = alone(name, data)
        mine = out.where(f"query = '{name}'").select(*single.columns).collect()
        assert Counter(mine) == Counter(single.collect()) and mine


def test_several_statements_on_streams(tmp_path):
    left, right = Stream(tmp_path / "left"), Stream(tmp_path / "right")
    data = tables(count=100)
    left.put(data["left"])
    right.put(data["right"])
    text = ";".join(SEVERAL.split(";")[:2])
    read = {"left": left.read(), "right": right.read()}
    out = wr.sql(text, spark(), read, time="ts", state=str(tmp_path / "state"), partitions=2)
    ran = run(out, tmp_path, ["query", "a", "b", "x"])
    assert {batch.join for batch in wr.metrics(ran)} == {"shared"}
    want = ask(text, data).select("query", "a", "b", "x").collect()
    assert written(tmp_path) == Counter(map(tuple, want)) and len(want) > 50


def test_a_schedule_defers_what_a_deadline_leaves(tmp_path):
    left, right = Stream(tmp_path / "left"), Stream(tmp_path / "right")
    parts = {n: [rows(seed + k, 100, 5 * k, 5) for k in range(4)] for n, seed in (("left", 1), ("right", 9))}
    left.put(*parts["left"])
    right.put(*parts["right"])
    data = {name: pa.concat_tables(each) for name, each in parts.items()}
    plain = ";".join(SEVERAL.split(";")[:2])
    settings = "deadline = '1 us', schedule = swf, max_backlog = 100000"

    def start(text, name, columns):
        read, path = {"left": left.read(), "right": right.read()}, tmp_path / name
        out = wr.sql(text, spark(), read, time="ts", state=str(path / "state"), partitions=2)
        told = wr.metrics(run(out, path, columns))
        return {batch.join for batch in told}, sum(q.backlog_rows for q in told[-1].queries.values()), path

    deferred = plain.replace("name =", f"{settings}, name =")
    joins, backlog, path = start(deferred, "both", ["query", "a", "b", "x"])
    assert (joins, backlog > 0) == ({"shared"}, True)
    want = Counter(map(tuple, ask(plain, data).select("query", "a", "b", "x").collect()))
    assert written(path) < want
    joins, backlog, path = start(deferred.split(";")[0], "one", ["a", "b"])
    assert joins == {"near"} and written(path) == Counter(
        row[1:3] for row in want.elements() if row[0] == "near"
    )
    assert Counter(ask(deferred, data).select("query", "a", "b", "x").collect()) == want


def test_sources_are_created_read_and_explained(tmp_path):
    data = tables()
    for name, table in data.items():
        Stream(tmp_path / name).put(table)
    created = f"""
    CREATE STREAM left (id BIGINT, ts TIMESTAMP, k BIGINT, x DOUBLE, s STRING) TIME ts
        FROM (format = 'parquet', path = '{tmp_path / "left"}');
    CREATE STREAM right TIME ts
        OPTIONS (format = 'parquet', path = '{tmp_path / "right"}', maxFilesPerTrigger = 1);
    """
    out = wr.sql(created + SELECT, spark(), streaming=False)
    assert Counter(out.collect()) == Counter(ask(SELECT, data).collect())
    stream = wr.sql(created + SELECT, spark(), state=str(tmp_path / "state"))
    run(stream, tmp_path / "run", ["a", "b", "sum"])
    assert written(tmp_path / "run") == Counter(map(tuple, out.collect()))
    (plan,) = wr.sql(created + "EXPLAIN " + SELECT, spark(), streaming=False).collect()
    assert plan.query == "query" and "left a [4 seconds]" in plan.plan and "a.k = b.k" in plan.plan
    assert "Memory for an exact answer" in plan.plan
    assert wr.sql(created + "EXPLAIN " + SELECT, spark()).count() == 1  # of streams, with no place for state


def test_tables_of_the_session_are_streams_too():
    data = tables()
    frame(data["left"]).createOrReplaceTempView("sql_left")
    frame(data["right"]).createOrReplaceTempView("sql_right")
    text = SELECT.replace("left a", "sql_left a").replace("right b", "sql_right b")
    assert Counter(wr.sql(text, spark(), time="ts").collect()) == Counter(ask(SELECT, data).collect())


def test_the_examples_of_the_papers():
    at = pa.array([1, 2, 3, 70_000_000], pa.timestamp("us", "UTC"))
    place = [1, 1, 2, 1]
    data = {
        "Temperature": pa.table({"LocationId": place, "Value": [31.0, 20.0, 40.0, 35.0], "TimeStamp": at}),
        "Humidity": pa.table({"LocationId": place, "Value": [61.0, 70.0, 50.0, 90.0], "TimeStamp": at}),
    }
    first = """
SELECT T.LocationId
FROM Temperature T, Humidity H
WHERE T.Value > Thresholdt and H.Value > Thresholdh
and T.LocationId = H.LocationId
WINDOW 1 min;"""
    out = wr.sql(
        first, spark(), frames(**data), time="TimeStamp", parameters={"Thresholdt": 30, "Thresholdh": 60}
    )
    assert [row.LocationId for row in out.collect()] == [1, 1, 1]
    second = """
SELECT T.LocationId, H.LocationId
FROM Temperature T, Humidity H
WHERE correlated(T.Value, H.Value) and T.LocationId
≠ H.LocationId
WINDOW 30 min;"""
    near = wr.Function(lambda t, h: h == 2 * t - 1)
    out = wr.sql(second, spark(), frames(**data), time="TimeStamp", functions={"correlated": near})
    assert out.columns == ["T_LocationId", "H_LocationId"]
    assert out.collect() == []  # only 31 and 61 are, and they are of one place


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("SELECT a.id FROM left a, rihgt b WHERE a.k = b.k WINDOW 1 s", "rihgt", "Did you mean 'right'?"),
        ("SELECT a.idd FROM left a, right b WHERE a.k = b.k WINDOW 1 s", "idd", "Did you mean 'id'?"),
        ("SELECT x FROM left a, right b WHERE a.k = b.k WINDOW 1 s", "x", "could be of a or b"),
        ("SELECT a.id FROM left a, right b WHERE a.k = b.s WINDOW 1 s", "a.k = b.s", "compare"),
        ("SELECT a.id FROM left a, right b WHERE a.k < 3 WINDOW 1 s", "a.k < 3", "allow_cross_join"),
        ("SELECT nonsense(a.id) FROM left a, right b WHERE a.k = b.k WINDOW 1 s", "nonsense", "nonsense"),
        ("SELECT count(*) FROM left a, right b WHERE a.k = b.k GROUP BY TUMBLE(b.x, '1 s') WINDOW 1 s",
         "TUMBLE", "timestamp"),
    ],
)  # fmt: skip
def test_what_only_the_frames_tell(text, place, told):
    message = failing(lambda: ask(text, tables(count=5)))
    lines = message.splitlines()
    assert told in message, message
    column = lines[-1].index("^")
    assert lines[-2][column:].startswith(place), message


def test_what_is_wrong_around_the_text():
    data = tables(count=5)
    assert "there is no SELECT" in failing(lambda: wr.sql("CREATE STREAM a FROM (format = 'rate')", spark()))
    assert "expected a Spark DataFrame" in failing(lambda: wr.sql(SELECT, spark(), {"left": 3}))
    assert "Did you mean 'left'" in failing(
        lambda: wr.sql(SELECT, spark(), frames(**data), time={"lfet": "ts"})
    )
    assert "its time column is not known" in failing(lambda: wr.sql(SELECT, spark(), frames(**data)))
    assert "run one of them" in failing(lambda: ask(f"EXPLAIN {SELECT}; {SELECT}", data))
    assert "two statements are called 'one'" in failing(
        lambda: ask(f"{SELECT} WITH (name = 'one'); {SELECT} WITH (name = 'one')", data)
    )
    other = "SELECT a.s AS a FROM left a, right b WHERE {} WINDOW 1 s"
    for on in ("a.k = b.k", "a.k = b.k GROUP BY tumble(b.ts, '1 s'), a.s"):
        message = failing(lambda on=on: ask(f"{SELECT};\n{other.format(on)}", data))
        assert "'a' is string, in statement 'query1' bigint" in message and "a.s AS a" in message
    named = SELECT.replace("AS sum", "AS query")
    assert "is the statement's name" in failing(lambda: ask(f"{named}; {SELECT}", data))
    missing = "CREATE STREAM left TIME ts FROM (format = 'parquet', path = '/no/such/place');" + SELECT
    message = failing(lambda: wr.sql(missing, spark(), {"right": frame(data["right"])}))
    assert message.startswith("sql, line 1, column 15: stream 'left': ") and "^^^^" in message
    assert "got [3]" in failing(lambda: ask(SELECT, data, parameters={"x": [3]}))
