"""When shared queries get their results, under each schedule, stopped and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windrow as wr
from queries import Case, examples
from shared_cases import ids_in_order, newest_in_order, schemas_of, shared_cases, ticking
from terms import filters
from test_shared_queries import query

SCHEDULES = ("lwo", "swf", "greedy")
SECOND = 1_000_000


class WorkClock:
    """A look takes a second, a result half of one."""

    def __init__(self) -> None:
        self.op: wr.SharedOperator | None = None

    def __call__(self) -> float:
        done = self.op.progress if self.op else None
        return done.rows_probed + 0.5 * done.found if done else 0.0


def one_by_one(queries: dict[str, wr.Query], schedule: str) -> wr.SharedOperator:
    clock = WorkClock()
    schemas = dict.fromkeys("ab", rows().schema)
    clock.op = wr.SharedOperator(queries, schedule, schemas=schemas, clock=clock)
    return clock.op


def rows(*times: float, key: int = 1, ids: tuple[int, ...] = ()) -> pa.Table:
    stamps = pa.array([int(SECOND * t) for t in times], pa.timestamp("us"))
    names = pa.array(ids or range(len(times)), pa.int64())
    return pa.table({"ts": stamps, "k": pa.array([key] * len(times), pa.int64()), "id": names})


def released(release, name: str) -> list[tuple[tuple, float]]:
    """A query's results and when each was released."""
    return list(zip(ids_in_order(release[name]), release.release_times(name).tolist(), strict=True))


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_releases_add_up_to_the_answer(schedule, counted):
    """However often the caller stops, restarts, or goes on with `process`: each result once."""

    @examples(8)
    @given(
        shared_cases(counted),
        st.booleans(),
        st.lists(
            st.tuples(st.sampled_from([0, 1, 3, None, "process"]), st.booleans()), min_size=5, max_size=5
        ),
    )
    def check(drawn, single: bool, ways: list[tuple[int | str | None, bool]]) -> None:
        case, asked = drawn
        queries = {name: a.query(case) for name, a in asked.items()}
        if single:
            queries = {n: replace(q, evaluate="every 1 rows") for n, q in queries.items()}
        clock = ticking()
        op = wr.SharedOperator(queries, schedule, schemas=schemas_of(case), clock=clock)
        got: dict[str, list[tuple]] = {name: [] for name in queries}

        def take(release) -> None:
            now = clock()
            for name in queries:
                got[name] += ids_in_order(release[name])
                times = release.release_times(name)
                assert len(times) == release[name].num_rows
                assert (np.diff(times) >= 0).all() and (times > 0).all() and (times <= now).all()

        for (stop, restart), call in zip(cycle(ways), case.inputs(), strict=False):
            if stop == "process":
                take(op.process(call))
            else:
                for release in islice(op.releases(call), stop):
                    take(release)
            if restart:
                op = wr.SharedOperator.restore(queries, op.snapshot(), schedule, clock=clock)
        take(op.finish())
        for name, one in asked.items():
            own = [f for alias in one.windows for f in filters(alias) if f.sql == one.above]
            alone = Case(one.windows, [*own, *case.terms], case.tables, case.calls, case.options)
            assert Counter(got[name]) == alone.answer()
        seen = op.metrics()
        assert {n: q.results for n, q in seen.queries.items()} == {n: len(rows) for n, rows in got.items()}
        assert all(q.backlog_rows == 0 for q in seen.queries.values())
        assert op.progress.backlog_rows == op.progress.results_held == 0

    check()


def streams(seed: int, count: int) -> Iterator[dict[str, pa.Table]]:
    """Rows in order of time, one per call."""
    rng = np.random.default_rng(seed)
    for number, time in enumerate(np.cumsum(rng.random(count)).tolist()):
        alias = "ab"[rng.integers(0, 2)]
        yield {alias: rows(time, key=int(rng.integers(0, 2)), ids=(number,))}


def run_burst(queries: dict[str, wr.Query], schedule: str, seed: int) -> dict[str, list]:
    """Rows and release times per query, of 30 rows that are all there before the first is served."""
    op = one_by_one(queries, schedule)
    for row in list(streams(seed, 40))[:10]:
        op.process(row)
    found: dict[str, list] = {name: [] for name in queries}
    releases = iter(())
    for row in list(streams(seed, 40))[10:]:
        releases = op.releases(row)
    for release in releases:
        for name in queries:
            found[name] += released(release, name)
            newest = newest_in_order(release[name])
            assert newest == sorted(newest)
    for name, seen in op.metrics().queries.items():
        # The first ten rows took no time.
        assert seen.response_mean * seen.results == pytest.approx(sum(time for _, time in found[name]))
        assert seen.response_max == max(time for _, time in found[name])
    return found


