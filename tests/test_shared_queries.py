"""What a user sees of shared queries: grouping, filters, select lists, changes, refusals, response times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windrow as wr
from shared_cases import flat, ids_in_order, newest_in_order, ticking
from windrow.engine.shared.results import fan_out
from windrow.engine.shared.schedule import greedy, lwo, swf
from windrow.engine.shared.tiers import WindowTiers
from windrow.errors import QueryError
from windrow.kernels import result_routing
from windrow.model.query import Window

SECOND = 1_000_000


def query(within="10 s", on: str = "a.k = b.k", **options) -> wr.Query:
    spans = within if isinstance(within, dict) else {"a": within, "b": within}
    return wr.Query({a: wr.Stream("ts", w) for a, w in spans.items()}, on, **options)


def rows(seed: int, count: int, start: float = 0, span: float = 60, keys: int = 5) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(int(start * SECOND), int((start + span) * SECOND), count))
    return pa.table(
        {
            "id": np.arange(count) + seed * 1_000_000,
            "ts": pa.array(times, pa.timestamp("us")),
            "k": rng.integers(0, keys, count),
            "v": rng.random(count),
        }
    )


def test_the_figure_of_the_paper():
    """Shared Fig. 2: a11 meets b8, b4 and b0; b12 meets a9, a5 and a1; three windows."""

    def at(*times: int) -> pa.Table:
        stamps = pa.array([t * SECOND for t in times], pa.timestamp("us"))
        return pa.table({"ts": stamps, "k": [0] * len(times), "id": list(times)})

    queries = {f"Q{k}": query(f"{w} s", "a.k = b.k") for k, w in ((1, 3), (2, 7), (3, 11))}
    for schedule in ("lwo", "swf", "greedy"):
        op = wr.SharedOperator(queries, schedule, deadline="1 ms", clock=ticking())
        op.process({"a": at(1), "b": at(0)})
        op.process({"a": at(5), "b": at(4)})
        op.process({"a": at(9), "b": at(8)})
        outputs = [op.process({"a": at(11)}), op.process({"b": at(12)}), op.finish()]
        got = {n: [r for out in outputs for r in ids_in_order(out[n]) if max(r) > 9] for n in queries}
        assert got["Q1"] == [(11, 8), (11, 12), (9, 12)]
        assert got["Q2"] == [(11, 8), (11, 4), (11, 12), (9, 12), (5, 12)]
        assert got["Q3"] == [(11, 8), (11, 4), (11, 0), (11, 12), (9, 12), (5, 12), (1, 12)]


def test_rungs_are_ranked_as_the_paper_does():
    """Fig. 6: w1 is larger than w2 - w1, and w3 - w2 the largest."""
    slices = np.array([3.0, 2.0, 6.0])
    assert np.argsort(lwo(slices)).tolist() == [2, 1, 0]
    assert np.argsort(swf(slices)).tolist() == [0, 1, 2]
    assert np.argsort(greedy(slices)).tolist() == [1, 0, 2]


def test_who_shares_and_who_does_not():
    queries = {
        "one": query("5 s"),
        "same": query("5 s", "b.k = a.k and a.v > 0.5"),
        "wider": query({"a": "5 s", "b": "1 min"}),
        "other": query("5 s", "a.k < b.k"),
        "counted": query("50 rows"),
        "late": query("5 s", late="1 s"),
    }
    op = wr.SharedOperator(queries)
    assert [list(g.subscriptions) for g in op.groups] == [
        ["one", "same", "wider"],
        ["other"],
        ["counted"],
        ["late"],
    ]
    told = str(wr.explain(queries))
    assert "one join on (a.k = b.k) for 3 queries" in told
    assert (
        "different predicates" in told and "different kinds of windows" in told and "different late" in told
    )
    assert "where a.v > 0.5" in told


def test_windows_that_do_not_contain_each_other():
    """a wide on one stream, b on the other: no chain, and each result is held against each."""
    ladder = WindowTiers.of([tuple(Window("time", s) for s in sizes) for sizes in ((1, 9), (9, 1), (5, 5))])
    assert not ladder.nested
    assert ladder.tier_sizes[-1].tolist() == [9, 9]
    distances = np.array([[0, 0, 7, 3, 9], [0, 8, 0, 4, 9]])
    routed = ladder.route(ladder.ranks(distances))
    held = {ladder.outputs[k][0].size: r.tolist() for k, r in enumerate(routed)}
    assert held == {1: [0, 1], 9: [0, 2], 5: [0, 3]}


def test_order_is_by_newest_then_most_recent():
    rng = np.random.default_rng(1)
    for times, places in ((50, 40), (5, 3000), (1 << 40, 10)):
        newest = rng.integers(-times, times, 3000)
        where = rng.integers(0, places, (2, 3000))
        order = result_routing.order_of(newest, where)
        want = np.lexsort((-where[1], -where[0], newest))
        assert (newest[order] == newest[want]).all() and (where[:, order] == where[:, want]).all()
        assert result_routing.in_order(newest[order], where[:, order])
        assert not result_routing.in_order(newest, where)


def test_filters_and_select_lists():
    data = {"a": rows(1, 300), "b": rows(2, 300)}
    op = wr.SharedOperator(
        {
            "all": query("10 s"),
            "few": wr.Subscription(
                query("4 s", "a.k = b.k and a.v > 0.5"), "a.v > b.v", ["a.id", "a.v - b.v as d"]
            ),
            "ids": wr.Subscription(query("4 s"), select=["a.id as left", "b.id as right"]),
        }
    )
    out = op.process(data)
    assert out["few"].column_names == ["id", "d"] and out["ids"].column_names == ["left", "right"]
    assert 0 < out["few"].num_rows < out["ids"].num_rows < out["all"].num_rows
    assert pc.min(out["few"]["d"]).as_py() > 0
    plain = wr.Operator(query("4 s", "a.k = b.k and a.v > 0.5 and a.v > b.v")).process(data)
    assert sorted(out["few"]["id"].to_pylist()) == sorted(r[0] for r in ids_in_order(plain))
    assert len(op.metrics().joins) == 1


def test_many_rows_and_moving_windows():
    """Windows that are moved and give up rows while a call is processed."""
    queries = {f"q{w}": query(f"{w} s") for w in (1, 3, 20)}
    shared = wr.SharedOperator(queries)
    plain = {name: wr.Operator(q) for name, q in queries.items()}
    for n in range(6):
        call = {"a": rows(2 * n, 3000, 60 * n, keys=300), "b": rows(2 * n + 1, 3000, 60 * n, keys=300)}
        out = shared.process(call)
        for name, op in plain.items():
            assert sorted(ids_in_order(out[name])) == sorted(ids_in_order(op.process(call)))


def test_a_new_query_says_from_when_it_is_complete_and_the_largest_frees_memory():
    op = wr.SharedOperator({"small": query("5 s")})
    for n in range(3):
        op.process({"a": rows(n, 200, 60 * n), "b": rows(10 + n, 200, 60 * n)})
    held = op.metrics().joins[0].window_rows
    op.add("large", query("2 min"), at=190 * SECOND)
    asked = op.metrics().queries["large"]
    assert asked.since == 190 * SECOND
    # Windows of 5 s held rows from about 175 s on: whole after 2 minutes.
    assert 290 * SECOND < asked.complete_from <= 296 * SECOND
    op.add("tiny", query("1 s"))
    tiny = op.metrics().queries["tiny"]
    assert tiny.complete_from == tiny.since, "from now on"
    for n in range(3, 7):
        op.process({"a": rows(n, 200, 60 * n), "b": rows(10 + n, 200, 60 * n)})
    assert op.metrics().joins[0].window_rows > 5 * held
    op.remove("large", at=425 * SECOND)
    assert op.metrics().queries["large"].until == 425 * SECOND
    for n in range(7, 10):
        op.process({"a": rows(n, 200, 60 * n), "b": rows(10 + n, 200, 60 * n)})
    assert "large" not in op.queries
    assert op.metrics().joins[0].window_rows <= 2 * held


def test_counted_windows_grow_and_shrink():
    op = wr.SharedOperator({"small": query("5 rows")})
    for n in range(3):
        op.process({"a": rows(n, 50, 60 * n), "b": rows(10 + n, 50, 60 * n)})
    op.add("large", query("100 rows"))
    assert op.metrics().queries["large"].complete_from > 10**18, "not yet"
    for n in range(3, 8):
        op.process({"a": rows(n, 50, 60 * n), "b": rows(10 + n, 50, 60 * n)})
    assert 240 * SECOND < op.metrics().queries["large"].complete_from < 360 * SECOND
    assert op.metrics().joins[0].window_rows == 200
    op.remove("large")
    for n in (8, 9):
        out = op.process({"a": rows(n, 50, 60 * n), "b": rows(10 + n, 50, 60 * n)})
    assert op.metrics().joins[0].window_rows == 10
    alone = wr.SharedOperator({"small": query("5 rows")})
    outputs = [alone.process({"a": rows(n, 50, 60 * n), "b": rows(10 + n, 50, 60 * n)}) for n in range(10)]
    assert ids_in_order(out["small"]) == ids_in_order(outputs[-1]["small"])


@pytest.mark.parametrize(
    "document, message",
    [
        ('{"add": ', "not JSON"),
        ("[1]", "expected a mapping"),
        ({"ad": {}}, "Did you mean 'add'"),
        ({"at": 1}, "either 'add' or 'remove'"),
        ({"at": "noon", "remove": "two"}, "at: must be an event time"),
        ({"remove": "tow"}, "Did you mean 'two'"),
        ({"add": {"name": "new"}}, "'within' is missing"),
        ({"add": {"name": "two", "within": "1 s", "like": "one"}}, "there is a query 'two' already"),
        ({"add": {"name": "new", "within": "1 s", "like": "onne"}}, "Did you mean 'one'"),
        ({"add": {"name": "new", "within": "9 rows", "like": "one"}}, "different kinds of windows"),
        ({"add": {"name": "new", "within": "1 s", "on": "a.k > b.v"}}, "different predicates"),
        ({"add": {"name": "new", "within": "-1 s", "like": "one"}}, "must be positive"),
        ({"add": {"name": "new", "within": {"c": "1 s"}, "like": "one"}}, "unknown stream 'c'"),
        ({"add": {"name": "new", "within": "1 s", "like": "one", "where": "a.w > 1"}}, "column 'w'"),
        ({"add": {"name": "new", "within": "1 s", "like": "one", "where": "a.v +"}}, "cannot parse"),
        ({"add": {"name": "new", "within": "1 s", "like": "one", "select": "a.k"}}, "must be a list"),
        ({"add": {"name": "new", "within": "1 s", "like": "one", "select": ["a.v + 1"]}}, "needs a name"),
    ],
)
def test_refusals_leave_the_others_running(document, message):
    op = wr.SharedOperator({"one": query("5 s"), "two": query("1 s")})
    data = {"a": rows(1, 50), "b": rows(2, 50)}
    op.process(data)
    with pytest.raises(QueryError, match=message):
        op.control(document)
    assert list(op.queries) == ["one", "two"]
    alone = wr.SharedOperator({"one": query("5 s")})
    alone.process(data)
    later = {"a": rows(3, 50, 60), "b": rows(4, 50, 60)}
    assert ids_in_order(op.process(later)["one"]) == ids_in_order(alone.process(later)["one"])


def test_a_query_added_before_its_columns_are_known_goes_with_a_reason():
    op = wr.SharedOperator({"one": query("5 s"), "two": query("1 s")})
    op.control({"add": {"name": "wrong", "within": "1 s", "where": "a.w > 1"}})
    op.control({"add": {"name": "right", "within": "2 s", "where": "a.v > 0.5"}})
    data = {"a": rows(1, 50), "b": rows(2, 50)}
    out = op.process(data)
    assert list(out) == ["one", "two", "right"]
    assert ids_in_order(out["one"]) == ids_in_order(
        wr.SharedOperator({"one": query("5 s")}).process(data)["one"]
    )
    assert "column 'w'" in op.metrics().control_errors[0] and "control error" in str(op.metrics())


@pytest.mark.parametrize("at, still", [(None, True), (None, False), (30 * SECOND, True)])
def test_a_query_that_is_over_gets_what_was_carried_over(at, still):
    """And what is carried over outlives a restart between the change and the next call, with the deadline or
    without it."""
    queries = {"small": query("1 s"), "large": query("1 min")}
    options = {"schedule": "swf", "deadline": "1 ms", "max_backlog": 10**6, "clock": ticking()}
    op = wr.SharedOperator(queries, **options)
    calls = [{"a": rows(n, 100, 10 * n, 10), "b": rows(20 + n, 100, 10 * n, 10)} for n in range(6)]
    got = [op.process(call)["large"] for call in calls[:3]]
    assert op.metrics().queries["large"].backlog_rows > 0
    op = wr.SharedOperator.restore(queries, op.snapshot(), **options)
    op.remove("large", at)
    now = op.metrics().queries["large"].until
    op.add("large", query("1 s"), now)
    if not still:
        options = {"clock": ticking()}
    op = wr.SharedOperator.restore(queries, op.snapshot(), **options)
    got += [op.process(call)["large"] for call in calls[3:]]
    assert op.metrics().queries["large"].since == now
    first = wr.SharedOperator({"large": queries["large"]})
    second = wr.SharedOperator({"large": query("1 s")})
    want = [first.process(call)["large"] for call in calls[:3]]
    second_only = [second.process(call)["large"] for call in calls]
    after = [t.filter(pc.greater_equal(newest_of(t), now)) for t in second_only]
    assert sorted(flat(got)) == sorted(flat(want) + flat(after if at is None else after[3:]))


def test_a_name_taken_again_with_other_columns_has_those_of_both():
    op = wr.SharedOperator(
        {"x": wr.Subscription(query("5 s"), select=["a.id", "b.v as w"]), "y": query("5 s")}
    )
    op.process({"a": rows(1, 50), "b": rows(2, 50)})
    op.remove("x", at=90 * SECOND)
    op.add("x", wr.Subscription(query("1 s"), select=["a.id", "b.id as other"]), at=90 * SECOND)
    out = op.process({"a": rows(3, 50, 60), "b": rows(4, 50, 60)})
    assert out["x"].column_names == ["id", "w", "other"]
    both = [
        (w is None, other is None)
        for w, other in zip(out["x"]["w"].to_pylist(), out["x"]["other"].to_pylist(), strict=True)
    ]
    assert set(both) == {(False, True), (True, False)} and both == sorted(both)
    wide = sum(t < 90 * SECOND for t in newest_in_order(out["y"]))
    assert both.count((False, True)) == wide


def newest_of(table: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(newest_in_order(table), pa.int64())])


def test_results_are_dealt_once_to_all_who_get_them():
    queries = {
        "one": query("5 s"),
        "two": query("1 s", "a.k = b.k and a.v > 0.3"),
        "ids": wr.Subscription(query("3 s"), select=["a.id"]),
        "same": wr.Subscription(query("2 s"), select=["a.id"]),
    }
    out = wr.SharedOperator(queries).process({"a": rows(1, 200), "b": rows(2, 200)})
    dealt = list(fan_out(out.query_results))
    assert [d.table.num_rows for d in dealt] == [out["one"].num_rows, out["ids"].num_rows]
    for name in queries:
        parts = [
            pa.Table.from_batches([d.table]).filter(pa.array([name in who for who in d.queries.to_pylist()]))
            for d in dealt
        ]
        assert [p for p in parts if p.num_rows] == [out[name].combine_chunks()]


def test_the_last_query_stays():
    op = wr.SharedOperator({"one": query("5 s"), "two": query("1 s")})
    op.remove("one", at=5)
    with pytest.raises(QueryError, match="last query"):
        op.remove("two")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: wr.SharedOperator({}), "at least one"),
        (lambda: wr.SharedOperator({"q": 1}), "expected wr.Query"),
        (lambda: wr.SharedOperator({"q": query("5 s", memory="9 rows")}), "no memory limit"),
        (lambda: wr.SharedOperator({"q": query()}, schedule="gredy"), "Did you mean 'greedy'"),
        (lambda: wr.SharedOperator({"q": query()}, deadline="-1 s"), "must be positive"),
        (lambda: wr.Subscription(query(), select=["a.k", "b.k"]), "two columns are called 'k'"),
        (lambda: wr.Subscription(query(), where=" "), "expected a SQL condition"),
        (lambda: wr.SharedOperator({"q": query()}).process({"c": rows(1, 2)}), "unknown stream 'c'"),
    ],
)
def test_mistakes_are_told(make, message):
    with pytest.raises(QueryError, match=message):
        make()


def test_response_times_under_a_deadline():
    """The small window is served at once, the large one later, and both in full in the end."""
    op = wr.SharedOperator(
        {"small": query("1 s"), "large": query("1 min")},
        "swf",
        deadline="100 ms",
        max_backlog=10**6,
        clock=ticking(),
    )
    for n in range(12):
        op.process({"a": rows(n, 100, 10 * n, 10), "b": rows(20 + n, 100, 10 * n, 10)})
    told = op.metrics().queries
    assert told["large"].backlog_rows > told["small"].backlog_rows == 0
    op.finish()
    told = op.metrics().queries
    assert told["large"].response_mean > told["small"].response_mean
    assert told["large"].response_mean <= told["large"].response_p99 <= told["large"].response_max
    assert "rows behind" not in str(op.metrics())


def test_a_snapshot_of_other_queries_is_refused():
    op = wr.SharedOperator({"one": query("5 s")})
    op.process({"a": rows(1, 50), "b": rows(2, 50)})
    with pytest.raises(wr.StateError, match="other queries"):
        wr.SharedOperator.restore({"one": query("5 s", "a.k < b.k")}, op.snapshot())
    op.add("two", query("9 s"))
    again = wr.SharedOperator.restore({"one": query("5 s")}, op.snapshot())
    assert list(again.queries) == ["one", "two"]
    later = {"a": rows(3, 50, 50), "b": rows(4, 50, 50)}
    mine, theirs = op.process(later), again.process(later)
    assert flat([mine["two"]]) == flat([theirs["two"]])


@pytest.mark.parametrize("kind", ["rows", "rows per key"])
def test_counted_windows_are_carried_over_and_let_go(kind):
    """Small windows first, everything in the end, and windows do not grow for good."""
    queries = {"small": query(f"2 {kind}"), "large": query(f"40 {kind}")}
    op = wr.SharedOperator(queries, "swf", deadline="100 ms", clock=ticking())
    calls = [{"a": rows(n, 200, 10 * n, 10), "b": rows(50 + n, 200, 10 * n, 10)} for n in range(20)]
    outputs, sizes = [], []
    for call in calls:
        outputs.append(op.process(call))
        sizes.append(op.metrics().joins[0].window_rows)
    outputs.append(op.finish())
    for name, asked in queries.items():
        alone = wr.SharedOperator({name: asked})
        want = [alone.process(call)[name] for call in calls]
        assert flat([out[name] for out in outputs]) == flat(want)
    assert max(sizes) < 4000
    assert op.metrics().queries["large"].backlog_rows == 0


@pytest.mark.parametrize("on", ["a.flag = (b.s = 'x')", "(b.s = 'x') = a.flag", "b.s = 'x' = a.flag"])
def test_a_condition_may_be_a_side_of_an_equality(on):
    """However it is written, and in whatever order the shared join has the sides."""
    schema = pa.schema({"ts": pa.timestamp("us"), "s": pa.string(), "flag": pa.bool_()})
    query = wr.Query({alias: wr.Stream("ts", "5 s") for alias in "ab"}, on)
    op = wr.SharedOperator({"q": query}, schemas=dict.fromkeys("ab", schema))
    rows = pa.table([[0, 0], ["x", "y"], [True, False]], schema=schema)
    assert op.process(dict.fromkeys("ab", rows))["q"].num_rows == 2
