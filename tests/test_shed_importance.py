"""IJOIN, GREEDY and SIZE: against the paper's pseudocode, and what importance may and may not be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.errors import DataError, QueryError
from windrow.model.importance import By, Greedy, Importance, Lookup, Size, by_to_plain, check_by
from windrow.model.policies import Fifo, UntilExpiry
from windrow.model.policy import Policy
from windrow.shed.schedule import Schedule
from windrow.shed.worth import ValuedRanking

SECOND = 1_000_000
SPAN = 20
PLAIN: Any = {"split": "equal", "monitor": 0.0}


def feeds(aliases: str, rows: int, keys: int = 6, seed: int = 0, start: int = 0) -> dict[str, pa.Table]:
    """Rows of each stream at random times, about one a second, each with an importance of its own."""
    rng = np.random.default_rng(seed)
    tables = {}
    for alias in aliases:
        ts = start * SECOND + np.sort(rng.integers(0, rows * SECOND, rows))
        key = (keys * rng.random(rows) ** 2).astype(np.int64)
        columns = {"ts": pa.array(ts, pa.timestamp("us")), "k": key, "imp": rng.uniform(1, 100, rows)}
        tables[alias] = pa.table(columns)
    return tables


def query(aliases: str, memory: int | None, shed: Policy, within: int = SPAN, **more: object) -> wr.Query:
    streams = {alias: wr.Stream("ts", f"{within} seconds") for alias in aliases}
    on = " and ".join(f"{aliases[0]}.k = {alias}.k" for alias in aliases[1:])
    limit = None if memory is None else f"{memory} rows"
    return wr.Query(streams, on=on, memory=limit, shed=shed, **more)


def by(aliases: str) -> By:
    return {alias: f"{alias}.imp" for alias in aliases}


# --- Against the paper's pseudocode ----------------------------------------------------------------------


@dataclass
class Stored:
    """A row with the metadata of s. 4.2."""

    ts: float
    k: int
    imp: float
    matches: list[float]
    prevmatch: float
    rp: float
    gone: float = math.inf


def ijoin(policy: Importance) -> Callable[[list[Stored], float, int], Stored]:
    """Algorithm 2."""
    tau, delta = (float(value) / SECOND for value in (policy.maturity, policy.unproductive))

    def choose(rows: list[Stored], now: float, decision: int) -> Stored:
        if policy.recompute == "successive" or decision % policy.k == 1:
            for row in rows:
                local = sum(math.exp(-policy.decay * (now - t)) for t in row.matches)
                row.rp = row.imp * local / max(now - row.ts, 1e-6)
                if now - row.prevmatch >= delta:
                    row.rp -= policy.penalty * (now - row.prevmatch)
        mature = [row for row in rows if now - row.ts > tau]
        return min(mature, key=lambda row: (row.rp, row.ts)) if mature else min(rows, key=lambda row: row.ts)

    return choose


def greedy(rows: list[Stored], now: float, decision: int) -> Stored:
    return min(rows, key=lambda row: (row.imp, -row.ts))


def size(rows: list[Stored], now: float, decision: int) -> Stored:
    return min(rows, key=lambda row: (len(row.matches), row.ts))


def by_the_book(
    tables: dict[str, pa.Table], slots: int, choose: Callable[[list[Stored], float, int], Stored]
) -> tuple[int, float, float]:
    """Results, their total importance (least of the rows) and Jain's index, one row at a time."""
    coming = {
        alias: list(zip(table["ts"].cast(pa.int64()).to_numpy() / SECOND, table.to_pylist(), strict=True))
        for alias, table in tables.items()
    }
    order = sorted((t, s, n) for s, alias in enumerate(coming) for n, (t, _) in enumerate(coming[alias]))
    aliases = list(coming)
    held: dict[str, list[Stored]] = {alias: [] for alias in aliases}
    following = dict.fromkeys(aliases, 0)
    decisions = dict.fromkeys(aliases, 0)
    lives: list[float] = []
    results, total = 0, 0.0
    for now, s, n in order:
        alias = aliases[s]
        following[alias] = n
        ahead = {a: coming[a][min(following[a], len(coming[a]) - 1)][0] for a in aliases}
        for a in aliases:
            horizon = min(ahead[o] for o in aliases if o != a) - SPAN
            lives += [SPAN] * sum(row.ts < horizon for row in held[a])
            held[a] = [row for row in held[a] if row.ts >= horizon]
        data = coming[alias][n][1]
        new = Stored(now, data["k"], data["imp"], [], now, data["imp"])
        held[alias].append(new)
        following[alias] = n + 1
        others = [[row for row in held[a] if row.k == new.k] for a in aliases if a != alias]
        for match in product([new], *others):
            if max(row.ts for row in match) - min(row.ts for row in match) > SPAN:
                continue
            results, total = results + 1, total + min(row.imp for row in match)
            for row in match:
                row.matches.append(now)
                row.prevmatch = now
        if len(held[alias]) > slots:
            decisions[alias] += 1
            gone = choose(held[alias], now, decisions[alias])
            held[alias].remove(gone)
            lives.append(now - gone.ts)
    fairness = sum(lives) ** 2 / (len(lives) * sum(life**2 for life in lives))
    return results, total, fairness


