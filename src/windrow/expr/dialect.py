"""The SQL that predicates are written in, and how an expression is printed.

Names may be quoted with double quotes or backquotes. Every call `f(...)` is parsed as a plain call by name,
so that one table of functions decides what it means and a user's own function can take any name; only what
has a grammar of its own (cast, extract, case, if) is a node of its own.
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
    """The canonical text of an expression: names as they are, keywords and functions in capitals.

    >>> from windrow.expr.parse import parse
    >>> render(parse("lower( A.name )='x'", ["a"]))
    "LOWER(a.name) = 'x'"
    """
    return node.unnest().sql(dialect=WindrowPredicate, comments=False)
