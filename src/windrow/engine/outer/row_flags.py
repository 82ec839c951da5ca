"""What is known of a row's part in an outer join when it arrives, as bits of one number.

A row whose word is null or NaN can be in no inner result and is left out there. In an outer join it may still
be in a result that lacks a row of the other stream. So such rows are stored, and flags say which of their
words have a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from windrow.errors import Option, QueryError
from windrow.model.predicate import JoinColumn

Array = np.ndarray
FLAGS = "flags"
"""The column of a window that holds them."""
WHOLE = 1
"""The row can be in a result that has a row of every stream."""
PASSED = 2
"""The row fulfils the conditions on its stream alone."""
_FIRST_WORD = 2
MOST_WORDS = 60


def word_flags(words: Iterable[JoinColumn], all_words: Iterable[str]) -> int:
    """The bits that say that these words have a value; `all_words` are those of the stream, in their order.
    Sets have none: that of a null is empty."""
    place = {name: _FIRST_WORD + k for k, name in enumerate(all_words)}
    return sum(1 << place[name] for name in {w.name for w in words if w.kind != "set"})


def row_flags(
    count: int, passed: Array | None, valid: Mapping[str, Array | None], alike: Array | None
) -> Array:
    """`alike` is a mask of the rows whose words that must be equal are; None stands for all rows."""
    if len(valid) > MOST_WORDS:
        raise QueryError(
            f"an outer join compares up to {MOST_WORDS} expressions of a stream, got {len(valid)}",
            Option("on"),
        )
    flags = np.full(count, WHOLE, np.int64)
    flags |= _bits(PASSED, passed)
    for mask in (passed, alike, *valid.values()):
        if mask is not None:
            flags &= np.where(mask, -1, ~WHOLE)
    for k, mask in enumerate(valid.values()):
        flags |= _bits(1 << (_FIRST_WORD + k), mask)
    return flags


def _bits(bit: int, mask: Array | None) -> Array | np.int64:
    return np.int64(bit) if mask is None else np.where(mask, np.int64(bit), np.int64(0))