IJOIN = Importance(maturity="1 second", unproductive="3 seconds", penalty=2.0, decay=0.1, **PLAIN)


@pytest.mark.parametrize("aliases", ["ab", "abc"])
@pytest.mark.parametrize(
    ("policy", "choose"),
    [
        (IJOIN, ijoin(IJOIN)),
        (replace(IJOIN, recompute="k-successive", k=4), ijoin(replace(IJOIN, recompute="k-successive", k=4))),
        (replace(IJOIN, decay=0.0, penalty=0.0), ijoin(replace(IJOIN, decay=0.0, penalty=0.0))),
        (Greedy(**PLAIN), greedy),
        (Size(**PLAIN), size),
    ],
    ids=["ijoin", "k-successive", "global", "greedy", "size"],
)
def test_eager_is_the_papers_algorithm(aliases: str, policy: Policy, choose: Callable) -> None:
    if not isinstance(policy, Size):
        policy = replace(policy, by=by(aliases))
    for seed in range(2):
        tables = feeds(aliases, 70, seed=seed)
        operator = wr.Operator(query(aliases, 5 * len(aliases), policy, evaluate="eager"))
        found = operator.process(tables)
        quality = operator.measure().quality
        importance = sum(min(row[a]["imp"] for a in aliases) for row in found.to_pylist())
        results, total, fairness = by_the_book(tables, 5, choose)
        assert (found.num_rows, importance) == (results, pytest.approx(total))
        assert quality.fairness == pytest.approx(fairness, rel=1e-6)
        if not isinstance(policy, Size):
            assert quality.importance == pytest.approx(total)


def test_nobody_is_mature_so_the_oldest_go() -> None:
    tables = feeds("ab", 80)
    policies = (Fifo(**PLAIN), Importance(by=by("ab"), maturity="1 hour", **PLAIN))
    first, second = (wr.Operator(query("ab", 10, p, evaluate="eager")).process(tables) for p in policies)
    assert first.num_rows
    assert first.equals(second)


def test_an_unproductive_row_goes_and_may_redeem_itself() -> None:
    """Both rows of `a` match at once, and then one of them no more: it is the one to go, though it is the
    more important, unless it matches again."""
    policy = replace(IJOIN, by={"a": "a.imp"}, penalty=10.0, unproductive="3 seconds")

    def kept(redeemed: bool) -> list[int]:
        operator = wr.Operator(query("ab", 4, policy, evaluate="eager"))
        b_keys = [1, 2, 2, 2, 1 if redeemed else 2, 2]
        a = {"ts": [0, 0, 6], "k": [1, 2, 3], "imp": [30.0, 10.0, 1.0]}
        b = {"ts": [1, 1, 2, 3, 4, 5], "k": b_keys, "imp": [1.0] * 6}
        operator.process({alias: timed(table) for alias, table in (("a", a), ("b", b))})
        return held(operator, "a")["k"].to_pylist()

    assert kept(redeemed=False) == [2, 3]
    assert kept(redeemed=True) == [1, 3]


# --- Batches ---------------------------------------------------------------------------------------------


def timed(columns: dict[str, list[Any]]) -> pa.Table:
    """A table with `ts` given in seconds."""
    return pa.table(columns | {"ts": pa.array([int(t * SECOND) for t in columns["ts"]], pa.timestamp("us"))})