@pytest.mark.parametrize("seed", range(5))
def test_what_is_released_when(seed):
    """The same results in the same order, row by row. For the smallest window no row is finished later under
    SWF than under LWO. With slices that grow, Greedy serves like SWF and releases no result later."""
    growing = {f"q{w}": query(f"{w} s", evaluate="every 1 rows") for w in (1, 3, 8)}
    lwo, swf, greedy = (run_burst(growing, schedule, seed) for schedule in SCHEDULES)
    for name in growing:
        rows = [[max(result) for result, _ in found[name]] for found in (lwo, swf, greedy)]
        assert rows[0] == rows[1] == rows[2] == sorted(rows[0])
        assert dict(lwo[name]).keys() == dict(swf[name]).keys() == dict(greedy[name]).keys()
        assert all(dict(greedy[name])[result] <= time for result, time in swf[name])
    assert any(dict(greedy["q8"])[result] < time for result, time in swf["q8"])
    first, second = ({max(result): time for result, time in found["q1"]} for found in (swf, lwo))
    assert all(time <= second[row] for row, time in first.items())
    # Under SWF a row's results come at once.
    for name in growing:
        for row in {max(result) for result, _ in swf[name]}:
            assert len({time for result, time in swf[name] if max(result) == row}) == 1


def test_greedy_finishes_a_thin_slice_before_the_next_row():
    """Shared Fig. 6: w2 - w1 is less than w1, so the first row passes w2 before the second starts."""
    queries = {f"q{w}": query(f"{w} s", evaluate="every 1 rows") for w in (5, 6, 20)}
    b, a = rows(0, 12, 14, 17, 18, 19), rows(19.5, 19.5, ids=(7, 8))
    order = {}
    for schedule in SCHEDULES:
        op = one_by_one(queries, schedule)
        op.process({"b": b})
        order[schedule] = [
            [name for name in queries if release[name].num_rows] for release in op.releases({"a": a})
        ]
    assert order["lwo"] == [["q5", "q6", "q20"]] * 2
    assert order["swf"] == [["q5"], ["q5"], ["q6"], ["q6"], ["q20"], ["q20"]]
    # The first row passes both in one unit. What it finds is released to all; the second has to wait.
    assert order["greedy"] == [["q5", "q6", "q20"], ["q5", "q6"], ["q20"], ["q20"]]


def test_rows_that_nobody_asks_for_stay_in_the_backlog():
    queries = {f"q{w}": query(f"{w} s") for w in (1, 8)}
    op, plain = wr.SharedOperator(queries), wr.SharedOperator(queries)
    want = Counter()
    for row in streams(1, 30):
        op.releases(row)
        want += Counter(ids_in_order(plain.process(row)["q8"]))
    assert op.progress.backlog_rows == op.metrics().queries["q8"].backlog_rows == 30
    assert Counter(ids_in_order(op.finish()["q8"])) == want
    assert op.progress.backlog_rows == 0
    assert op.metrics().joins[0].results == plain.metrics().joins[0].results


def test_the_next_call_ends_an_iterator():
    op = one_by_one({"q": query("8 s", evaluate="every 1 rows")}, "lwo")
    data = list(streams(1, 30))
    old = op.releases(data[0])
    next(old)
    for row in data[1:20]:
        old, before = op.releases(row), old
        next(old)
        assert next(before, None) is None
    op.add("r", query("9 s", evaluate="every 1 rows"))
    assert next(old, None) is None
    for row in data[20:]:
        for release in op.releases(row):
            assert release["r"].num_rows >= release["q"].num_rows
    assert op.metrics().queries["r"].results > 0


def test_a_response_counts_from_the_arrival():
    op = one_by_one({"q": query("8 s", evaluate="every 1 rows")}, "lwo")
    op.process({"a": rows(1)})
    (release,) = op.releases({"b": rows(2)}, arrived=-10.0)
    assert release.release_times("q").tolist() == [1.5]
    assert op.metrics().queries["q"].response_max == 11.5


def test_joins_that_cannot_defer_take_one_turn():
    op = one_by_one({"q": query("2 s", how="left")}, "swf")
    releases = [[release["q"].num_rows for release in op.releases(row)] for row in streams(2, 20)]
    assert all(len(each) == 1 for each in releases)
    assert sum(sum(each) for each in releases) > 0
