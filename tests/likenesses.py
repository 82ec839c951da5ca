"""Conditions on how alike two lists are as sets, in SQL and in Python, and lists to try them on."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from windrow.testing.oracle import Term

LISTS: dict[str, pa.DataType] = {
    "u": pa.list_(pa.string()),
    "v": pa.list_(pa.int64()),
    "n": pa.large_list(pa.int32()),
}
_ELEMENTS: dict[str, list[Any]] = {
    "u": ["x", "y", "", "éa", "a longer text than fits a word", None],
    "v": [0, 1, -1, 2, 7, None],
    "n": [1, 2, 0, 7, -1, None],
}


def random_list(rng: Random, column: str, nulls: float) -> list | None:
    """Short, often empty or with the same element twice."""
    if rng.random() < nulls:
        return None
    return [rng.choice(_ELEMENTS[column]) for _ in range(rng.choice([0, 1, 2, 3, 3, 5]))]


def as_set(values: list | None) -> set | None:
    """Without nulls and NaN."""
    return None if values is None else {x for x in values if x is not None and x == x}


def overlap(x: list | None, y: list | None) -> int | None:
    left, right = as_set(x), as_set(y)
    return None if left is None or right is None else len(left & right)


def jaccard(x: list | None, y: list | None) -> float | None:
    left, right = as_set(x), as_set(y)
    if left is None or right is None:
        return None
    return len(left & right) / max(1, len(left | right))


MEASURES = {"jaccard": jaccard, "overlap": overlap}


def alike(a: str, b: str, columns: tuple[str, str], measure: str, sign: str, limit: float) -> Term:
    """`measure(a.x, b.y) sign limit`."""
    x, y = columns

    def test(bound: Any) -> bool | None:
        found = MEASURES[measure](bound[a][x], bound[b][y])
        return None if found is None else found > limit if sign == ">" else found >= limit

    return Term(f"{measure}({a}.{x}, {b}.{y}) {sign} {limit}", (a, b), test, "likeness")


def indexable(term: Term) -> bool:
    """Whether an inverted index can find what fulfils it: a pair must share an element, and some pair can."""
    if term.kind != "likeness":
        return False
    limit = float(term.sql.split()[-1])
    return (limit > 0 or " > " in term.sql) and (limit <= 1 or term.sql.startswith("overlap"))


@st.composite
def likenesses(draw: st.DrawFn, a: str, b: str) -> list[Term]:
    """Thresholds that are met exactly, and some that any pair meets, or none."""
    columns = draw(st.sampled_from([("u", "u"), ("v", "v"), ("v", "n"), ("n", "v")]))
    sign = draw(st.sampled_from([">", ">="]))
    measure = draw(st.sampled_from(sorted(MEASURES)))
    limits = [1 / 3, 0.5, 0.6, 1, 0, 0.2, 1.5] if measure == "jaccard" else [1, 2, 0, 1.5, 3]
    return [alike(a, b, columns, measure, sign, draw(st.sampled_from(limits)))]
