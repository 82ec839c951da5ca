"""Functions of text. Characters are Unicode code points, counted from 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.errors import QueryError
from windrow.expr.arguments import Argument
from windrow.expr.casts import cast
from windrow.expr.encoding import text_buffers
from windrow.expr.types import is_bytes, is_list, is_text
from windrow.expr.values import Value, broadcast, from_numpy, is_constant, rowwise, valid_mask
from windrow.kernels.levenshtein import levenshtein

Match = Callable[..., Value]


def _simple(call: Callable[..., Value], **options: str) -> Callable[[Argument], Value]:
    return lambda x: call(x.text(), **options)


def _list_size(x: Argument) -> Value:
    return cast(pc.list_value_length(x.lists()), pa.int64())


def _length(x: Argument) -> Value:
    if is_list(x.type):
        return _list_size(x)
    if is_bytes(x.type):
        return cast(pc.binary_length(x.value), pa.int64())
    return cast(pc.utf8_length(x.text()), pa.int64())


def _substring(x: Argument, start: Argument, length: Argument | None = None) -> Value:
    """`length` characters from `start`, or all. A negative start counts from the end; 0 means 1."""
    first, count = start.constant_int(), None if length is None else max(0, length.constant_int())
    if first > 0:
        first -= 1
    stop = None if count is None else first + count
    if first < 0 and stop is not None and stop >= 0:
        stop = None  # past the last character; as a stop, 0 would be before the first
    return pc.utf8_slice_codeunits(x.text(), start=first, stop=stop)


def _right(x: Argument, count: Argument) -> Value:
    wanted = count.constant_int()
    if wanted <= 0:
        return pc.utf8_slice_codeunits(x.text(), start=0, stop=0)
    return pc.utf8_slice_codeunits(x.text(), start=-wanted)


def _concat(first: Argument, *others: Argument) -> Value:
    """Null if any part is null. Values of other types are cast to text."""
    parts = [o.value if is_text(o.type) else cast(o.value, pa.string()) for o in (first, *others)]
    if any(pa.types.is_large_string(p.type) for p in parts):
        parts = [cast(p, pa.large_string()) for p in parts]
    return pc.binary_join_element_wise(*parts, pa.scalar("", parts[0].type), null_handling="emit_null")


def _replace(x: Argument, old: Argument, new: Argument) -> Value:
    pattern, replacement = old.constant_text(), new.constant_text()
    return pc.replace_substring(x.text(), pattern=pattern, replacement=replacement) if pattern else x.text()


def _matches(call: Match, x: Argument, pattern: Argument) -> Value:
    """A search for a pattern. Arrow takes only constants, so a column is searched by distinct pattern."""
    value, patterns = x.text(), pattern.text()
    if is_constant(patterns):
        if not patterns.is_valid:
            return pa.scalar(None, pa.bool_())
        _check(x.function, call, patterns.as_py())
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
        raise QueryError(f"{pattern!r} is not a valid pattern for {name}: {error}") from None


def _split(x: Argument, pattern: Argument) -> Value:
    """The parts of a text between matches of a regular expression."""
    wanted = pattern.constant_text()
    _check("split", pc.match_substring_regex, wanted)
    if pc.match_substring_regex(pa.scalar(""), wanted).as_py():  # Arrow would never come to an end
        raise QueryError(f"split takes a pattern that the empty text does not match, got {wanted!r}")
    return pc.split_pattern_regex(x.text(), wanted)


def _levenshtein(left: Argument, right: Argument) -> Value:
    def call(x: pa.Array, y: pa.Array) -> pa.Array:
        distances = np.empty(len(x), np.int64)
        levenshtein(*text_buffers(x), *text_buffers(y), distances)
        return from_numpy(distances, valid_mask(x, y))

    return rowwise(call, left.text(), right.text())


LIKE = {
    exp.Like: partial(_matches, pc.match_like),
    exp.ILike: partial(_matches, partial(pc.match_like, ignore_case=True)),
}
STRINGS: dict[str, Callable[..., Value]] = {
    "lower": _simple(pc.utf8_lower),
    "upper": _simple(pc.utf8_upper),
    "trim": _simple(pc.utf8_trim, characters=" "),
    "ltrim": _simple(pc.utf8_ltrim, characters=" "),
    "rtrim": _simple(pc.utf8_rtrim, characters=" "),
    "reverse": _simple(pc.utf8_reverse),
    **dict.fromkeys(("length", "len", "char_length"), _length),
    **dict.fromkeys(("size", "array_size", "cardinality"), _list_size),
    **dict.fromkeys(("substring", "substr"), _substring),
    "left": lambda x, n: pc.utf8_slice_codeunits(x.text(), start=0, stop=max(0, n.constant_int())),
    "right": _right,
    "concat": _concat,
    "replace": _replace,
    "split": _split,
    "levenshtein": _levenshtein,
    "contains": partial(_matches, pc.match_substring),
    **dict.fromkeys(("starts_with", "startswith"), partial(_matches, pc.starts_with)),
    **dict.fromkeys(("ends_with", "endswith"), partial(_matches, pc.ends_with)),
    **dict.fromkeys(("regexp_like", "rlike"), partial(_matches, pc.match_substring_regex)),
}
