"""What a ranking knows about its join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from windrow.model.predicate import JoinColumn
from windrow.model.query import Function, Query
from windrow.planning.equivalence import Class


@dataclass(frozen=True)
class Context:
    query: Query
    schemas: tuple[pa.Schema, ...]
    join_columns: tuple[tuple[JoinColumn, ...], ...]
    """Per stream, in the order of `WindowView.words`."""
    classes: tuple[Class, ...]
    """Which words must be equal."""
    functions: Mapping[str, Function]