def held(operator: wr.Operator, alias: str) -> pa.Table:
    join = operator._join
    assert join is not None
    return join.windows[list(operator.query.streams).index(alias)].live_payload()


def ranking(operator: wr.Operator) -> ValuedRanking:
    join = operator._join
    assert join is not None and join.shedder is not None
    found = join.shedder.ranking
    assert isinstance(found, ValuedRanking)
    return found


def view(operator: wr.Operator, stream: int) -> Any:
    join = operator._join
    assert join is not None and join.shedder is not None
    return join.shedder._view(join, stream)


@pytest.mark.parametrize("evaluate", ["eager", "every 7 rows", "every 1000 rows"])
def test_matches_fade_the_same_in_batches(evaluate: str) -> None:
    """Eq. 7, however many rows are taken in at once."""
    tables = feeds("ab", 60, seed=3)
    operator = wr.Operator(query("ab", 1000, replace(IJOIN, by=by("ab")), evaluate=evaluate))
    operator.process(tables)
    now = max(int(t["ts"].cast(pa.int64()).to_numpy().max()) for t in tables.values()) / SECOND
    ts, k = ([t[name].to_numpy() for t in tables.values()] for name in ("ts", "k"))
    ts = [t.astype("datetime64[us]").astype(np.int64) / SECOND for t in ts]
    for stream in (0, 1):
        notes = view(operator, stream).notes
        other = 1 - stream
        found = view(operator, stream).ts / SECOND
        for place, row in enumerate(np.searchsorted(ts[stream], found)):
            pairs = (k[other] == k[stream][row]) & (np.abs(ts[other] - ts[stream][row]) <= SPAN)
            times = np.maximum(ts[other][pairs], ts[stream][row])
            faded = notes["matches"][place] * math.exp(-0.1 * (now - notes["matched"][place] / SECOND))
            assert faded == pytest.approx(np.exp(-0.1 * (now - times)).sum())


@pytest.mark.parametrize(
    "shed", [replace(IJOIN, by=by("ab")), Greedy(by=by("ab"), **PLAIN), Importance(by=by("ab"))]
)
def test_batches_keep_what_is_important(shed: Policy) -> None:
    tables = feeds("ab", 1500, keys=200)
    fifo = wr.Operator(query("ab", 160, Fifo(**PLAIN), within=300))
    important = wr.Operator(query("ab", 160, shed, within=300))
    plain = fifo.process(tables).to_pylist()
    important.process(tables)
    total = important.measure().quality.importance
    assert total is not None
    assert total > 1.02 * sum(min(row["a"]["imp"], row["b"]["imp"]) for row in plain)


# --- What results are worth ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("combine", "worth"),
    [
        ("min", lambda a, b: min(a, b)),
        ("max", lambda a, b: max(a, b)),
        ("sum", lambda a, b: a + b),
        ("product", lambda a, b: a * b),
        ("mean", lambda a, b: (a + b) / 2),
    ],
)
@pytest.mark.parametrize("shed", [Greedy, Importance])
def test_importance_of_results(shed: type[Any], combine: str, worth: Callable[[float, float], float]) -> None:
    """Stream c has no importance of its own and leaves that of a result as it is."""
    policy = shed(by={"a": "a.imp", "b": "2 * b.imp"}, combine=combine)
    operator = wr.Operator(query("abc", 30, policy))
    found = operator.process(feeds("abc", 150))
    assert found.num_rows
    total = sum(worth(row["a"]["imp"], 2 * row["b"]["imp"]) for row in found.to_pylist())
    assert operator.measure().quality.importance == pytest.approx(total)


def test_all_equally_important() -> None:
    operator = wr.Operator(query("ab", 20, Importance()))
    found = operator.process(feeds("ab", 200))
    quality = operator.measure().quality
    assert quality.importance == found.num_rows
    assert quality.importance_recall == quality.recall < 1


