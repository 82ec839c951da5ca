"""What a ranking may know of the join it works for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from windrow.model.predicate import Word
from windrow.model.query import Function, Query
from windrow.planning.equivalence import Class


@dataclass(frozen=True)
class Context:
    query: Query
    schemas: tuple[pa.Schema, ...]
    words: tuple[tuple[Word, ...], ...]
    """Per stream, in the order of `View.words`."""
    classes: tuple[Class, ...]
    """Which words must be equal."""
    functions: Mapping[str, Function]
