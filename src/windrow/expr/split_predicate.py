"""Splits a predicate into filters, atoms and residuals, given its text and the schemas.

Every error in a predicate is found here, before any data is read: in its grammar, its names, its types. Each
conjunct goes to the cheapest place that can check it; see `model.predicate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain

import pyarrow as pa
from sqlglot import exp

from windrow.errors import Option, QueryError, placed
from windrow.expr.classify import Classifier
from windrow.expr.dialect import render
from windrow.expr.evaluate import check_condition, evaluate, result_type, with_nan_as_null
from windrow.expr.parse import conjuncts, detached, parse, references, resolve
from windrow.model.predicate import Atom, Filter, Predicate, Residual
from windrow.model.query import Function, NanRule


def split_predicate(
    text: str,
    schemas: Mapping[str, pa.Schema],
    functions: Mapping[str, Function],
    nan: NanRule = "spark",
) -> Predicate:
    """The predicate `text` over the streams of `schemas` (alias to schema, in stream order)."""
    with placed(Option("on")):
        if functions:
            return _split(text, schemas, functions, nan)
        return _split_cached(text, tuple(schemas.items()), nan)


@lru_cache(maxsize=256)
def _split_cached(text: str, schemas: tuple[tuple[str, pa.Schema], ...], nan: NanRule) -> Predicate:
    """Cached, because every task of a query splits the same predicate. Predicates with the user's functions
    are not, because the cache would keep alive what a function refers to."""
    return _split(text, dict(schemas), {}, nan)


def _split(
    text: str, schemas: Mapping[str, pa.Schema], functions: Mapping[str, Function], nan: NanRule
) -> Predicate:
    _check_functions(functions)
    node = resolve(parse(text, list(schemas), functions), schemas)
    types = {(alias, name): schemas[alias].field(name).type for alias, name in references(node)}
    check_condition(node, result_type(node, types, functions))
    classifier = Classifier({alias: i for i, alias in enumerate(schemas)}, types, functions, nan)
    filters: list[Filter] = []
    atoms: dict[Atom, exp.Expression] = {}
    residuals: list[Residual] = []
    for conjunct in chain.from_iterable(_halves(term, classifier) for term in conjuncts(node)):
        streams = classifier.streams_of(conjunct)
        atom = classifier.atom(conjunct)
        evaluated = with_nan_as_null(conjunct) if nan == "never" else conjunct
        if atom is not None:
            atoms.setdefault(atom, evaluated)
        elif len(streams) > 1:
            similarity = classifier.similarity(conjunct)
            residuals.append(Residual(streams, evaluated, render(conjunct), similarity))
        # A constant condition that is true needs no check. Any other becomes a filter on stream 0.
        elif streams or evaluate(evaluated, {}, 1, functions)[0].as_py() is not True:
            filters.append(Filter(min(streams, default=0), evaluated, render(conjunct)))
    return Predicate(render(node), tuple(filters), tuple(atoms), tuple(residuals), atoms)


def _halves(node: exp.Expression, classifier: Classifier) -> list[exp.Expression]:
    """`x between l and u` over several streams as two comparisons, if neither would be a residual."""
    if not isinstance(node, exp.Between) or len(classifier.streams_of(node)) < 2 or classifier.atom(node):
        return [node]
    value, low, high = (detached(node.args[name]) for name in ("this", "low", "high"))
    halves: list[exp.Expression] = [
        exp.GTE(this=value, expression=low),
        exp.LTE(this=value.copy(), expression=high),
    ]
    simple = all(len(classifier.streams_of(half)) < 2 or classifier.atom(half) for half in halves)
    return halves if simple else [node]


def _check_functions(functions: Mapping[str, Function]) -> None:
    seen: dict[str, str] = {}
    for name in functions:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise QueryError(
                f"'{other}' and '{name}' differ only in case, which SQL ignores; rename one",
                Option("functions"),
            )
