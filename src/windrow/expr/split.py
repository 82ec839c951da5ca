"""A predicate taken apart: text and schemas in, filters, atoms and residuals out.

Everything that can be wrong with a predicate is found here, before any data is read: its grammar, its
names, its types. Each conjunct goes to the cheapest place that can check it; see `model.predicate`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from windrow.errors import QueryError
from windrow.expr.atoms import Classifier
from windrow.expr.dialect import render
from windrow.expr.evaluate import evaluate, result_type
from windrow.expr.parse import conjuncts, parse, references
from windrow.expr.resolve import resolve
from windrow.model.predicate import Atom, Filter, Predicate, Residual
from windrow.model.query import Function


def split(text: str, schemas: Mapping[str, pa.Schema], functions: Mapping[str, Function]) -> Predicate:
    """The predicate `text` over the streams of `schemas` (alias to schema, in stream order)."""
    _check_functions(functions)
    node = resolve(parse(text, list(schemas), functions), schemas)
    types = {(alias, name): schemas[alias].field(name).type for alias, name in references(node)}
    _check_condition(node, types, functions)
    classifier = Classifier({alias: i for i, alias in enumerate(schemas)}, types, functions)
    filters: list[Filter] = []
    atoms: list[Atom] = []
    residuals: list[Residual] = []
    for part in conjuncts(node):
        streams = classifier.streams_of(part)
        found = classifier.atoms(part) if len(streams) == 2 else None
        if found is not None:
            atoms += found
        elif len(streams) > 1:
            residuals.append(Residual(streams, part, render(part)))
        elif streams or not _always(part, functions):
            filters.append(Filter(min(streams, default=0), part, render(part)))
    return Predicate(render(node), tuple(filters), tuple(dict.fromkeys(atoms)), tuple(residuals))


def _always(constant: exp.Expression, functions: Mapping[str, Function]) -> bool:
    """A condition without columns that is true: nothing to check. One that is false stays, on stream 0."""
    return evaluate(constant, {}, 1, functions)[0].as_py() is True


def _check_condition(
    node: exp.Expression, types: Mapping[tuple[str, str], pa.DataType], functions: Mapping[str, Function]
) -> None:
    kind = result_type(node, types, functions)
    if not pt.is_boolean(kind) and not pt.is_null(kind):
        raise QueryError(f"on: expected a condition that is true or false, got {render(node)} of type {kind}")


def _check_functions(functions: Mapping[str, Function]) -> None:
    seen: dict[str, str] = {}
    for name in functions:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise QueryError(
                f"functions: '{other}' and '{name}' differ only in case, which SQL ignores; rename one"
            )