def test_the_recall_of_importance_is_known() -> None:
    tables = [feeds("ab", 600, keys=20, seed=n, start=600 * n) for n in range(5)]
    described = query("ab", 100, Importance(by=by("ab"), monitor=0.2), within=200)
    limited, exact = wr.Operator(described), wr.Operator(replace(described, memory=None))
    true = 0.0
    for batch in tables:
        limited.process(batch)
        true += sum(min(row["a"]["imp"], row["b"]["imp"]) for row in exact.process(batch).to_pylist())
    quality = limited.measure().quality
    assert quality.importance is not None and quality.importance_recall is not None
    share = quality.importance / true
    assert share < 0.7
    assert quality.importance_recall == pytest.approx(share, rel=0.15)
    assert quality.importance_low < quality.importance_recall < quality.importance_high  # type: ignore[operator]
    assert quality.importance_recall > quality.recall


def test_lookup_and_expression_agree() -> None:
    tables = feeds("ab", 150)
    table = Lookup("k", {0: 5.0, 2: 1}, default=0.5)
    text = "case when {0}.k = 0 then 5.0 when {0}.k = 2 then 1.0 else 0.5 end"
    given = dict.fromkeys("ab", table), {a: text.format(a) for a in "ab"}
    first, second = (wr.Operator(query("ab", 12, replace(IJOIN, by=b), evaluate="eager")) for b in given)
    assert first.process(tables).equals(second.process(tables))
    assert first.measure().quality.importance == second.measure().quality.importance


def test_null_and_nan_count_as_unimportant() -> None:
    operator = wr.Operator(query("ab", 100, Greedy(by="a.imp", monitor=0.0)))
    a = {"ts": [0, 1, 2, 3], "k": [1, 1, 1, 1], "imp": pa.array([None, math.nan, 3.0, 0.0])}
    operator.process({"a": timed(a), "b": timed({"ts": [4], "k": [1], "imp": [1.0]})})
    quality = operator.measure().quality
    assert (quality.importance, quality.importance_missing) == (3.0, 2)


@pytest.mark.parametrize("value", [-5.0, math.inf])
def test_negative_and_infinite_importance_is_refused(value: float) -> None:
    operator = wr.Operator(query("ab", 100, Greedy(by="b.imp - 1")))
    rows = timed({"ts": [0, 1], "k": [1, 1], "imp": [1.0, value]})
    with pytest.raises(
        DataError, match=r"stream 'b': importance must be a number from 0, got (-6|inf) of b.imp - 1"
    ):
        operator.process({"a": rows, "b": rows})


# --- Wrong from the start --------------------------------------------------------------------------------

SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "imp": pa.float64(), "text": pa.string()})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("b.imq", "stream 'b': unknown column 'imq'. Did you mean 'imp'"),
        ("b.text", "expected a number, got 'b.text' of type string"),
        ("b.imp > 1", "expected a number, got 'b.imp > 1' of type bool"),
        ("a.imp + b.imp", "speaks of the streams a, b; give one expression for each"),
        ("1 + 1", "names no column"),
        ("imp", "column 'imp' names no stream"),
        ("b.imp +", "cannot parse"),
        ("sum(b.imp)", "needs many rows"),
        ({"x": "b.imp"}, "unknown stream 'x'"),
        ({"a": "b.imp"}, "of 'a': 'b.imp' speaks of stream 'b'"),
        ({"a": Lookup("imq", {1: 2})}, "stream 'a': unknown column 'imq'"),
        ({"a": Lookup("k", {"x": 2})}, r"column 'k' is int64, its values cannot be \['x'\]"),
    ],
)
@pytest.mark.parametrize("shed", [Greedy, Importance])
def test_wrong_importance_is_told_before_any_row(shed: type[Any], given: Any, message: str) -> None:
    described = query("ab", 10, shed(by=given))
    with pytest.raises(QueryError, match=message) as told:
        wr.Operator(described, dict.fromkeys("ab", SCHEMA))
    assert str(told.value).startswith(f"shed {shed.name}: by")


