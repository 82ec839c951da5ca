"""Classification: predicate text to filters, atoms and residuals, printed; and atoms against evaluation."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from windrow.errors import QueryError
from windrow.expr.evaluate import evaluate
from windrow.expr.join_columns import encoded_column
from windrow.expr.parse import parse, resolve
from windrow.expr.split_predicate import split_predicate
from windrow.model.predicate import Atom, Band, Comparison, Equality
from windrow.model.query import Function

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "i32": pa.int32(),
        "u": pa.uint64(),
        "x": pa.float64(),
        "name": pa.string(),
        "t": pa.timestamp("us"),
        "ms": pa.timestamp("ms"),
        "tz": pa.timestamp("us", "UTC"),
        "d": pa.decimal128(10, 2),
        "big": pa.decimal128(30, 2),
        "day": pa.date32(),
        "words": pa.list_(pa.string()),
        "flag": pa.bool_(),
    }
)
SCHEMAS = {"a": SCHEMA, "b": SCHEMA, "c": SCHEMA}
FUNCTIONS = {"f": Function(lambda x: x, pa.int64()), "abs": Function(lambda x: x, pa.int64())}


def printed(text: str, functions: dict | None = None) -> list[str]:
    predicate = split_predicate(text, SCHEMAS, functions or {})
    filters = [f"filter {f.stream}: {f.sql}" for f in predicate.filters]
    atoms = [f"{type(a).__name__.lower()} {a} as {a.left.type} {a.left.kind}" for a in predicate.atoms]
    residuals = [f"residual {sorted(r.streams)}: {r}" for r in predicate.residuals]
    return filters + atoms + residuals


GOLDEN: list[tuple[str, list[str]]] = [
    ("a.id = b.id", ["equality a.id = b.id as int64 int"]),
    (
        "A.ID = b.i32 and b.Id = c.id",
        ["equality a.id = b.i32 as int64 int", "equality b.id = c.id as int64 int"],
    ),
    (
        "a.id = b.id and b.id = a.id and a.id = b.id",
        ["equality a.id = b.id as int64 int", "equality b.id = a.id as int64 int"],
    ),
    ("a.id = b.x", ["equality a.id = b.x as double ordered"]),
    ("a.name = b.name", ["equality a.name = b.name as string hash"]),
    ("LOWER(a.name) = lower(b.name)", ["equality LOWER(a.name) = LOWER(b.name) as string hash"]),
    ("a.u = b.u", ["equality a.u = b.u as uint64 int"]),
    ("a.u = b.id", ["equality a.u = b.id as decimal128(20, 0) hash"]),
    ("a.d = b.i32", ["equality a.d = b.i32 as decimal128(12, 2) int"]),
    ("a.big = b.big", ["equality a.big = b.big as decimal128(30, 2) hash"]),
    ("a.day = b.t", ["equality a.day = b.t as timestamp[us] int"]),
    ("a.t = b.ms", ["equality a.t = b.ms as timestamp[us] int"]),
    ("a.flag = b.flag", ["equality a.flag = b.flag as bool int"]),
    ("a.id = a.i32", ["filter 0: a.id = a.i32"]),
    ("b.flag and a.id > 3 and 1 = 1 and true", ["filter 1: b.flag", "filter 0: a.id > 3"]),
    ("false", ["filter 0: FALSE"]),
    ("a.id < b.id", ["comparison a.id < b.id as int64 int"]),
    ("a.x >= b.x - 5", ["comparison a.x >= b.x - 5 as double ordered"]),
    ("a.id <> b.i32", ["comparison a.id <> b.i32 as int64 int"]),
    ("a.name < b.name", ["residual [0, 1]: a.name < b.name"]),
    ("a.name <> b.name", ["residual [0, 1]: a.name <> b.name"]),
    ("abs(a.id - b.id) <= 5", ["band ABS(a.id - b.id) <= 5 as int64 int"]),
    ("2 * 5 > abs((a.id - b.i32))", ["band ABS(a.id - b.i32) < 10 as int64 int"]),
    ("abs(a.id - b.id) <= 2.5", ["band ABS(a.id - b.id) <= 2 as int64 int"]),
    ("abs(a.id - b.id) < 2.5", ["band ABS(a.id - b.id) < 3 as int64 int"]),
    ("abs(a.id - b.id) <= -(0.5)", ["band ABS(a.id - b.id) <= -1 as int64 int"]),
    ("abs(a.id - b.id) <= 1e30", ["residual [0, 1]: ABS(a.id - b.id) <= 1e30"]),
    ("abs(a.x - b.id) <= 0.5", ["band ABS(a.x - b.id) <= 0.5 as double float"]),
    ("abs(a.d - b.d) <= 0.015", ["band ABS(a.d - b.d) <= 1 as decimal128(10, 2) int"]),
    ("abs(a.d - b.d) < 0.015", ["band ABS(a.d - b.d) < 2 as decimal128(10, 2) int"]),
    ("abs(a.big - b.big) < 1", ["residual [0, 1]: ABS(a.big - b.big) < 1"]),
    ("abs(a.t - b.t) <= interval '5' second", ["band ABS(a.t - b.t) <= 5000000 as timestamp[us] int"]),
    ("abs(a.ms - b.ms) < interval '0.5 ms'", ["band ABS(a.ms - b.ms) < 1 as timestamp[ms] int"]),
    ("abs(a.day - b.day) <= interval '36 hours'", ["band ABS(a.day - b.day) <= 1 as date32[day] int"]),
    ("abs(a.id - b.id) <= c.id", ["residual [0, 1, 2]: ABS(a.id - b.id) <= c.id"]),
    ("a.id between b.id - 5 and b.id + 5", ["band a.id BETWEEN b.id - 5 AND b.id + 5 as int64 int"]),
    ("a.x between b.x - 0.1 and 0.1 + b.x", ["band a.x BETWEEN b.x - 0.1 AND b.x + 0.1 as double float"]),
    (
        "a.t between b.t - interval '1' minute and b.t + interval '60 seconds'",
        ["band a.t BETWEEN b.t - 60000000 AND b.t + 60000000 as timestamp[us] int"],
    ),
    (
        "a.id between b.id - 5 and b.id + 6",
        ["comparison a.id >= b.id - 5 as int64 int", "comparison a.id <= b.id + 6 as int64 int"],
    ),
    ("a.id between 3 and c.id", ["filter 0: a.id >= 3", "comparison a.id <= c.id as int64 int"]),
    ("a.id between 3 and 5", ["filter 0: a.id BETWEEN 3 AND 5"]),
    ("a.id between b.id + c.id and 5", ["residual [0, 1, 2]: a.id BETWEEN b.id + c.id AND 5"]),
    ("a.name between b.name and 'z'", ["residual [0, 1]: a.name BETWEEN b.name AND 'z'"]),
    ("jaccard(a.words, b.words) > 0.5", ["residual [0, 1]: JACCARD(a.words, b.words) > 0.5"]),
    ("a.id = b.id or b.id = c.id", ["residual [0, 1, 2]: a.id = b.id OR b.id = c.id"]),
    ("a.id + b.id = c.id", ["residual [0, 1, 2]: a.id + b.id = c.id"]),
    ("not a.x = b.x", ["residual [0, 1]: NOT a.x = b.x"]),
]


@pytest.mark.parametrize(("text", "expected"), GOLDEN)
def test_classification(text: str, expected: list[str]) -> None:
    assert printed(text) == expected


def test_own_functions_win() -> None:
    assert printed("f(a.id) = b.id", FUNCTIONS) == ["equality F(a.id) = b.id as int64 int"]
    assert printed("abs(a.id - b.id) <= 5", FUNCTIONS) == ["residual [0, 1]: ABS(a.id - b.id) <= 5"]
    with pytest.raises(QueryError, match="functions: 'f' and 'F' differ only in case"):
        split_predicate("a.id = b.id", SCHEMAS, {"f": FUNCTIONS["f"], "F": FUNCTIONS["f"]})


def test_same_expression_is_the_same_word() -> None:
    predicate = split_predicate("a.ID = b.id and A.id < c.i32 and (a.id) = c.id", SCHEMAS, {})
    assert [str(w) for w in predicate.columns_of(0)] == ["a.id"]
    assert [str(w) for w in predicate.columns_of(2)] == ["c.i32", "c.id"]
    assert pickle.loads(pickle.dumps(predicate)).atoms == predicate.atoms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.id + b.id", "on: expected a condition that is true or false, got a.id + b.id of type int64"),
        ("b.nam = a.name", "unknown column 'nam' of stream 'b'. Did you mean 'name'? Available: big, d, day"),
        ("a.id = b.name", "on: cannot compare a.id (int64) with b.name (string); cast one of them"),
        ("a.t = b.tz", "one has a time zone and the other has none"),
        ("a.words = b.words", "use jaccard, overlap, cosine or distance"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        split_predicate(text, SCHEMAS, {})
    assert message in str(caught.value)


def holds(atom: Atom, x: int | float, y: int | float) -> bool:
    """What an atom means, in Python's exact integers or IEEE doubles."""
    if isinstance(atom, Equality):
        return x == y
    if isinstance(atom, Comparison):
        return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "<>": x != y}[atom.op]
    assert isinstance(atom, Band)
    if atom.form == "between":
        return y - atom.epsilon <= x <= y + atom.epsilon
    return abs(x - y) < atom.epsilon if atom.strict else abs(x - y) <= atom.epsilon


