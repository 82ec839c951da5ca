"""Plans: what is chosen, how it prints, and that it is revised when the streams change."""

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr

SECOND = 1_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


def plan(on: str, access=None, **options) -> wr.types.Plan:
    aliases = sorted({part[0] for part in on.replace("(", " ").split() if part[1:2] == "."})
    streams = {a: wr.Stream("ts", "10 s", (access or {}).get(a)) for a in aliases}
    query = wr.Query(streams, on=on, **options)
    return wr.explain(query, dict.fromkeys(aliases, SCHEMA), rates={"a": 10.0}).plan


def steps(plan: wr.types.Plan) -> list[str]:
    return [line.strip().split("  [")[0] for line in str(plan).splitlines() if "->" in line]


GOLDEN = {
    "a.k = b.k": ["-> b by hash on b.k = a.k", "-> a by hash on a.k = b.k"],
    "abs(a.x - b.x) <= 2 and a.k <> b.k": [
        "-> b by sorted on ABS(a.x - b.x) <= 2.0, then check ABS(a.x - b.x) <= 2.0 and a.k <> b.k",
        "-> a by sorted on ABS(a.x - b.x) <= 2.0, then check ABS(a.x - b.x) <= 2.0 and a.k <> b.k",
    ],
    "a.x < b.x": [
        "-> b by scan on a.x < b.x, then check a.x < b.x",
        "-> a by scan on a.x < b.x, then check a.x < b.x",
    ],
    "length(a.s || b.s) > 3": [
        "-> b by scan, then check LENGTH(a.s || b.s) > 3",
        "-> a by scan, then check LENGTH(a.s || b.s) > 3",
    ],
    "a.k = b.k and a.s = b.s": [
        "-> b by hash on b.k = a.k and b.s = a.s, then check b.k = a.k and b.s = a.s",
        "-> a by hash on a.k = b.k and a.s = b.s, then check a.k = b.k and a.s = b.s",
    ],
}


@pytest.mark.parametrize("on", GOLDEN)
def test_plan_prints_what_each_step_does(on):
    assert steps(plan(on)) == GOLDEN[on]


def test_equalities_reach_across_a_chain():
    """a and c are not compared in the text, but through b they are: each can be probed from the other."""
    found = plan("a.k = b.k and b.k = c.k", order=("a", "c", "b"))
    assert steps(found)[:2] == ["-> c by hash on c.k = a.k", "-> b by hash on b.k = a.k"]


def test_asked_for_paths_are_taken():
    found = plan("a.k = b.k", access={"a": "sorted", "b": "hash(30)"})
    assert steps(found) == ["-> b by hash(30) on b.k = a.k", "-> a by sorted on a.k = b.k"]


def test_given_orders_are_followed():
    found = plan("a.k = b.k and b.k = c.k", order={"a": ("c", "b"), "b": ("b", "c", "a"), "c": ("a", "b")})
    assert found.orders == {"a": ("a", "c", "b"), "b": ("b", "c", "a"), "c": ("c", "a", "b")}


def test_naive_follows_one_order_and_says_so():
    found = plan("a.k = b.k and b.k = c.k", order=("a", "b", "c"), algorithm="naive")
    assert set(found.orders.values()) == {("a", "b", "c")}
    assert "start from the whole window of a" in str(found)


def test_expectations_follow_the_cost_model():
    """10 rows/s of a meet 10 rows of b with 10 values each: one match a row; and the other way round."""
    streams = {"a": wr.Stream("ts", "1 s"), "b": wr.Stream("ts", "1 s")}
    found = wr.explain(
        wr.Query(streams, on="a.k = b.k"),
        {"a": SCHEMA, "b": SCHEMA},
        rates={"a": 10.0, "b": 10.0},
        distinct={"a.k": 10.0, "b.k": 10.0},
    ).plan
    assert found.results == pytest.approx(20.0)
    assert found.comparisons == pytest.approx(20.0)


def test_orders_are_revised_when_the_streams_change():
    """b is rare at first and c frequent; then they change places, and so do their turns."""
    query = wr.Query(
        {a: wr.Stream("ts", "10 s") for a in "abc"}, on="a.k = b.k and a.k = c.k", order="low-selectivity"
    )
    op = wr.Operator(query)
    random = np.random.default_rng(0)

    def part(second: int, values: int, rows: int) -> pa.Table:
        ts = second * SECOND + np.sort(random.integers(0, SECOND, rows))
        return pa.table({"ts": pa.array(ts, pa.timestamp("us")), "k": random.integers(0, values, rows)})

    for second in range(20):
        op.process({"a": part(second, 50, 50), "b": part(second, 1000, 50), "c": part(second, 50, 50)})
    before = op.plan.orders["a"]
    for second in range(20, 60):
        op.process({"a": part(second, 50, 50), "b": part(second, 50, 50), "c": part(second, 1000, 50)})
    assert before == ("a", "b", "c")
    assert op.plan.orders["a"] == ("a", "c", "b")
    assert op.metrics().replans >= 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rates": {"x": 1.0}}, "unknown stream 'x'"),
        ({"schemas": {"a": SCHEMA}}, "schema of stream 'b' is missing"),
    ],
)
def test_explain_refuses_what_it_does_not_know(change, words):
    query = wr.Query({a: wr.Stream("ts", "1 s") for a in "ab"}, on="a.k = b.k")
    with pytest.raises(wr.QueryError, match=words):
        wr.explain(query, **{"schemas": {"a": SCHEMA, "b": SCHEMA}} | change)
