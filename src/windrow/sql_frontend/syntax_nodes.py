"""Syntax nodes that the dialect adds to SQL."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Within(exp.Expression):
    """A window: `RANGE 1 MINUTE`, `ROWS 1000`, `PARTITION BY k ROWS 100`.

    `this` is the size as text ("1 MINUTE", "1000"), `kind` is "time", "rows" or "rows per key".
    """

    arg_types: ClassVar = {"this": True, "kind": True, "expressions": False}


class Assignment(exp.Expression):
    """`memory = '64 MiB'`."""

    arg_types: ClassVar = {"this": True, "expression": True}


class Assignments(exp.Expression):
    """`(memory = '64 MiB', shed = 'age')`, after WITH or in CREATE STREAM."""

    arg_types: ClassVar = {"expressions": True}


class CreateStream(exp.Expression):
    """`CREATE STREAM bids (id BIGINT, at TIMESTAMP) TIME at FROM (format = 'parquet', path = 'bids')`."""

    arg_types: ClassVar = {"this": True, "columns": False, "time": False, "options": True}


class Explain(exp.Expression):
    """`EXPLAIN SELECT ...`."""

    arg_types: ClassVar = {"this": True}
