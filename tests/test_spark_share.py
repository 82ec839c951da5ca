"""`share` on Spark: each query gets what it gets alone, over restarts, changes and deadlines."""

from __future__ import annotations

import json
import time
from collections import Counter

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import windrow as wr
from spark_tools import START, Stream, failing, frame, in_process, rows, run, spark
from windrow.cli.queries import app
from windrow.model.execution import Execution
from windrow.spark.metrics import metrics
from windrow.spark.shared_join import prepare_shared, share

ON = "a.k = b.k"
FILES = 4
COLUMNS = ["query", "a.id as a", "b.id as b"]


def query(within: str, on: str = ON) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", within) for a in "ab"}, on, late="1 second")


QUERIES = {
    "fast": query("500 ms"),
    "middle": query("2 seconds", "a.k = b.k and a.x > 3"),
    "slow": query("4 seconds"),
    "band": query("1 second", "abs(a.x - b.x) <= 0.25"),
}


def files(seed: int, count: int = FILES, each: int = 80) -> list[pa.Table]:
    """Each file overlaps the one before by some seconds: some rows are late."""
    return [rows(10 * seed + n, each, start=6 * n, span=9) for n in range(count)]


def calls(count: int = FILES, each: int = 80) -> list[dict[str, pa.Table]]:
    return [{"a": x, "b": y} for x, y in zip(files(1, count, each), files(2, count, each), strict=True)]


@pytest.fixture
def two(tmp_path):
    return Stream(tmp_path / "a"), Stream(tmp_path / "b"), tmp_path


class Documents(Stream):
    def put(self, *documents: object) -> None:
        texts = [d if isinstance(d, str) else json.dumps(d) for d in documents]
        super().put(pa.table({"value": pa.array(texts, pa.string())}))

    def read(self):
        reader = spark().readStream.schema("value string").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.directory))


def shared(a: Stream, b: Stream, path, queries=None, **options):
    frames = {"a": a.read(), "b": b.read()}
    return share(
        QUERIES if queries is None else queries, frames, partitions=3, state=str(path / "state"), **options
    )


def by_query(path) -> dict[str, Counter]:
    found: dict[str, Counter] = {}
    for row in spark().read.parquet(str(path / "out")).collect():
        found.setdefault(row[0], Counter())[tuple(row[1:])] += 1
    return found


def alone(q: wr.Query, count: int = FILES, each: int = 80) -> Counter:
    return in_process(q, *calls(count, each))


def test_each_query_gets_what_it_gets_alone_and_goes_on_from_its_checkpoint(two):
    a, b, path = two
    a.put(*files(1)[:2])
    b.put(*files(2)[:2])
    run(shared(a, b, path), path, COLUMNS)
    a.put(*files(1)[2:])
    b.put(*files(2)[2:])
    ran = run(shared(a, b, path), path, COLUMNS)
    found = by_query(path)
    for name, q in QUERIES.items():
        assert found[name] == alone(q), name
    told = metrics(ran)
    assert {m.join for m in told} == {"shared", "shared-2"}
    first = [m for m in told if m.join == "shared"]
    assert [m.batch for m in first] == [2, 3]
    assert set(first[0].queries) == {"fast", "middle", "slow"}
    for m in first:
        for q in m.queries.values():
            assert q.results >= 0 and q.backlog_rows == 0
            assert q.response_max is None or q.response_mean <= q.response_max
    assert first[-1].queries["slow"].results > first[-1].queries["fast"].results > 0


@pytest.mark.parametrize("given", ["", "a", "b", "ab", "abc", "c"])
def test_frames_other_than_those_of_the_queries_are_refused(given):
    frames = {alias: frame(files(1)[0]) for alias in given}
    if given == "ab":
        prepare_shared(QUERIES, frames, Execution(2))
    else:
        assert failing(lambda: prepare_shared(QUERIES, frames, Execution(2))).startswith("frames: ")


def test_batch_frames_give_the_same(two):
    frames = {"a": frame(files(1)[0]), "b": frame(files(2)[0])}
    out = share(QUERIES, frames, partitions=2)
    found = Counter((r[0], r[1], r[2]) for r in out.selectExpr(*COLUMNS).collect())
    want: Counter = Counter()
    for name, q in QUERIES.items():
        want.update({(name, *row): n for row, n in alone(q, 1).items()})
    assert found == want


def test_select_lists_share_columns(two):
    queries = {
        "ids": wr.Subscription(query("2 seconds"), select=["a.id", "b.x + 1 as more"]),
        "keys": wr.Subscription(query("1 second"), where="a.x > b.x", select=["a.k", "a.id"]),
    }
    frames = {"a": frame(files(1)[0]), "b": frame(files(2)[0])}
    out = share(queries, frames, partitions=2)
    assert out.columns == ["query", "id", "more", "k"]
    found = out.toArrow().to_pylist()
    assert {r["query"] for r in found} == {"ids", "keys"}
    assert all(r["k"] is None for r in found if r["query"] == "ids")
    assert all(r["more"] is None and r["k"] is not None for r in found if r["query"] == "keys")
    wrong = {**queries, "other": wr.Subscription(query("1 second"), select=["a.s as id"])}
    assert "another query bigint" in failing(lambda: share(wrong, frames))
    assert "one join" in str(prepare_shared(queries, frames, Execution(2))[0])


