"""Python functions that predicates may call by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from windrow.errors import QueryError
from windrow.model.keywords import checks_keywords


@checks_keywords("wr.Function")
@dataclass(frozen=True)
class Function:
    """A Python function that predicates may call by name.

    `call` gets one Python value per argument, or whole pyarrow arrays if `vectorized`.
    """

    call: Callable[..., Any]
    returns: pa.DataType = field(default_factory=pa.bool_)
    vectorized: bool = False

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise QueryError(f"expected a function, got {self.call!r}")


def read_functions(value: Mapping[str, Function | Callable[..., Any]] | None) -> Mapping[str, Function]:
    given = (value or {}).items()
    wrapped = {name: f if isinstance(f, Function) else Function(f) for name, f in given}
    return MappingProxyType(wrapped)
