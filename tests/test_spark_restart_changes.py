"""A streaming query goes on from its checkpoint with a changed query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pytest

import windrow as wr
from results import ids
from spark_tools import SCHEMA, Stream, failing, in_process, rows, run, written
from windrow.engine.row_windows import NEVER
from windrow.spark.join import join
from windrow.spark.metrics import metrics

Call = Mapping[str, pa.Table]


def query(within: str = "4 seconds", late: str = "1 second", **more) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", within) for a in "ab"}, "a.k = b.k", late=late, **more)


def joined(a: Stream, b: Stream, path, asked: wr.Query):
    return join({"a": a.read(), "b": b.read()}, asked, partitions=3, state=str(path / "state"))


def files(seed: int, count: int) -> list[pa.Table]:
    """Each file overlaps the one before by some seconds: some rows are late."""
    return [rows(10 * seed + n, 80, start=6 * n, span=9) for n in range(count)]


@pytest.fixture
def two(tmp_path):
    return Stream(tmp_path / "a"), Stream(tmp_path / "b"), tmp_path


def put(a: Stream, b: Stream, calls: list[Call]) -> None:
    a.put(*(call["a"] for call in calls))
    b.put(*(call["b"] for call in calls))


def in_turn(calls: list[Call], then: list[Call], before: wr.Query, now: wr.Query) -> Counter[tuple]:
    """What one operator answers that is restored with the changed query."""
    op = wr.Operator(before, {a: t.schema for a, t in calls[0].items()})
    answer = sum((ids(op.process(call)) for call in calls), Counter())
    op = wr.Operator.restore(now, op.snapshot(), schemas={a: t.schema for a, t in then[0].items()})
    return answer + sum((ids(op.process(call)) for call in then), Counter()) + ids(op.finish())


@pytest.mark.parametrize("late", ["200 ms", "5 seconds"])
def test_shorter_windows_another_lateness_and_other_columns(two, late):
    a, b, path = two
    calls = [{"a": x, "b": y} for x, y in zip(files(1, 5), files(2, 5), strict=True)]
    put(a, b, calls[:2])
    columns = ["a.id as a", "b.id as b"]
    run(joined(a, b, path, query()), path, [*columns, "cast(null as long) as extra"])
    then = [
        {"a": call["a"].drop_columns(["s"]), "b": call["b"].append_column("extra", call["b"].column("id"))}
        for call in calls[2:]
    ]
    a.schema, b.schema = SCHEMA.removesuffix(", s string"), f"{SCHEMA}, extra long"
    put(a, b, then)
    asked = query("2 seconds", late)
    ran = run(joined(a, b, path, asked), path, [*columns, "b.extra"])
    told = metrics(ran)
    want = in_turn(calls[:2], then, query(), asked)
    found = written(path)
    assert Counter(tuple(result)[:2] for result in found.elements()) == want
    held = {n for call in calls[:2] for n in call["b"].column("id").to_pylist()}
    assert all(extra == (None if n in held else n) for _, n, extra in found)
    new = {n for call in then for n in call["a"].column("id").to_pylist()}
    assert any(n in held and m in new for m, n, _ in found), "held rows are joined"
    assert "stream 'a': within was 4 seconds, now 2 seconds: rows past it expire" in told[0].changes[0]
    assert "stream 'a': column 's' is gone, also from rows held" in told[0].changes
    assert told[0].changes[0] in str(told[0])
    assert told[1].changes == () and told[-1].complete_from is None


def test_longer_windows_are_complete_from_the_time_that_is_told(two):
    a, b, path = two
    calls = [{"a": x, "b": y} for x, y in zip(files(1, 6), files(2, 6), strict=True)]
    put(a, b, calls[:2])
    run(joined(a, b, path, query()), path)
    before = written(path)
    put(a, b, calls[2:])
    asked = query("9 seconds")
    last = metrics(run(joined(a, b, path, asked), path))[-1]
    found = written(path) - before
    exact = in_process(asked, *calls) - in_process(asked, *calls[:2])
    times = {name: {row["id"]: row["ts"] for c in calls for row in c[name].to_pylist()} for name in "ab"}
    assert last.complete_from is not None and last.complete_from < NEVER

    def due(result: tuple) -> bool:
        newest = max(times[name][n] for name, n in zip("ab", result, strict=True))
        return newest.timestamp() * 1e6 >= last.complete_from

    assert not found - exact
    assert not [result for result in exact - found if due(result)]
    assert sum(map(due, exact)) > 100


def test_a_limit_comes_and_goes(two):
    a, b, path = two
    calls = [{"a": x, "b": y} for x, y in zip(files(1, 6), files(2, 6), strict=True)]
    for asked, some in (
        (query(), calls[:2]),
        (query(memory="60 rows", shed="age"), calls[2:3]),
        (query(memory="60 rows", shed="frequency"), calls[3:4]),
        (query(), calls[4:]),
    ):
        put(a, b, some)
        ran = run(joined(a, b, path, asked), path)
    exact = in_process(query(), *calls)
    assert not written(path) - exact
    last = metrics(ran)[-1]
    assert last.complete_from is not None and not last.has_limits
    assert metrics(ran)[0].changes == (
        "memory has no limit any more: rows that were shed stay gone; see complete_from",
    )


def test_a_batch_that_is_repeated_with_another_change_starts_from_the_same_windows(two):
    """All partitions have committed the batch with one change, and none of it counts."""
    a, b, path = two
    calls = [{"a": x, "b": y} for x, y in zip(files(1, 4), files(2, 4), strict=True)]
    put(a, b, calls[:2])
    run(joined(a, b, path, query()), path)
    put(a, b, calls[2:])

    def fail(frame, batch) -> None:
        frame.collect()
        raise ValueError("the sink is gone")

    once = joined(a, b, path, query("1 second", "3 seconds")).writeStream.foreachBatch(fail)
    once = once.option("checkpointLocation", str(path / "ck")).trigger(availableNow=True)
    assert "the sink is gone" in failing(lambda: once.start().awaitTermination())
    asked = query("3 seconds", "500 ms")
    run(joined(a, b, path, asked), path)
    assert written(path) == in_turn(calls[:2], calls[2:], query(), asked)


def test_what_is_fixed_is_refused_and_the_old_query_goes_on(two):
    a, b, path = two
    calls = [{"a": x, "b": y} for x, y in zip(files(1, 2), files(2, 2), strict=True)]
    put(a, b, calls[:1])
    run(joined(a, b, path, query()), path)
    put(a, b, calls[1:])
    b.schema = SCHEMA.replace("s string", "s binary")
    told = failing(lambda: run(joined(a, b, path, query()), path))
    assert "stream 'b': column 's' was string, now binary. The type of a column is fixed, because" in told
    b.schema = SCHEMA
    told = failing(lambda: run(joined(a, b, path, query(how="semi")), path, ["a.id as a"]))
    assert "how was 'inner', now 'semi'. It is fixed, because it decides which rows are kept" in told
    run(joined(a, b, path, query()), path)
    assert written(path) == in_process(query(), *calls)