def test_queries_come_and_go_by_control_messages(two):
    a, b, path = two
    control = Documents(path / "control")
    at = START + 9_000_000
    for n in range(FILES):
        a.put(files(1)[n])
        b.put(files(2)[n])
    control.put(
        {"at": at, "add": {"name": "half", "within": "250 ms", "where": "a.x > 3", "like": "fast"}},
        {"at": at, "remove": "slow"},
        {"add": {"name": "fast", "within": "1 s", "like": "fast"}},
        {"add": {"name": "x", "within": "1 s", "where": "a.nothing > 3", "like": "fast"}},
        {"add": {"name": "y", "within": "1 s"}},
        {"add": {"name": "z", "within": "10 rows", "like": "fast"}},
        {"remove": "nobody"},
        {"remove": "band"},
        '{"add": ',
    )
    ran = run(shared(a, b, path, control=control.read()), path, COLUMNS)
    reasons = {r for m in metrics(ran) for r in m.control_errors}
    for words in (
        "there is a query 'fast' already",
        "nothing",
        "say which with 'like'",
        "cannot share the join: different kinds of windows",
        "unknown query 'nobody'",
        "'band' is the last query",
        "not JSON",
    ):
        assert any(words in r for r in reasons), (words, reasons)
    found = by_query(path)
    for name in ("fast", "middle", "band"):
        assert found[name] == alone(QUERIES[name])
    times = {
        alias: dict(zip(t["id"].to_pylist(), t["ts"].cast(pa.int64()).to_pylist(), strict=True))
        for alias, t in (("a", pa.concat_tables(files(1))), ("b", pa.concat_tables(files(2))))
    }

    def newest(row: tuple) -> int:
        return max(times["a"][row[0]], times["b"][row[1]])

    half = alone(query("250 ms", "a.k = b.k and a.x > 3"))
    assert found["half"] == Counter({r: n for r, n in half.items() if newest(r) >= at})
    assert found["slow"] == Counter({r: n for r, n in alone(QUERIES["slow"]).items() if newest(r) < at})
    last = [m for m in metrics(ran) if m.join == "shared"][-1]
    assert set(last.queries) == {"fast", "middle", "half"}, "the largest is gone"
    sizes = [m.window_rows for m in metrics(ran) if m.join == "shared"]
    assert sizes[-1] < sizes[0]


@pytest.mark.parametrize("deadline", ["1 us", "1000000000 rows/s"])
def test_a_deadline_carries_large_windows_over_and_loses_nothing(two, deadline):
    a, b, path = two
    queries = {n: QUERIES[n] for n in ("fast", "slow")}
    options = {"queries": queries, "schedule": "swf", "max_backlog": 100_000}
    a.put(*files(1)[:3])
    b.put(*files(2)[:3])
    ran = run(shared(a, b, path, deadline=deadline, **options), path, COLUMNS)
    told = metrics(ran)
    assert max(m.queries["slow"].backlog_rows for m in told) > 0
    between = by_query(path)
    assert between["slow"] < alone(queries["slow"], 3)
    a.put(*files(1)[3:])
    b.put(*files(2)[3:])
    ran = run(shared(a, b, path, **options), path, COLUMNS)
    found = by_query(path)
    for name, q in queries.items():
        assert found[name] == alone(q)
    assert all(q.backlog_rows == 0 for q in metrics(ran)[-1].queries.values())


def test_a_heartbeat_serves_what_was_carried_over_while_the_streams_pause(two):
    a, b, path = two
    queries = {n: QUERIES[n] for n in ("fast", "slow")}
    a.put(*files(1, 2, 80))
    b.put(*files(2, 2, 80))
    out = shared(a, b, path, queries, schedule="swf", max_backlog=100_000, deadline="1 us", heartbeat=True)
    writer = out.selectExpr(*COLUMNS).writeStream.option("checkpointLocation", str(path / "ck"))
    running = writer.start(str(path / "out"), format="parquet")
    try:
        end = time.monotonic() + 90
        while time.monotonic() < end:
            told = metrics(running)
            came = sum(m.rows_in for m in told)
            if came == 4 * 80 and not any(q.backlog_rows for q in told[-1].queries.values()):
                break
            time.sleep(0.2)
        assert any(q.backlog_rows for m in told for q in m.queries.values()), "nothing was carried over"
        assert told[-1].rows_in == 0, "only heartbeats came at last"
    finally:
        running.stop()
    found = by_query(path)
    for name, q in queries.items():
        assert found[name] == alone(q, 2, 80), name
    still = {"a": frame(files(1)[0]), "b": frame(files(2)[0])}
    assert "only streams" in failing(lambda: share(queries, still, deadline="1 s", heartbeat=True))
    assert "without a deadline" in failing(lambda: shared(a, b, path, queries, heartbeat=True))


