"""Control messages: one order for all, one decision in every partition, and nothing they can break."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windrow as wr
from queries import examples
from shared_cases import ids_in_order
from windrow.engine.control import EXPRESSION_DEPTH, MESSAGE_BYTES, REASON_LENGTH, in_order
from windrow.engine.shared import subscribers
from windrow.engine.shared.query_names import QueryNames, Sibling
from windrow.engine.shared.shared_join import SharedJoin
from windrow.engine.shared.state import capture_group, restore_group
from windrow.engine.state import capture
from windrow.errors import DataError, QueryError
from windrow.model.sharing import Subscription
from windrow.model.stateful import encode
from windrow.spark.partition_join import apply_controls

SECOND = 1_000_000
SCHEMA = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us"), "k": pa.int64(), "v": pa.float64()})


def query(within: str = "5 s", **options: Any) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", within) for a in "ab"}, "a.k = b.k", **options)


def rows(rng: np.random.Generator, count: int, start: float, span: float = 10) -> pa.Table:
    times = np.sort(rng.integers(int(start * SECOND), int((start + span) * SECOND), count))
    columns = [rng.integers(0, 1 << 40, count), times, rng.integers(0, 4, count), rng.random(count)]
    return pa.table([pa.array(c) for c in columns], SCHEMA.names).cast(SCHEMA)


def group(names: str = "xyz") -> SharedJoin:
    asked = {name: Subscription(query()) for name in names}
    return SharedJoin(asked, schemas=dict.fromkeys("ab", SCHEMA))


# --- Order -----------------------------------------------------------------------------------------------


def test_messages_of_a_batch_have_one_order():
    remove, add = {"remove": "x"}, {"add": {"name": "x", "within": "1 s"}}
    later = {"seq": 1, "add": {"name": "x", "within": "2 s"}}
    first = {"seq": 0, "remove": "x", "at": 9}
    garbage = "}"
    given = [json.dumps(d) for d in (add, later, first, remove)] + [garbage]
    want = [json.dumps(d) for d in (remove, add, first, later)] + [garbage]
    for seed in range(20):
        Random(seed).shuffle(given)
        assert in_order(given) == want


@pytest.mark.parametrize("at", [None, 3 * SECOND])
def test_remove_and_add_in_one_batch_replaces(at):
    rng = np.random.default_rng(1)
    op = group()
    op.process({"a": rows(rng, 30, 0), "b": rows(rng, 30, 0)})
    when = {} if at is None else {"at": at + 10 * SECOND}
    add = {"name": "x", "within": "1 s", "where": "a.v > 0.5"}
    assert apply_controls(op, (json.dumps({**when, "add": add}), json.dumps({**when, "remove": "x"}))) == ()
    since = op.subscribers.last("x").since
    assert [(m.since, m.until) for m in op.subscribers if m.name == "x"] == [(None, since), (since, None)]
    out = op.process({"a": rows(rng, 30, 10), "b": rows(rng, 30, 10)})
    assert out["x"].num_rows < out["y"].num_rows


# --- One decision in every partition, for every cut ------------------------------------------------------

NAMES = st.sampled_from("xyzuv")
MOMENT = st.integers(0, 60).map(lambda s: s * SECOND)


@st.composite
def messages(draw: st.DrawFn, timed: bool = False) -> str:
    document: dict[str, Any] = {}
    if timed or draw(st.booleans()):
        document["at"] = draw(MOMENT)
    if draw(st.booleans()):
        document["remove"] = draw(NAMES)
    else:
        document["add"] = {"name": draw(NAMES), "within": draw(st.sampled_from(["1 s", "3 s", "9 s"]))}
        if draw(st.booleans()):
            document["add"]["where"] = draw(st.sampled_from(["a.v > 0.5", "a.nothing > 1", "b.v +"]))
    return json.dumps(document)


class Partitions:
    """A join in several partitions, as Spark runs it: every one gets every message, and knows how far all
    streams have come."""

    def __init__(self, count: int) -> None:
        self.ops = [group() for _ in range(count)]
        self.results: Counter = Counter()

    def batch(self, data: dict[str, pa.Table], documents: tuple[str, ...], restart: bool) -> tuple[str, ...]:
        streams = [[op.runner.metrics().streams[a].max_event_time for op in self.ops] for a in "ab"]
        reached = [max((t for t in each if t is not None), default=None) for each in streams]
        told = []
        for p, op in enumerate(self.ops):
            op.runner.advance_event_time(dict(zip("ab", reached, strict=True)))
            told.append(apply_controls(op, documents))
            if restart:
                op = self.ops[p] = restore_group(group(), capture_group(op))
            mine = {a: t.filter(pa.array(t["k"].to_numpy() % len(self.ops) == p)) for a, t in data.items()}
            for name, table in op.process(mine).items():
                self.results.update((name, *pair) for pair in ids_in_order(table))
        assert len(set(told)) == 1, "refused in one partition and not in another"
        rosters = {tuple((m.key, m.since, m.until) for m in op.subscribers) for op in self.ops}
        assert len(rosters) == 1
        return told[0]


@examples(60)
@given(
    st.lists(st.lists(messages(), max_size=4), min_size=3, max_size=6),
    st.integers(0, 2**32),
    st.sampled_from([2, 3, 5]),
)
def test_every_partition_decides_alike_and_results_do_not_depend_on_their_number(batches, seed, count):
    rng = np.random.default_rng(seed)
    # Few rows: most partitions have none in most batches, and come no further by themselves.
    calls = [{a: rows(rng, int(rng.integers(0, 5)), 10 * n) for a in "ab"} for n in range(len(batches))]
    one, many = Partitions(1), Partitions(count)
    for call, documents in zip(calls, batches, strict=True):
        shuffled = list(documents)
        rng.shuffle(shuffled)
        restart = bool(rng.integers(0, 2))
        assert one.batch(call, tuple(documents), False) == many.batch(call, tuple(shuffled), restart)
    assert one.results == many.results


@examples(60)
@given(st.lists(messages(timed=True), max_size=10), st.data(), st.integers(0, 2**32))
def test_decisions_do_not_depend_on_how_messages_are_cut_into_batches(documents, data, seed):
    numbered = [json.dumps({"seq": n, **json.loads(d)}) for n, d in enumerate(documents)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(documents)), max_size=3)))
    rng = np.random.default_rng(seed)
    calls = [{a: rows(rng, 4, 10 * n) for a in "ab"} for n in range(len(cuts) + 1)]
    whole, cut = group(), group()
    refused = list(apply_controls(whole, tuple(numbered)))
    found: list[str] = []
    for call, start, end in zip(calls, [0, *cuts], [*cuts, len(numbered)], strict=True):
        for reason in apply_controls(cut, tuple(reversed(numbered[start:end]))):
            found += [] if reason in found else [reason]
        cut.process(call)
    assert found == refused
    assert encode(cut.names, []) == encode(whole.names, [])


def test_joins_beside_each_other_agree_who_has_a_name():
    """What one refuses, the others must not take for accepted."""
    likes = {"x": query(), "y": query(late="1 s")}
    schemas = dict.fromkeys("ab", SCHEMA)
    ops = []
    for number, (name, like) in enumerate(likes.items()):
        op = SharedJoin({name: Subscription(like), f"{name}2": Subscription(like)}, schemas=schemas)
        op.siblings, op.number = tuple(Sibling(q, schemas) for q in likes.values()), number
        op.names = QueryNames([["x", "x2"], ["y", "y2"]])
        ops.append(op)

    def send(document: dict[str, Any], refused: str | None = None) -> None:
        told = {apply_controls(op, (json.dumps(document),)) for op in ops}
        assert len(told) == 1
        assert refused in told.pop()[0] if refused else told == {()}
        assert len({json.dumps(encode(op.names, [])) for op in ops}) == 1

    new = {"name": "n", "within": "1 s"}
    send({"add": new}, "say which with 'like'")
    send({"add": {**new, "like": "x", "where": "a.nothing > 1"}}, "column 'nothing'")
    send({"at": 5, "add": {**new, "like": "y"}})
    send({"add": {**new, "like": "x"}}, "there is a query 'n' already")
    send({"at": 9, "remove": "n"})
    send({"at": 8, "add": {**new, "like": "x"}}, "there is a query 'n' until")
    send({"at": 9, "add": {**new, "like": "x"}})
    send({"event_time": {"c": 9}}, "unknown stream 'c'")
    assert [[m.name for m in op.subscribers] for op in ops] == [["x", "x2", "n"], ["y", "y2", "n"]]


# --- Nothing they can break ------------------------------------------------------------------------------

DEEP = ["(" * 900 + "a.v" + ")" * 900, "not " * 900 + "a.v > 1", "abs(" * 60 + "a.v" + ")" * 60]
ADD = {"name": "n", "within": "1 s"}
POISON: list[tuple[Any, str]] = [
    ("[" * 200_000, "may have 65536 bytes"),
    ("[" * 1_000, "nested"),
    ('{"at": ' + "9" * 5_000 + ', "remove": "x"}', "not JSON"),
    ({"at": 10**40, "remove": "x"}, "years 1 to 9999"),
    ({"at": "9999-12-31T23:59:59-23:59", "remove": "x"}, "years 1 to 9999"),
    ({"remove": "x" * 10_000}, "at most 200 characters"),
    ({"remove": ["x"]}, "expected a text"),
    ({"add": {**ADD, "within": "9" * 400 + " weeks"}}, "longer than"),
    ({"add": {**ADD, "within": "9" * 5_000 + " rows"}}, "number of rows"),
    ({"add": {**ADD, "within": "4000 days"}}, "at most 366 days"),
    ({"add": {**ADD, "within": [[["1 s"]]]}}, "expected a duration"),
    ({"add": {**ADD, "select": 5}}, "must be a list"),
    ({"add": {**ADD, "select": {"a.v": 1}}}, "must be a list"),
    ({"seq": -1, "remove": "x"}, "seq: must be"),
    ({"seq": 1 << 63, "remove": "x"}, "seq: must be"),
    ({"event_time": {"c": 5}}, "unknown stream 'c'"),
    ({"event_time": 5}, "expected a time per stream"),
    ({"event_time": {"a": 5}, "remove": "x"}, "nothing else"),
    *(({"add": {**ADD, "where": text}}, f"nested {EXPRESSION_DEPTH} deep") for text in DEEP),
    ({"add": {**ADD, "where": "a.v = 1" + " or a.v = 1" * 500}}, "terms in a row"),
    ({"add": {**ADD, "where": "'"}}, "never closed"),
    ("x" * (MESSAGE_BYTES + 1), "bytes"),
    ("\ud800", "not JSON"),
]


@pytest.mark.parametrize(("document", "message"), POISON)
def test_poison_is_refused_with_a_short_reason(document, message):
    shared = wr.SharedOperator({n: query() for n in "xyz"}, schemas=dict.fromkeys("ab", SCHEMA))
    before = shared.snapshot()
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(QueryError, match=message) as told:
        shared.control(text)
    assert len(str(told.value)) <= REASON_LENGTH + 3
    assert shared.snapshot() == before
    op = group()
    assert apply_controls(op, (text,)) == (str(told.value),)


def test_there_are_only_so_many_queries(monkeypatch):
    monkeypatch.setattr(subscribers, "MOST_QUERIES", 5)
    op = group()
    for n in range(2):
        op.control({"add": {"name": f"q{n}", "within": f"{n + 1} s"}})
    with pytest.raises(QueryError, match="at most 5 queries"):
        op.control({"add": ADD})


def test_an_added_query_whose_expression_fails_costs_no_one_else_anything():
    def picky(values: pa.Array) -> pa.Array:
        if any(v > 0.9 for v in values.to_pylist()):
            raise ValueError("more than it takes")
        return pa.array([True] * len(values))

    asked = query(functions={"picky": wr.Function(picky, pa.bool_(), vectorized=True)})
    for added in ({"where": "picky(a.v)"}, {"select": ["a.id", "picky(b.v) as p"]}):
        op = SharedJoin({"x": Subscription(asked)}, schemas=dict.fromkeys("ab", SCHEMA))
        op.control({"add": {**ADD, **added}})
        rng = np.random.default_rng(1)
        data = {"a": rows(rng, 40, 0), "b": rows(rng, 40, 0)}
        out = op.process(data)
        assert out["n"].num_rows == 0 < out["x"].num_rows
        assert "more than it takes" in op.control_errors[0]
        with pytest.raises(DataError, match="more than it takes"):
            len(wr.SharedOperator({"n": Subscription(asked, **added)}).process(data)["n"])


VALID = [
    {"at": 5, "add": {"name": "n", "within": {"a": "1 s", "b": "2 s"}, "where": "a.v > 1"}},
    {"seq": 7, "at": "2026-01-31T12:00:00Z", "remove": "x"},
    {
        "add": {
            "name": "m",
            "within": "3 s",
            "select": ["a.id", "b.v * 2 as w"],
            "like": "y",
            "on": "a.k = b.k",
        }
    },
    {"event_time": {"b": "1970-01-01T00:00:07Z"}},
    {"at": 7, "importance": {"a": "a.v + 1", "b": {"column": "k", "values": [[1, 2.0]], "default": 0.5}}},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from("abxyz"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["at", "add", "remove", "name", "within", "where", "importance", "a", "b", "seq"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid message with something else somewhere, or cut, or with a character changed."""
    document = json.loads(json.dumps(draw(st.sampled_from(VALID))))
    at = document
    while True:
        key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if isinstance(at[key], dict | list) and at[key] and draw(st.booleans()):
            at = at[key]
            continue
        at[key] = draw(JSON | st.text(max_size=30))
        break
    text = json.dumps(document)
    if draw(st.integers(0, 4)) == 0:
        where = draw(st.integers(0, len(text)))
        text = text[:where] + draw(st.text(max_size=2)) + text[where + draw(st.integers(0, 2)) :]
    return text