def _random_columns(rng: random.Random, rows: int) -> dict[str, pa.Array]:
    def column(draw: Callable[[], Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < 0.1 else draw() for _ in range(rows)], kind)

    moment = 1_700_000_000_000_000
    return {
        "id": column(lambda: rng.choice([rng.randint(-6, 6), 2**63 - 1, -(2**63)]), pa.int64()),
        "i32": column(lambda: rng.randint(-6, 6), pa.int32()),
        "u": column(lambda: rng.choice([0, 1, 5, 2**64 - 1, 2**63]), pa.uint64()),
        "x": column(lambda: rng.choice([rng.randint(-6, 6) / 2, float("nan"), -0.0]), pa.float64()),
        "name": column(lambda: rng.choice(["", "a", "B", "b"]), pa.string()),
        "t": column(
            lambda: rng.choice([moment + rng.randint(-10, 10) * 1_000_000, 19678 * 86_400_000_000]),
            pa.timestamp("us"),
        ),
        "ms": column(lambda: moment // 1000 + rng.randint(-3, 3), pa.timestamp("ms")),
        "d": column(lambda: Decimal(rng.randint(-5, 5)).scaleb(-2), pa.decimal128(10, 2)),
        "big": column(lambda: Decimal(rng.randint(-5, 5)).scaleb(-2), pa.decimal128(30, 2)),
        "day": column(lambda: rng.randint(19675, 19680), pa.int32()).cast(pa.date32()),
        "flag": column(lambda: rng.random() < 0.5, pa.bool_()),
    }


@pytest.mark.parametrize(
    "text", [text for text, lines in GOLDEN if not any("residual" in x or "filter" in x for x in lines)]
)
def test_atoms_agree_with_evaluation(text: str) -> None:
    """Atoms on words say what the expression says on values. Overflow apart: only atoms survive it."""
    rows, rng = 400, random.Random(text)
    columns = {
        (alias, name): array for alias in SCHEMAS for name, array in _random_columns(rng, rows).items()
    }
    safe = {
        ref: _tamed(array) if ref[1] == "id" and ("-" in text or "+" in text) else array
        for ref, array in columns.items()
    }
    predicate = split_predicate(text, SCHEMAS, {})
    node = resolve(parse(text, list(SCHEMAS)), SCHEMAS)
    wanted = [value is True for value in evaluate(node, safe, rows, {}).to_pylist()]
    if text.startswith("a.x between b.x"):
        # A band holds no NaN; as a plain expression, `between` is true of NaN and NaN.
        nans = pc.is_nan(safe["a", "x"]).to_pylist()
        wanted = [held and not nan for held, nan in zip(wanted, nans, strict=True)]
    found = [True] * rows
    for atom in predicate.atoms:
        (x, x_valid), (y, y_valid) = (encoded_column(w, safe, rows, {}) for w in atom.columns)
        for i in range(rows):
            valid = (x_valid is None or x_valid[i]) and (y_valid is None or y_valid[i])
            found[i] = found[i] and bool(valid) and holds(atom, x[i].item(), y[i].item())
    assert found == wanted
    assert any(found) or "-(" in text


def _tamed(array: pa.Array) -> pa.Array:
    return pa.array([None if v is None else int(np.clip(v, -6, 6)) for v in array.to_pylist()], pa.int64())


def test_an_overflowing_difference_never_matches() -> None:
    ends = {("a", "id"): pa.array([2**63 - 1, 2**63 - 1]), ("b", "id"): pa.array([-(2**63), 2**63 - 3])}
    node = parse("abs(a.id - b.id) <= 5", ["a", "b"])
    assert evaluate(node, ends, 2, {}).to_pylist() == [None, True]
