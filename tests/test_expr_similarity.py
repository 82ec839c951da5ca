"""Similarity of lists against plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from windrow.errors import QueryError
from windrow.expr.evaluate import evaluate, result_type
from windrow.expr.parse import parse


def run(name: str, left: pa.Array, right: pa.Array) -> list:
    columns = {("a", "v"): left, ("b", "v"): right}
    return evaluate(parse(f"{name}(a.v, b.v)", ["a", "b"]), columns, len(left), {}).to_pylist()


def random_lists(rng: random.Random, draw: Callable[[], Any], rows: int = 300, longest: int = 50) -> list:
    return [
        None if rng.random() < 0.1 else [draw() for _ in range(rng.randint(0, rng.choice([3, longest])))]
        for _ in range(rows)
    ]


def overlap(x: list | None, y: list | None) -> int | None:
    return None if x is None or y is None else len((set(x) & set(y)) - {None})


def jaccard(x: list | None, y: list | None) -> float | None:
    shared = overlap(x, y)
    if shared is None:
        return None
    union = (set(x or []) | set(y or [])) - {None}
    return shared / len(union) if union else 0.0


ELEMENTS = [
    (lambda rng: rng.choice(["a", "b", "", "ccc", "a longer word", None]), pa.string()),
    (lambda rng: rng.choice(["a", "b", "c", None]), pa.large_string()),
    (lambda rng: rng.randint(-40, 40), pa.int64()),
    (lambda rng: rng.randint(0, 9), pa.int16()),
    (lambda rng: rng.choice([0.0, -0.0, 1.5, 2.5]), pa.float64()),
]


@pytest.mark.parametrize(("draw", "kind"), ELEMENTS)
@pytest.mark.parametrize("layout", [pa.list_, pa.large_list])
def test_sets(
    draw: Callable[[random.Random], Any], kind: pa.DataType, layout: Callable[[pa.DataType], pa.DataType]
) -> None:
    rng = random.Random(3)
    x, y = (random_lists(rng, lambda: draw(rng)) for _ in range(2))
    left, right = pa.array(x, layout(kind)), pa.array(y, pa.list_(kind))
    for start in (0, 17):
        pairs = list(zip(x[start:], y[start:], strict=True))
        assert run("overlap", left.slice(start), right.slice(start)) == [overlap(p, q) for p, q in pairs]
        assert run("jaccard", left.slice(start), right.slice(start)) == [jaccard(p, q) for p, q in pairs]


def test_sets_of_different_integer_types() -> None:
    left, right = pa.array([[1, 2, 2]], pa.list_(pa.int8())), pa.array([[2, 3]], pa.list_(pa.int64()))
    assert run("overlap", left, right) == [1]
    assert run("jaccard", pa.array([[]], pa.list_(pa.string())), pa.array([[]], pa.list_(pa.string()))) == [
        0.0
    ]


@pytest.mark.parametrize("fixed", [False, True])
def test_vectors(fixed: bool) -> None:
    rng, width = random.Random(4), 4
    x = [None if rng.random() < 0.1 else [rng.uniform(-1, 1) for _ in range(width)] for _ in range(200)]
    y = [None if rng.random() < 0.1 else [rng.uniform(-1, 1) for _ in range(width)] for _ in range(200)]
    if not fixed:
        y = [None if v is None else v[: rng.choice([width, width, 3])] for v in y]
        x[0], y[0], x[1], y[1] = [0.0], [1.0], [1.0, None], [1.0, 2.0]
    kind = pa.list_(pa.float64(), width) if fixed else pa.list_(pa.float64())
    left, right = pa.array(x, kind), pa.array(y, kind)

    def wanted(name: str, p: list | None, q: list | None) -> float | None:
        if p is None or q is None or len(p) != len(q) or None in p or None in q:
            return None
        dot = sum(a * b for a, b in zip(p, q, strict=True))
        if name == "inner_product":
            return dot
        if name == "distance":
            return math.dist(p, q)
        norm = math.hypot(*p) * math.hypot(*q)
        return dot / norm if norm else None

    for name in ("inner_product", "distance", "cosine"):
        for start in (0, 33):
            got = run(name, left.slice(start), right.slice(start))
            expected = [wanted(name, p, q) for p, q in zip(x[start:], y[start:], strict=True)]
            assert [g is None for g in got] == [e is None for e in expected]
            assert [g for g in got if g is not None] == pytest.approx([e for e in expected if e is not None])


def test_integer_vectors_and_identical_ones() -> None:
    lists = pa.array([[1, 2, 2], [3, 4]], pa.list_(pa.int32()))
    assert run("cosine", lists, lists) == [1.0, 1.0]
    assert run("inner_product", lists, lists) == [9.0, 25.0]


@pytest.mark.parametrize(
    ("name", "left", "right", "message"),
    [
        (
            "jaccard",
            pa.list_(pa.string()),
            pa.list_(pa.int64()),
            "jaccard cannot compare the elements of a.v",
        ),
        ("cosine", pa.list_(pa.string()), pa.list_(pa.string()), "cosine takes lists of numbers"),
        ("overlap", pa.string(), pa.list_(pa.string()), "overlap takes a list, got a.v (string)"),
    ],
)
def test_errors(name: str, left: pa.DataType, right: pa.DataType, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        result_type(parse(f"{name}(a.v, b.v)", ["a", "b"]), {("a", "v"): left, ("b", "v"): right}, {})
    assert message in str(caught.value)