def test_what_is_wrong_is_told_before_any_data_is_read(two):
    a, b, path = two
    a.put(*files(1)[:1])
    b.put(*files(2)[:1])
    for options, message in (
        ({"schedule": "gredy"}, "Did you mean 'greedy'"),
        ({"deadline": "0 s"}, "must be positive"),
        ({"queries": {}}, "at least one"),
        ({"queries": {"q": wr.Subscription(query("1 s"), select=["a.nothing"])}}, "nothing"),
        ({"queries": {"q": wr.Subscription(query("1 s"), where="a.k +")}}, "cannot parse"),
    ):
        assert message in failing(lambda options=options: shared(a, b, path, **options))
    run(shared(a, b, path), path, COLUMNS)
    a.put(*files(3, 1))
    other = {**QUERIES, "fast": query("600 ms")}
    assert "belongs to another join" in failing(lambda: run(shared(a, b, path, other), path, COLUMNS))


def test_the_command_line_adds_removes_and_lists(two):
    a, b, path = two
    directory = path / "control"
    cli = CliRunner()
    sent = cli.invoke(app, ["add", str(directory), "more", "--within", "a=1 s", "--within", "b=2 s"])
    assert sent.exit_code == 0, sent.output
    assert cli.invoke(app, ["remove", str(directory), "slow"]).exit_code == 0
    assert cli.invoke(app, ["add", str(directory), "x", "--within", "1 s", "--at", "noon"]).exit_code == 2
    assert (
        cli.invoke(app, ["add", str(directory), "x", "--within", "a=1 s", "--within", "2 s"]).exit_code == 2
    )
    assert cli.invoke(app, ["list", str(path / "state")]).exit_code == 2
    a.put(*files(1))
    b.put(*files(2))
    control = spark().readStream.text(str(directory))
    queries = {n: QUERIES[n] for n in ("fast", "slow")}
    ran = run(shared(a, b, path, queries, control=control), path, COLUMNS)
    assert not [r for m in metrics(ran) for r in m.control_errors]
    listed = json.loads(cli.invoke(app, ["list", str(path / "state"), "--json"]).stdout)
    assert {q["name"] for q in listed} == {"fast", "more"}
    found = by_query(path)
    assert sum(q["results"] for q in listed) == sum(c.total() for c in found.values())
    assert next(q for q in listed if q["name"] == "more")["within"] == ["1 second", "2 seconds"]
    shown = cli.invoke(app, ["list", str(path / "state")], env={"COLUMNS": "200"}).output
    assert "fast" in shown and "500" in shown.replace("0.5", "500")


def test_a_batch_that_is_run_again_carries_over_the_same(two):
    """A sink that keeps what it got first, and a batch that Spark runs again: the state must fit the first
    run, whatever the clock says this time."""
    a, b, path = two
    queries = {n: QUERIES[n] for n in ("fast", "slow")}
    options = {"queries": queries, "schedule": "swf", "max_backlog": 100_000}
    kept: dict[int, list] = {}
    again: list[int] = []

    def keep(out, batch: int) -> None:
        found = [tuple(row) for row in out.selectExpr(*COLUMNS).collect()]
        if batch in kept:
            again.append(batch)
            assert sorted(found) == sorted(kept[batch])
        kept.setdefault(batch, found)

    def run_all(**more) -> None:
        writer = shared(a, b, path, **options, **more).writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(path / "ck")).trigger(availableNow=True)
        writer.start().awaitTermination()

    a.put(*files(1)[:3])
    b.put(*files(2)[:3])
    run_all(deadline="5 ms")
    for commit in (path / "ck" / "commits").glob("*2*"):
        commit.unlink()
    a.put(*files(1)[3:])
    b.put(*files(2)[3:])
    run_all(deadline="5 ms")
    assert again == [2]
    a.put(pa.concat_tables(rows(70 + n, 40, start=60, span=9) for n in range(2)))
    run_all()
    found: dict[str, Counter] = {}
    for name, *pair in (row for rows_ in kept.values() for row in rows_):
        found.setdefault(name, Counter())[tuple(pair)] += 1
    for name, q in queries.items():
        assert found[name] == alone(q)


def test_a_second_read_of_a_micro_batch_serves_what_the_first_did(two):
    """Reads take different times, and each commits a state. If the next micro-batch started from either, its
    reads might leave off at different places."""
    a, b, path = two
    a.put(*files(1, 6, 300)), b.put(*files(2, 6, 300))
    queries, reads = {"fast": query("500 ms"), "slow": query("30 seconds")}, []

    def twice(batch, number) -> None:
        reads.append([Counter(map(tuple, batch.selectExpr(*COLUMNS).collect())) for _ in range(2)])

    out = shared(a, b, path, queries, deadline="2 ms")
    writer = out.writeStream.foreachBatch(twice).option("checkpointLocation", str(path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert len(reads) == 6
    assert all(first == second for first, second in reads)
