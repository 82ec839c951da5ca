"""Set joins through the inverted index: the same answers, less work, bounded memory, clear errors."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
import windrow as wr
from flows import CUTS, Flow, arrivals, flows
from likenesses import LISTS, alike, likenesses, random_list
from queries import Case, examples, play, tiny
from terms import pair
from windrow.engine.age_intervals import FOREVER, AgeIntervals
from windrow.engine.operator import runner_of
from windrow.errors import QueryError
from windrow.expr.split_predicate import split_predicate
from windrow.kernels import inverted_index
from windrow.kernels.probe_index import fresh_state
from windrow.testing.oracle import SECOND, Term
from windrow.window.postings import Postings
from windrow.window.window_store import WindowStore
from windrow_lab.clock import VirtualClock, WorkClock

ROWS = {2: 110, 3: 40}


@st.composite
def set_cases(draw: st.DrawFn, most_streams: int = 3, most_snapshots: int = 3) -> Case:
    """A chain of set conditions, at times with a second condition beside one of them."""
    count = draw(st.integers(2, most_streams))
    aliases = "abc"[:count]
    flow = draw(flows(count))
    tables = {a: flow.table(a, draw(st.integers(ROWS[count] // 2, ROWS[count]))) for a in aliases}
    windows = {a: flow.step * draw(st.sampled_from([2, 5, 20, 10_000])) for a in aliases}
    if draw(st.integers(0, 3)) == 0:
        windows["a"] = (draw(st.sampled_from([3, 10, 1000])), False)
    terms: list[Term] = []
    for a, b in pairwise(aliases):
        terms += draw(likenesses(*draw(st.permutations([a, b]))))
        if draw(st.integers(0, 2)) == 0:
            terms += draw(likenesses(a, b) | st.just([pair("{l} <= {r}", a, b, "i", "i", at_most)]))
    late = draw(st.sampled_from([0, 3 * flow.step]))
    options = {"late": late, "evaluate": draw(st.sampled_from([None, "eager", "every 7 rows"]))}
    calls = draw(arrivals(tables, late, True))
    access = {a: draw(st.sampled_from([None, None, "scan"])) for a in aliases}
    cuts = draw(st.frozensets(st.integers(0, max(0, len(calls) - 1)), max_size=most_snapshots))
    return Case(windows, terms, tables, calls, options, access, cuts)


def at_most(x: int | None, y: int | None) -> bool | None:
    return None if x is None or y is None else x <= y


@examples(25)
@given(set_cases())
def test_equal_to_the_oracle(case: Case) -> None:
    output, measured = case.run()
    assert results.ids(output) == case.answer()
    results.assert_payload(output, case.tables)
    assert measured.results == output.num_rows


@examples(12)
@given(set_cases(), st.sampled_from(["20 rows", "40 rows", "60 KiB"]), st.sampled_from(["age", "random"]))
def test_a_memory_limit_leaves_a_part(case: Case, memory: str, shed: str) -> None:
    output, measured = case.run(memory=memory, shed=shed)
    assert not results.ids(output) - case.answer()
    results.assert_payload(output, case.tables)
    assert measured.results == output.num_rows


@examples(12)
@given(set_cases(), st.sampled_from([50, 400, 1e12]))
def test_a_deadline_leaves_a_part(case: Case, capacity: float) -> None:
    query = case.query(deadline="1 second", shed="harvest")
    clock = WorkClock(VirtualClock(capacity, insertion=0.0))
    schemas = {alias: table.schema for alias, table in case.tables.items()}
    clock.operator = operator = wr.Operator(query, schemas, clock=clock)
    parts = [operator.process(call) for call in case.inputs()]
    found = results.ids(pa.concat_tables([*parts, operator.finish()]))
    assert found == case.answer() if capacity == 1e12 else not found - case.answer()


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("access", [None, "inverted", "scan"])
def test_batch_cuts_with_expiry(cut: int, access: str | None) -> None:
    flow = Flow(seed=5, spread=3, nulls=0.05, nans=0.0, start=0, step=SECOND // 2)
    tables = {alias: flow.table(alias, 100) for alias in "ab"}
    queue = sorted(
        ((t or 0), alias, n)
        for alias, table in tables.items()
        for n, t in enumerate(table["ts"].cast(pa.int64()).to_pylist())
    )
    calls: list[dict[str, list[int]]] = []
    for first in range(0, len(queue), cut):
        call: dict[str, list[int]] = {}
        for _, alias, number in queue[first : first + cut]:
            call.setdefault(alias, []).append(number)
        calls.append(call)
    windows = {"a": 4 * SECOND, "b": 9 * SECOND}
    terms = [alike("a", "b", ("u", "u"), "jaccard", ">=", 0.5)]
    case = Case(windows, terms, tables, calls, access=dict.fromkeys("ab", access))
    output, _ = case.run()
    assert results.ids(output) == case.answer() and output.num_rows > 20


NAN = float("nan")
EDGES: list[tuple[str, pa.DataType, list, list, set]] = [
    (
        "jaccard(a.w, b.w) >= 0.5",
        pa.string(),
        [["p", "q", "p"], [], None, [None]],
        [["p"], [], None],
        {(0, 0)},
    ),
    ("jaccard(a.w, b.w) > 0.5", pa.string(), [["p", "q"], ["p"]], [["p"]], {(1, 0)}),
    ("jaccard(a.w, b.w) >= 0.3", pa.int64(), [list(range(10))], [[0, 1, 2], [0, 1, 2, 10]], {(0, 0)}),
    ("overlap(a.w, b.w) >= 2", pa.float64(), [[0.0, 1.5, NAN]], [[-0.0, 1.5], [NAN, 0.0]], {(0, 0)}),
    ("overlap(a.w, b.w) > 1.5", pa.int8(), [[1, 1, 2], [1, 1]], [[2, 1], [1, 1, 1]], {(0, 0)}),
    ("1 <= overlap(b.w, a.w)", pa.bool_(), [[True], [False, None]], [[True, False], []], {(0, 0), (1, 0)}),
    ("jaccard(a.w, b.w) > 0", pa.string(), [["p"], []], [["p", "q"], []], {(0, 0)}),
    ("jaccard(a.w, b.w) = 0", pa.string(), [["p"], []], [["q"], None], {(0, 0), (1, 0)}),
]


@pytest.mark.parametrize(("on", "kind", "left", "right", "wanted"), EDGES, ids=[e[0] for e in EDGES])
def test_edges(on: str, kind: pa.DataType, left: list, right: list, wanted: set) -> None:
    a, b = (tiny([0.0] * len(x), w=pa.array(x, pa.list_(kind))) for x in (left, right))
    for access in (None, "scan"):
        query = wr.Query({alias: wr.Stream("ts", "5 s", access) for alias in "ab"}, on)
        assert set(play(query, {"a": a, "b": b})) == wanted


# --- The index itself ------------------------------------------------------------------------------------


def random_sets(seed: int, rows: int, tokens: int, longest: int) -> list[list[int]]:
    """Few tokens are frequent, most are rare."""
    rng = Random(seed)
    return [
        sorted({int(tokens * rng.random() ** 3) for _ in range(rng.randint(0, longest))}) for _ in range(rows)
    ]


def packed(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([len(s) for s in sets]), np.array([x for s in sets for x in s], np.int64)


@pytest.mark.parametrize("gone", [0, 1, 40, 99])
def test_postings_joined_are_postings_of_both(gone: int) -> None:
    older, newer = random_sets(1, 100, 50, 8), random_sets(2, 60, 80, 8)
    joined = Postings.of(*packed(older)).after(gone).joined(Postings.of(*packed(newer)))
    whole = Postings.of(*packed(older[gone:] + newer))
    for name in ("tokens", "bounds", "numbers", "starts", "rows"):
        assert getattr(joined, name).tolist() == getattr(whole, name).tolist(), name
    assert joined.nbytes == whole.nbytes


@pytest.mark.parametrize(
    ("measure", "limit"), [("overlap", 1), ("overlap", 4), ("jaccard", 0.3), ("jaccard", 1.0)]
)
@pytest.mark.parametrize(("room", "ordered"), [(1, True), (3, False), (4096, True)])
def test_probing_goes_on_where_it_stopped(measure: str, limit: float, room: int, ordered: bool) -> None:
    """Against all pairs: inside the time bounds, from a first row on, each once, for any size of buffers."""
    probing = random_sets(4, 40, 60, 50)
    stored = random_sets(3, 260, 60, 50) + probing
    rng = np.random.default_rng(0)
    ts = np.sort(rng.integers(0, 100, 310)) if ordered else rng.integers(0, 100, 310)
    oldest, latest = rng.integers(0, 60, 40), rng.integers(40, 100, 40)
    offset, first = 10, 35
    held = Postings.of(*packed(stored))
    sizes, elements = packed(probing)
    starts = np.cumsum(sizes) - sizes
    share = limit if measure == "jaccard" else -1.0
    at_least = 1 if measure == "jaccard" else int(limit)
    counts, touched = np.zeros(300, np.int32), np.empty(300, np.int32)
    out_probe, out_row = np.empty(room, np.int64), np.empty(room, np.int64)
    found, more, state = [], True, fresh_state()
    while more:
        more, written, _ = inverted_index.probe_inverted(
            state, (starts, sizes, elements), oldest, latest, held, offset, ts, first, ordered,
            (at_least, share, False), (counts, touched), out_probe, out_row,
        )  # fmt: skip
        found += zip(out_probe[:written].tolist(), out_row[:written].tolist(), strict=True)
    wanted = set()
    for (i, x), (r, y) in product(enumerate(map(set, probing)), enumerate(map(set, stored))):
        shared, p = len(x & y), offset + r
        enough = shared >= limit if measure == "overlap" else shared / max(1, len(x | y)) >= limit
        if enough and p >= first and oldest[i] <= ts[p] <= latest[i]:
            wanted.add((i, p))
    assert len(found) == len(set(found)) and set(found) == wanted and wanted
    assert not counts.any()


def test_a_window_holds_its_sets_and_no_more() -> None:
    schema = pa.schema({"n": pa.int64(), "w": pa.list_(pa.int64())})

    def read(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        return packed([sorted(set(x)) for x in batch["w"].to_pylist()])

    window = WindowStore(schema, {}, 10 * SECOND, {"w": read})
    bare = WindowStore(schema, {}, 10 * SECOND)
    sizes, last = [], 0
    for k in range(300):
        numbers = list(range(10 * k, 10 * k + 10))
        rows = pa.record_batch({"n": numbers, "w": [[n % 13, n % 7, n] for n in numbers]}, schema)
        for each in (window, bare):
            each.stage(np.array(numbers) * SECOND // 10, {}, rows)
            each.add_staged()
            each.expire((10 * k - 90) * SECOND // 10)
        if k == 200:
            alive = np.arange(len(window)) % 3 > 0
            window.keep(alive)
            bare.keep(alive)
        sizes.append(window.nbytes - bare.nbytes)
        positions = np.arange(window.first, window.end)
        starts, found, elements = window.sets("w", positions)
        kept = window.gather(positions, ["w"])[0].to_pylist()
        got = [elements[a : a + n].tolist() for a, n in zip(starts, found, strict=True)]
        assert got == [sorted(set(x)) for x in kept]
        last = len(kept)
    assert last == 100
    assert 0 < max(sizes[250:]) <= 1.1 * max(sizes[50:200]) <= 100 * last


def test_fewer_ages_cost_less() -> None:
    """Of ten parts of the window by age, the youngest and two others: just their pairs, few postings."""
    rng = Random(9)
    words = pa.array([random_list(rng, "v", 0.0) for _ in range(4000)], LISTS["v"])
    query = wr.Query({a: wr.Stream("ts", "400 s") for a in "ab"}, "overlap(a.v, b.v) >= 3")
    op = wr.Operator(query)
    op.process({"b": tiny([k / 10 for k in range(4000)], v=words), "a": tiny([], v=words[:0])})
    op.process({"a": tiny([399.9, 399.9], v=pa.array([[0, 1, 2, 7], [7, 2, 1]], LISTS["v"]))})
    join = runner_of(op).join
    assert join is not None
    probe, window, found, compared = join.probes[0], join.windows[1], [], []
    parts = ((-FOREVER, 40 * SECOND), (160 * SECOND, 200 * SECOND), (360 * SECOND, FOREVER))
    for ages in (None, AgeIntervals(parts)):
        before = sum(search.comparisons for search in probe.searches)
        looked = probe.run_rows(np.arange(2), (ages,))
        found.append(
            {pair for p in looked for pair in zip(*(p.rows[s].tolist() for s in (0, 1)), strict=True)}
        )
        compared.append(sum(search.comparisons for search in probe.searches) - before)
    part = (399_900_000 - window.ts) // (40 * SECOND)
    assert found[1] == {(i, p) for i, p in found[0] if part[p] in (0, 4, 9)}
    assert len(found[1]) > 50 and 0 < compared[1] < 0.4 * compared[0]


# --- Plans and errors ------------------------------------------------------------------------------------

SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "x": pa.float64(), "w": LISTS["u"]})


def steps(on: str, **access: str) -> list[str]:
    query = wr.Query({a: wr.Stream("ts", "5 s", access.get(a)) for a in "ab"}, on)
    plan = wr.explain(query, dict.fromkeys("ab", SCHEMA)).plan
    return [f"{step.access}: {line.split('[')[0].split('-> ')[1].strip()}" for step, line in zip(
        (s for d in plan.directions for s in d.steps),
        (line for line in str(plan).splitlines() if "->" in line),
        strict=True,
    )]  # fmt: skip


def test_plans_print_the_path() -> None:
    on = "jaccard(a.w, b.w) >= 0.5"
    assert steps(on)[0] == "inverted: b by inverted on JACCARD(a.w, b.w) >= 0.5"
    assert steps(on, b="scan")[0] == "scan: b by scan, then check JACCARD(a.w, b.w) >= 0.5"
    both = f"a.k = b.k and {on}"
    assert steps(both)[0] == "hash: b by hash on b.k = a.k, then check JACCARD(a.w, b.w) >= 0.5"
    assert steps(both, b="inverted")[0].startswith("inverted: b by inverted on JACCARD")
    assert steps(f"abs(a.x - b.x) < 1 and {on}")[0].startswith("sorted: b by sorted on ABS")
    assert steps(f"a.x < b.x and {on}")[0].startswith("inverted")


NOT_FOUND_BY_TOKENS = [
    "jaccard(a.w, b.w) >= 0",
    "jaccard(a.w, b.w) > 1.5",
    "jaccard(a.w, b.w) < 0.5",
    "overlap(a.w, b.w) >= 0",
    "overlap(a.w, b.w) >= a.k",
    "not overlap(a.w, b.w) >= 1",
    "cosine(a.v, b.v) >= 0.5",
]


@pytest.mark.parametrize("on", NOT_FOUND_BY_TOKENS)
def test_what_no_token_finds_is_refused(on: str) -> None:
    schema = SCHEMA.append(pa.field("v", pa.list_(pa.float64())))
    query = wr.Query({"a": wr.Stream("ts", "5 s"), "b": wr.Stream("ts", "5 s", "inverted")}, on)
    with pytest.raises(
        QueryError, match=r"stream 'b': an inverted path needs .* use 'hash', 'sorted' or 'scan'"
    ):
        wr.Operator(query, dict.fromkeys("ab", schema))


def test_own_functions_win() -> None:
    schemas = dict.fromkeys("ab", SCHEMA)
    own: dict[str, Any] = {"jaccard": wr.Function(lambda x, y: 1.0, pa.float64())}
    assert split_predicate("jaccard(a.w, b.w) > 0.5", schemas, {}).sets_of(0)
    assert not split_predicate("jaccard(a.w, b.w) > 0.5", schemas, own).sets_of(0)


def test_an_unknown_path_names_the_known_ones() -> None:
    with pytest.raises(QueryError, match="Did you mean 'inverted'"):
        wr.Query({a: wr.Stream("ts", "5 s", "invertd") for a in "ab"}, "overlap(a.w, b.w) >= 1")
