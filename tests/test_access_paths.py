"""The contract of access paths, orders, algorithms and paces: they change the cost, never the answer."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import permutations, product
from random import Random

import pytest

import results
import windrow as wr
from flows import Flow
from queries import Case, rows_of
from terms import equality, known, pair
from windrow.testing.oracle import SECOND, Term

PATHS = [None, "hash", "hash(1)", "hash(7)", "hash(1000)", "sorted", "scan"]
ALGORITHMS = ["eager", "naive", "general"]
STRATEGIES = ["heuristic", "low-selectivity", "exhaustive"]
EVALUATIONS = [
    None,
    "eager",
    "every 1 rows",
    "every 2 rows",
    "every 7 rows",
    "every 50 rows",
    "every 3 seconds",
]
EXPIRIES = [None, "eager", "every 1 second", "every 10 seconds", "every 1 day"]
ORDERS = [*permutations("abc"), {"a": ("a", "b", "c"), "b": ("b", "a", "c"), "c": ("c", "b", "a")}]


def band(a: str, b: str) -> Term:
    return pair("abs({l} - {r}) <= 1", a, b, "i", "i", known(lambda x, y: abs(x - y) <= 1), "band")


def less(a: str, b: str) -> Term:
    return pair("{l} <= {r}", a, b, "j", "j", known(lambda x, y: x <= y), "comparison")


PREDICATES = {
    "chain of equalities": [equality("a", "b", "i"), equality("b", "c", "i")],
    "different columns": [equality("a", "b", "i"), equality("b", "c", "s")],
    "two columns": [equality("a", "b", "i"), equality("a", "b", "flag"), equality("b", "c", "i")],
    "triangle": [equality("a", "b", "i"), equality("b", "c", "s"), equality("c", "a", "d")],
    "equality and band": [equality("a", "b", "s"), band("b", "c")],
    "equality, band and comparison": [equality("a", "b", "i"), band("b", "c"), less("a", "c")],
    "text and decimals": [equality("a", "b", "s"), equality("b", "c", "m")],
    "floats": [equality("a", "b", "f"), equality("b", "c", "f")],
}


@cache
def make(name: str, windows: str = "time") -> Case:
    """Three streams of 40 rows, 20 s, some disorder within `late`, in calls of 20 rows. They have the columns
    that the predicate names: building results would take most of the time otherwise."""
    flow = Flow(seed=7, spread=3, nulls=0.05, nans=0.1, start=-10 * SECOND, step=SECOND // 2)
    sql = " ".join(term.sql for term in PREDICATES[name])
    named = {alias: sorted(set(re.findall(rf"\b{alias}\.(\w+)", sql))) for alias in "abc"}
    tables = {alias: flow.table(alias, 40).select(["id", "ts", *named[alias]]) for alias in "abc"}
    rng, late = Random(3), 2 * SECOND
    queue = sorted(
        ((row["ts"] or 0) + rng.randint(0, late), alias, row["id"])
        for alias, table in tables.items()
        for row in rows_of(table)
    )
    calls = []
    for first in range(0, len(queue), 20):
        call: dict[str, list[int]] = {}
        for _, alias, number in queue[first : first + 20]:
            call.setdefault(alias, []).append(number)
        calls.append(call)
    sizes = {"a": 4 * SECOND, "b": 2 * SECOND, "c": 7 * SECOND}
    if windows == "rows":
        sizes |= {"a": (5, False), "b": (3, True)}
    return Case(sizes, PREDICATES[name], tables, calls, {"late": late})


@cache
def answer(name: str, windows: str = "time") -> Counter:
    found = make(name, windows).answer()
    assert found.total() > 0, "a test that cannot fail"
    return found


def usable(path: str | None, alias: str, terms: list[Term]) -> bool:
    """A hash needs an equality on the stream, a sorted index any indexable condition."""
    kinds = {term.kind for term in terms if alias in term.aliases}
    return "equality" in kinds if path and path.startswith("hash") else True


def check(case: Case, want: Counter, access: dict | None = None, **options) -> None:
    changed = Case(case.windows, case.terms, case.tables, case.calls, case.options, access or {})
    output, measured = changed.run(**options)
    assert results.ids(output) == want
    assert measured.results == want.total()


@pytest.mark.parametrize("windows", ["time", "rows"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", PREDICATES)
def test_each_path_on_all_streams(name: str, path: str | None, windows: str) -> None:
    case = make(name, windows)
    access = {alias: path if usable(path, alias, case.terms) else None for alias in "abc"}
    check(case, answer(name, windows), access)


@pytest.mark.parametrize("paths", [*product(["hash(3)", "sorted", "scan"], repeat=3)], ids=" ".join)
def test_hybrids_mix_paths(paths: tuple[str, ...]) -> None:
    name = "chain of equalities"
    check(make(name), answer(name), dict(zip("abc", paths, strict=True)))


@pytest.mark.parametrize("windows", ["time", "rows"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("order", [*STRATEGIES, *ORDERS], ids=str)
def test_each_order_with_each_algorithm(order, algorithm: str, windows: str) -> None:
    for name in ("different columns", "equality, band and comparison"):
        check(make(name, windows), answer(name, windows), order=order, algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("order", [*STRATEGIES, ("c", "a", "b")], ids=str)
def test_each_path_with_each_order_and_algorithm(path: str | None, order, algorithm: str) -> None:
    name = "two columns"
    check(make(name), answer(name), dict.fromkeys("abc", path), order=order, algorithm=algorithm)


@pytest.mark.parametrize("windows", ["time", "rows"])
@pytest.mark.parametrize("expire", EXPIRIES)
@pytest.mark.parametrize("evaluate", EVALUATIONS)
def test_each_pace(evaluate: str | None, expire: str | None, windows: str) -> None:
    name = "equality, band and comparison"
    check(make(name, windows), answer(name, windows), evaluate=evaluate, expire=expire)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("evaluate", EVALUATIONS)
def test_each_pace_with_each_algorithm(evaluate: str | None, algorithm: str) -> None:
    name = "triangle"
    check(make(name), answer(name), evaluate=evaluate, algorithm=algorithm)


def test_a_hash_path_needs_an_equality() -> None:
    """A path that cannot be used is refused with the stream's name, not silently replaced."""
    streams = {"a": wr.Stream("ts", "1 s", access="hash"), "b": wr.Stream("ts", "1 s")}
    case = make("chain of equalities")
    schemas = {alias: case.tables[alias].schema for alias in "ab"}
    with pytest.raises(wr.QueryError, match=r"'a'.*hash"):
        wr.Operator(wr.Query(streams, "abs(a.i - b.i) <= 1"), schemas=schemas)


def test_a_search_costs_less_than_a_scan() -> None:
    """Comparisons are counted; an index looks at fewer rows than the whole window."""
    case, want = make("chain of equalities"), answer("chain of equalities")
    looked = {}
    for path in ("hash", "sorted", "scan"):
        changed = Case(
            case.windows, case.terms, case.tables, case.calls, case.options, dict.fromkeys("abc", path)
        )
        output, measured = changed.run(order=("a", "b", "c"))
        assert results.ids(output) == want
        looked[path] = measured.comparisons
    assert 0 < looked["hash"] < looked["scan"]
    assert 0 < looked["sorted"] < looked["scan"]
