"""Spells columns as in the schemas of their streams.

A name that the schema has is taken as it is. Any other must match exactly one column regardless of case.
After this step two spellings of one expression have one canonical text.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from windrow.errors import QueryError, unknown


def resolve(node: exp.Expression, schemas: Mapping[str, pa.Schema]) -> exp.Expression:
    """A copy of `node` with every column spelled as in its stream's schema."""
    copy = node.copy()
    for column in copy.find_all(exp.Column):
        name = column_name(column.table, column.name, schemas[column.table].names)
        column.set("this", exp.to_identifier(name, quoted=not name.isidentifier()))
    return copy


def column_name(alias: str, name: str, names: list[str]) -> str:
    """`name` as the schema spells it; raises a QueryError that lists the stream's columns if none matches.

    >>> column_name("b", "Auction_ID", ["auction_id", "price"])
    'auction_id'
    """
    if name in names:
        if names.count(name) > 1:
            raise QueryError(
                f"stream '{alias}': column '{name}' occurs {names.count(name)} times; rename one"
            )
        return name
    alike = [n for n in names if n.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise QueryError(
            f"stream '{alias}': column '{name}' could be {' or '.join(alike)}; write it in the right case"
        )
    raise QueryError(f"stream '{alias}': {unknown('column', name, names)}")
