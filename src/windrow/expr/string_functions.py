"""Functions of text. Characters are Unicode code points, counted from 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.errors import QueryError
from windrow.expr.builtin import MANY, Builtin, constant_int, refuse, text
from windrow.expr.casts import cast
from windrow.expr.comparison import Operand
from windrow.expr.dialect import render
from windrow.expr.encoding import text_buffers
from windrow.expr.types import is_bytes, is_list, is_text
from windrow.expr.values import Value, broadcast, from_numpy, is_constant, rowwise, valid_mask
from windrow.kernels.levenshtein import levenshtein

Match = Callable[..., Value]


def _simple(name: str, call: Callable[..., Value]) -> Builtin:
    return Builtin(lambda operand: call(text(name, operand)))


def _length(operand: Operand) -> Value:
    if is_list(operand.type):
        return cast(pc.list_value_length(operand.value), pa.int64())
    if is_bytes(operand.type):
        return cast(pc.binary_length(operand.value), pa.int64())
    return cast(pc.utf8_length(text("length", operand)), pa.int64())


def _substring(operand: Operand, start: Operand, length: Operand | None = None) -> Value:
    """`length` characters from `start`, or all. A negative start counts from the end; 0 means 1."""
    value, first = text("substring", operand), constant_int("substring", start)
    count = None if length is None else max(0, constant_int("substring", length))
    if first > 0:
        first -= 1
    stop = None if count is None else first + count
    if first < 0 and stop is not None and stop >= 0:
        stop = None  # past the last character; as a stop, 0 would be before the first
    return pc.utf8_slice_codeunits(value, start=first, stop=stop)


def _left(operand: Operand, count: Operand) -> Value:
    return pc.utf8_slice_codeunits(text("left", operand), start=0, stop=max(0, constant_int("left", count)))


def _right(operand: Operand, count: Operand) -> Value:
    wanted, value = constant_int("right", count), text("right", operand)
    if wanted <= 0:
        return pc.utf8_slice_codeunits(value, start=0, stop=0)
    return pc.utf8_slice_codeunits(value, start=-wanted)


def concat(*operands: Operand) -> Value:
    """Null if any part is null. Values of other types are cast to text."""
    parts = [o.value if is_text(o.type) else cast(o.value, pa.string()) for o in operands]
    if any(pa.types.is_large_string(p.type) for p in parts):
        parts = [cast(p, pa.large_string()) for p in parts]
    return pc.binary_join_element_wise(*parts, pa.scalar("", parts[0].type), null_handling="emit_null")


def _replace(operand: Operand, old: Operand, new: Operand) -> Value:
    pattern, replacement = (_constant_text("replace", o) for o in (old, new))
    value = text("replace", operand)
    return value if not pattern else pc.replace_substring(value, pattern=pattern, replacement=replacement)


def _constant_text(name: str, operand: Operand) -> str:
    value = text(name, operand)
    if not is_constant(value) or not value.is_valid:
        raise QueryError(f"{name} takes a constant string here, got {render(operand.node)}")
    return str(value.as_py())


def matches(name: str, call: Match, operand: Operand, pattern: Operand) -> Value:
    """Searches for a pattern. Arrow takes only constants, so a column is searched by distinct pattern."""
    value, patterns = text(name, operand), text(name, pattern)
    if is_constant(patterns):
        if not patterns.is_valid:
            return pa.scalar(None, pa.bool_())
        _check(name, call, patterns.as_py())
        return call(value, patterns.as_py())
    value = broadcast(value, len(patterns))
    encoded = patterns.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    found, valid = np.zeros(len(value), bool), np.zeros(len(value), bool)
    for code, one in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        answer = call(value.take(pa.array(rows)), one)
        found[rows] = answer.fill_null(False).to_numpy(zero_copy_only=False)
        valid[rows] = answer.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(found, mask=~valid)


def _check(name: str, call: Match, pattern: str) -> None:
    try:
        call(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise QueryError(f"{name}: {pattern!r} is not a valid pattern: {error}") from None


def _matching(name: str, call: Match) -> Builtin:
    return Builtin(partial(matches, name, call), 2, 2)


def _size(operand: Operand) -> Value:
    if not is_list(operand.type):
        raise refuse("size", operand, "a list")
    return _length(operand)


def _split(operand: Operand, pattern: Operand) -> Value:
    """The parts of a text between matches of a regular expression."""
    wanted = _constant_text("split", pattern)
    _check("split", pc.match_substring_regex, wanted)
    if pc.match_substring_regex(pa.scalar(""), wanted).as_py():  # Arrow would never come to an end
        raise QueryError(f"split takes a pattern that the empty text does not match, got {wanted!r}")
    return pc.split_pattern_regex(text("split", operand), wanted)


def _levenshtein(left: Operand, right: Operand) -> Value:
    def call(x: pa.Array, y: pa.Array) -> pa.Array:
        distances = np.empty(len(x), np.int64)
        levenshtein(*text_buffers(x), *text_buffers(y), distances)
        return from_numpy(distances, valid_mask(x, y))

    return rowwise(call, *(text("levenshtein", operand) for operand in (left, right)))


_STARTS = _matching("starts_with", pc.starts_with)
_ENDS = _matching("ends_with", pc.ends_with)
_REGEX = _matching("regexp_like", pc.match_substring_regex)

STRINGS: dict[str, Builtin] = {
    "lower": _simple("lower", pc.utf8_lower),
    "upper": _simple("upper", pc.utf8_upper),
    "trim": _simple("trim", partial(pc.utf8_trim, characters=" ")),
    "ltrim": _simple("ltrim", partial(pc.utf8_ltrim, characters=" ")),
    "rtrim": _simple("rtrim", partial(pc.utf8_rtrim, characters=" ")),
    "reverse": _simple("reverse", pc.utf8_reverse),
    "length": Builtin(_length),
    "len": Builtin(_length),
    "char_length": Builtin(_length),
    "substring": Builtin(_substring, 2, 3),
    "substr": Builtin(_substring, 2, 3),
    "left": Builtin(_left, 2, 2),
    "right": Builtin(_right, 2, 2),
    "concat": Builtin(concat, 1, MANY),
    "replace": Builtin(_replace, 3, 3),
    "starts_with": _STARTS,
    "startswith": _STARTS,
    "ends_with": _ENDS,
    "endswith": _ENDS,
    "split": Builtin(_split, 2, 2),
    "levenshtein": Builtin(_levenshtein, 2, 2),
    "contains": _matching("contains", pc.match_substring),
    "regexp_like": _REGEX,
    "rlike": _REGEX,
    "size": Builtin(_size),
    "array_size": Builtin(_size),
    "cardinality": Builtin(_size),
}
