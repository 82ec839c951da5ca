"""Random conditions that fail on some rows, and conditions that look like them and are guarded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from windrow.testing.oracle import FAILED, Row, Term, Truth


def _number(row: Row) -> int | None:
    """`cast(replace(s, 'x', '1') as int)`."""
    text = row["s"]
    return None if text is None or text.replace("x", "1") != "1" else 1


def _no_number(row: Row) -> bool:
    return row["s"] is not None and _number(row) is None


def _zero(row: Row) -> bool:
    return row["i"] is not None and row["j"] == 0


def _quotient(x: int | None, y: int | None, test: Callable[[float], bool], on_zero: Truth = FAILED) -> Truth:
    if x is None or y is None:
        return None
    return on_zero if y == 0 else test(x / y)


def _above(row: Row) -> bool | None:
    return None if row["i"] is None or not row["j"] else row["i"] / row["j"] > 0.5


def _large(quotient: float) -> bool:
    return quotient > 0.5


CAST = "cast(replace({a}.s, 'x', '1') as int)"


def row_terms(a: str) -> list[Term]:
    """Over one stream."""

    def known(row: Row) -> bool | None:
        return None if (number := _number(row)) is None else number > 0

    return [
        Term(f"{CAST.format(a=a)} > 0", (a,), lambda r: known(r[a]), fails={a: _no_number}),
        Term(f"try_cast(replace({a}.s, 'x', '1') as int) > 0", (a,), lambda r: known(r[a])),
        Term(f"{a}.i / {a}.j > 0.5", (a,), lambda r: _above(r[a]), fails={a: _zero}),
        Term(f"{a}.i / nullif({a}.j, 0) > 0.5", (a,), lambda r: _above(r[a])),
        Term(f"try_divide({a}.i, {a}.j) > 0.5", (a,), lambda r: _above(r[a])),
        Term(
            f"({a}.i / {a}.j > 0.5 or {a}.j = 0)",
            (a,),
            lambda r: True if r[a]["j"] == 0 else _above(r[a]),
        ),
        Term(
            f"case when {a}.j = 0 then false when {a}.i is null then true else {a}.i / {a}.j > 0.5 end",
            (a,),
            lambda r: False if r[a]["j"] == 0 else True if r[a]["i"] is None else _above(r[a]),
        ),
        Term(
            f"coalesce({a}.i / {a}.j > 0.5, true)",
            (a,),
            lambda r: _above(r[a]) is not False,
            fails={a: _zero},
        ),
        Term(f"{a}.j <> 0", (a,), lambda r: None if r[a]["j"] is None else r[a]["j"] != 0),
    ]


def pair_terms(a: str, b: str, keys: bool) -> list[Term]:
    """Over two streams; with `keys`, also equalities of computed values."""

    def compared(test: Callable[[Any, Any], bool]) -> Callable[[Any], bool | None]:
        def holds(r: Any) -> bool | None:
            x, y = _number(r[a]), r[b]["i"]
            return None if x is None or y is None else test(x, y)

        return holds

    equality = Term(
        f"{CAST.format(a=a)} = {b}.i",
        (a, b),
        compared(lambda x, y: x == y),
        "equality",
        fails={a: _no_number},
    )
    return [
        *([equality] if keys else []),
        Term(f"{CAST.format(a=a)} <= {b}.i", (a, b), compared(lambda x, y: x <= y), fails={a: _no_number}),
        *guarded_terms(a, b),
        Term(
            f"try_divide({a}.i, {b}.j) > 0.5", (a, b), lambda r: _quotient(r[a]["i"], r[b]["j"], _large, None)
        ),
        Term(
            f"not ({b}.j = 0 or {a}.i / {b}.j <= 0.5)",
            (a, b),
            lambda r: _guarded(r[a]["i"], r[b]["j"], False),
        ),
        Term(f"({a}.i / {b}.j > 0.5 or {b}.j = 0)", (a, b), lambda r: _guarded(r[a]["i"], r[b]["j"], True)),
        Term(f"{a}.i % {b}.h <> 1", (a, b), lambda r: _rest(r[a]["i"], r[b]["h"])),
    ]


def guarded_terms(a: str, b: str) -> list[Term]:
    """Over two streams: one that fails, and one that is false where it does."""
    return [
        Term(f"{a}.i / {b}.j > 0.5", (a, b), lambda r: _quotient(r[a]["i"], r[b]["j"], _large)),
        Term(f"{b}.j * {a}.i <> 0", (a, b), lambda r: _nonzero(r[b]["j"], r[a]["i"])),
    ]


def _nonzero(x: int | None, y: int | None) -> bool | None:
    return None if x is None or y is None else x * y != 0


def _guarded(x: int | None, y: int | None, on_zero: bool) -> bool | None:
    if y == 0:
        return on_zero
    return None if x is None or y is None else x / y > 0.5


def _rest(x: int | None, y: int | None) -> Truth:
    if x is None or y is None:
        return None
    return FAILED if y == 0 else math.fmod(x, y) != 1
