"""What a ranking knows about its join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from windrow.model.predicate import JoinColumn
from windrow.model.query import Function, Query
from windrow.planning.equivalence import Class


@dataclass(frozen=True)
class Context:
    query: Query
    schemas: tuple[pa.Schema, ...]
    join_columns: tuple[tuple[JoinColumn, ...], ...]
    """Per stream, in the order of `WindowView.join_columns`."""
    classes: tuple[Class, ...]
    """Join columns that are equal in every result."""
    functions: Mapping[str, Function]

    @cached_property
    def key_streams(self) -> list[list[int]]:
        """Per join key, the streams that share it."""
        shared = [sorted({column.stream for column in members}) for members in self.classes]
        return [streams for streams in shared if len(streams) > 1]

    @cached_property
    def key_columns(self) -> list[dict[int, int]]:
        """Per stream: join key to the number of its join column. A stream may have several columns of a key;
        in a result they are equal, so one is enough."""
        keys = [members for members in self.classes if len({column.stream for column in members}) > 1]
        return [
            {k: columns.index(c) for k, members in enumerate(keys) for c in members[::-1] if c in columns}
            for columns in self.join_columns
        ]