def subjects() -> list[Any]:
    shed = wr.policies.Importance(by={"a": "a.v"})
    return [
        wr.Operator(query(memory="20 rows", shed=shed), dict.fromkeys("ab", SCHEMA)),
        wr.SharedOperator({n: query() for n in "xyz"}, schemas=dict.fromkeys("ab", SCHEMA)),
        group(),
    ]


@examples(60)
@given(st.lists(mutated() | JSON.map(json.dumps) | st.text(max_size=50), min_size=1, max_size=4))
def test_whatever_comes_is_followed_or_refused_and_never_fails(documents):
    """Nor do rows fail later because of it, and a refused message leaves no trace."""
    for op in subjects():
        rng = np.random.default_rng(3)
        op.process({"a": rows(rng, 20, 0), "b": rows(rng, 20, 0)})
        for document in documents:
            before = _state(op)
            try:
                op.control(document)
            except QueryError as error:
                assert len(str(error)) <= REASON_LENGTH + 3
                assert _state(op) == before
        op.process({"a": rows(rng, 20, 10), "b": rows(rng, 20, 10)})
    apply_controls(group(), tuple(documents))


def _state(op: Any) -> str:
    return repr(
        op.snapshot()
        if not isinstance(op, SharedJoin)
        else (capture(op.runner).metadata, encode(op.names, []))
    )