def test_wrong_initial_priority_is_told_as_such() -> None:
    with pytest.raises(QueryError, match="shed importance: initial: expected a number"):
        wr.Operator(query("ab", 10, Importance(initial="a.text")), dict.fromkeys("ab", SCHEMA))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"combine": "least"}, "unknown combine 'least'"),
        ({"recompute": "sucessive"}, "Did you mean 'successive'"),
        ({"maturity": "-2 seconds"}, "maturity must not be negative"),
        ({"maturity": "soon"}, "maturity: expected a duration"),
        ({"unproductive": "3 parsecs"}, "unproductive: unknown unit"),
        ({"penalty": -1.0}, "penalty must be a number from 0"),
        ({"decay": math.inf}, "decay must be a number from 0"),
        ({"initial": math.nan}, "initial must be finite"),
        ({"k": 0}, "k must be a number from 1"),
        ({"tolerance": 1.0}, "tolerance must be from 0"),
        ({"by": 3}, "expected an expression such as 'b.price'"),
        ({"by": {}}, "expected an expression such as 'b.price'"),
        ({"by": {"a": 3}}, "by of 'a': expected an expression or wr.Lookup"),
    ],
)
def test_parameters_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Importance(**options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": -1.0}, "from 0, got -1.0 for 'x'"),
        ({"x": "much"}, "got 'much' for 'x'"),
        ({(1,): 1.0}, "got \\(1,\\)"),
    ],
)
def test_tables_that_make_no_sense(values: dict[Any, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Lookup("k", values)


# --- Another importance, while it runs -------------------------------------------------------------------


def test_a_new_function_holds_from_its_time_on() -> None:
    """Rows held are judged anew, and results from then on."""
    operator = wr.Operator(query("ab", 100, Greedy(by="a.imp", monitor=0.0), evaluate="eager"))
    first = timed({"ts": [0, 1], "k": [1, 2], "imp": [3.0, 4.0]})
    operator.process({"a": first, "b": first.slice(0, 0)})
    ranking(operator).change(5 * SECOND, {"a": "10 * a.imp", "b": Lookup("k", {1: 7.0})})
    operator.process({"a": first.slice(0, 0), "b": timed({"ts": [4, 5], "k": [1, 1], "imp": [0.0, 0.0]})})
    assert ranking(operator).total == 3.0 + min(30.0, 7.0)
    assert view(operator, 0).notes["importance"].tolist() == [30.0, 40.0]
    assert view(operator, 1).notes["importance"].tolist() == [7.0, 7.0]


def test_of_several_functions_the_newest_holds_that_is_due() -> None:
    operator = wr.Operator(query("ab", 100, Greedy(by="a.imp", monitor=0.0), evaluate="eager"))
    rows = timed({"ts": [0], "k": [1], "imp": [1.0]})
    operator.process({"a": rows, "b": rows.slice(0, 0)})
    for at, factor in ((6, 300), (2, 100), (3, 200), (3, 250)):
        ranking(operator).change(at * SECOND, f"{factor} * a.imp")
    seen = []
    for time in (1, 2, 4, 7):
        operator = wr.Operator.restore(operator.query, operator.snapshot())
        operator.process({"a": rows.slice(0, 0), "b": timed({"ts": [time], "k": [9], "imp": [0.0]})})
        seen.append(view(operator, 0).notes["importance"].tolist())
    assert seen == [[1.0], [100.0], [250.0], [300.0]]


def test_a_wrong_new_function_changes_nothing() -> None:
    operator = wr.Operator(query("ab", 10, Importance(by="a.imp")), dict.fromkeys("ab", SCHEMA))
    with pytest.raises(QueryError, match="shed importance: by: stream 'a': unknown column 'imq'"):
        ranking(operator).change(0, "a.imq")
    operator.process(
        {
            alias: table.append_column("text", pa.nulls(50, pa.string()))
            for alias, table in feeds("ab", 50).items()
        }
    )


def test_functions_travel_as_json() -> None:
    given = {"a": "a.imp", "b": Lookup("k", {1: 2.0, "x": 3, 0.5: 1}, default=4.0)}
    assert check_by(by_to_plain(check_by(given, "by")), "by") == check_by(given, "by")
    spelled = {"b": {"column": "k", "values": {"x": 3.0}}}
    assert check_by(spelled, "by") == {"b": Lookup("k", {"x": 3.0})}


@pytest.mark.parametrize("recompute", ["successive", "k-successive", "adaptive"])
def test_a_restored_operator_goes_on_the_same(recompute: str) -> None:
    policy = Importance(by={"a": "a.imp", "b": Lookup("k", {0: 5.0}, default=1.0)}, recompute=recompute)
    described = query("ab", 40, policy, seed=3)
    whole, parts = wr.Operator(described), wr.Operator(described)
    for number in range(8):
        tables = feeds("ab", 60, seed=number, start=60 * number)
        parts = wr.Operator.restore(described, parts.snapshot())
        assert parts.process(tables).equals(whole.process(tables))
        assert parts.measure().quality == whole.measure().quality
        if number == 3:
            for operator in (whole, parts):
                ranking(operator).change(400 * SECOND, {"b": "b.imp"})
    assert whole.measure().rows_shed


# --- Fairness --------------------------------------------------------------------------------------------


def every_second(seconds: int) -> dict[str, pa.Table]:
    table = timed({"ts": list(range(seconds)), "k": [0] * seconds, "imp": [1.0] * seconds})
    return {"a": table, "b": table}


@pytest.mark.parametrize("monitor", [0.0, 0.3])
def test_fifo_is_fair(monitor: float) -> None:
    """Rows that stay only to be watched do not count as kept."""
    operator = wr.Operator(query("ab", 20, Fifo(split="equal", monitor=monitor), evaluate="eager"))
    operator.process(every_second(200))
    assert operator.measure().quality.fairness == pytest.approx(1.0, abs=0.05 if monitor else 1e-9)


def test_what_is_never_let_in_is_not() -> None:
    """5 of 20 or 21 rows stay for 20 seconds, the others for none; Jain's index is the part that stays."""
    operator = wr.Operator(query("ab", 10, UntilExpiry(**PLAIN), evaluate="eager"))
    operator.process(every_second(300))
    fairness = operator.measure().quality.fairness
    assert fairness is not None and 5 / 22 < fairness < 5 / 20


def test_without_eviction_all_stay_equally_long() -> None:
    operator = wr.Operator(query("ab", 1000, Greedy(), evaluate="every 50 rows"))
    operator.process(every_second(200))
    assert operator.measure().quality.fairness == 1.0


# --- When priorities are computed ------------------------------------------------------------------------


def test_schedules_count() -> None:
    assert [Schedule("successive", 3, 0.1, 1).due(0) for _ in range(3)] == [True] * 3
    every_third = Schedule("k-successive", 3, 0.1, 2)
    assert [every_third.due(n % 2) for n in range(12)] == [True, True, *[False] * 4, True, True, *[False] * 4]
    assert every_third.recomputed == 4
    assert [Schedule("k-successive", 1, 0.1, 1).due(0) for _ in range(3)] == [True] * 3


def test_adaptive_computes_when_results_get_worse() -> None:
    schedule = Schedule("adaptive", 10, 0.1, 1)
    due = []
    for importance in [10.0] * 40 + [20.0] * 40 + [0.0] * 10:
        schedule.evaluated(importance)
        due.append(schedule.due(0))
    assert due[0] and not any(due[1:80])
    assert 3 <= sum(due[80:]) <= 7


@pytest.mark.parametrize(("recompute", "share"), [("successive", 1.0), ("k-successive", 0.1)])
def test_recomputations_are_told(recompute: str, share: float) -> None:
    operator = wr.Operator(query("ab", 10, replace(IJOIN, recompute=recompute), evaluate="eager"))
    operator.process(every_second(200))
    measured = operator.measure()
    assert measured.quality.recomputations == pytest.approx(share * measured.rows_shed, abs=2)


# --- Parameters that are not given -----------------------------------------------------------------------


def test_thresholds_follow_memory_and_rates() -> None:
    """5 rows of each stream at one a second: two seconds to mature, as in the paper's Table 5."""
    for memory, rate, wanted in ((10, 1, 2.0), (20, 1, 4.0), (20, 4, 1.0)):
        policy = Importance(by=by("ab"), **PLAIN)
        operator = wr.Operator(query("ab", memory, policy, evaluate="eager"))
        table = timed({"ts": [n / rate for n in range(120)], "k": [0] * 120, "imp": [1.0] * 120})
        operator.process({"a": table, "b": table})
        found: Any = ranking(operator)
        assert found._maturity(view(operator, 0)) == pytest.approx(wanted, rel=0.02)
        assert found._unproductive(view(operator, 0)) == pytest.approx(1.5 * wanted, rel=0.02)


def test_scale_of_importance_does_not_matter() -> None:
    tables = feeds("ab", 300)
    policies = [Importance(by={a: f"{factor} * {a}.imp" for a in "ab"}) for factor in (1.0, 1024.0)]
    first, second = (wr.Operator(query("ab", 20, p)).process(tables) for p in policies)
    assert first.equals(second)
