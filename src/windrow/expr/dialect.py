"""The SQL dialect of predicates, and the canonical text of an expression.

Double quotes or backquotes quote names. Every call `f(...)` parses to a plain call by name: one table of
functions defines its meaning, and a user's function can have any name. Only calls with their own grammar
(cast, extract, case, if) have their own nodes.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect

_WITH_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT")


class WindrowPredicate(Dialect):
    """Registers itself with sqlglot under the name `windrowpredicate`."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar = ['"', "`"]

    class Parser(parser.Parser):
        FUNCTIONS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {name: parser.Parser.FUNCTION_PARSERS[name] for name in _WITH_GRAMMAR}
        NO_PAREN_FUNCTIONS: ClassVar = {}


def render(node: exp.Expr) -> str:
    """The canonical text of an expression: names unchanged, keywords and functions in capitals.

    >>> from windrow.expr.parse import parse
    >>> render(parse("lower( A.name )='x'", ["a"]))
    "LOWER(a.name) = 'x'"
    """
    return node.unnest().sql(dialect=WindrowPredicate, comments=False)
