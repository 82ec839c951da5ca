"""Entry point of this layer: parses text into statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from windrow.errors import Option, QueryError
from windrow.model.query import Function
from windrow.sql_frontend.from_clause import CreatedStream, read_create
from windrow.sql_frontend.grammar import STATEMENTS, CreateStream, Explain, WindrowDialect
from windrow.sql_frontend.scope import Parameter, StreamInfo
from windrow.sql_frontend.select import read_select
from windrow.sql_frontend.source_text import SourceText, TextLocation
from windrow.sql_frontend.statement import Script, Statement


@dataclass(frozen=True)
class ParsedScript:
    """A text that is grammatically correct. Names are checked by `bind`."""

    text: SourceText
    created: Mapping[str, CreatedStream]
    selects: tuple[exp.Expr, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The streams that are read, each once."""
        tables = (table for select in self.selects for table in select.find_all(exp.Table))
        return tuple(dict.fromkeys(".".join(part.name for part in table.parts) for table in tables))

    def check_selects(self) -> None:
        """Refuse a text without a SELECT."""
        if not self.selects:
            raise self.text.error("there is no SELECT; add one that reads the streams created", None)

    def bind(
        self,
        known: Mapping[str, StreamInfo] | None = None,
        time: str | None = None,
        functions: Mapping[str, Function | Callable[..., Any]] | None = None,
        parameters: Mapping[str, Parameter] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Script:
        """Resolve every name.

        Parameters
        ----------
        known
            The streams by name, with their columns where these are known; None accepts any name.
        time
            The time column of streams that do not name one.
        functions
            Python functions that conditions may call.
        parameters
            Values of names that are not columns, such as a threshold.
        settings
            Settings that replace those of WITH in every statement, as `read_texts` returns them.
        """
        for given, value in (parameters or {}).items():
            if not isinstance(value, str | int | float | bool | None):
                raise QueryError(
                    f"expected a text, a number, a truth value or None, got {value!r}",
                    Option(given, section="parameters"),
                )
        if known is not None or self.created:
            known = {**(known or {}), **self._declared(known or {})}
        found: dict[str, Statement] = {}
        for number, select in enumerate(self.selects, 1):
            explain = isinstance(select, Explain)
            tree = select.this if explain else select
            name = "query" if len(self.selects) == 1 else f"query{number}"
            values = (functions or {}, parameters or {}, settings or {})
            one = read_select(self.text, tree, name, known, time, *values, explain)
            if one.name in found:
                raise self.text.at(
                    f"two statements are called '{one.name}'; name one WITH (name = ...)", tree
                )
            found[one.name] = one
        return Script({n: c.source for n, c in self.created.items()}, tuple(found.values()))

    def locate(self, place: Option | None) -> TextLocation:
        """Where the stream that a place is about is created."""
        created = None if place is None else self.created.get(place.stream or "")
        return TextLocation(self.text, None if created is None else created.span)

    def _declared(self, known: Mapping[str, StreamInfo]) -> dict[str, StreamInfo]:
        """The streams created, with columns and time from `known` where CREATE STREAM has none."""
        return {
            name: StreamInfo(
                created.known.columns or known.get(name, StreamInfo()).columns,
                created.known.time or known.get(name, StreamInfo()).time,
            )
            for name, created in self.created.items()
        }


def parse_script(sql: str, name: str = "sql") -> ParsedScript:
    """Parse statements separated by semicolons.

    >>> parsed = parse_script("SELECT a.x FROM s a, t b WHERE a.k = b.k WINDOW 1 MINUTE")
    >>> print(parsed.bind(time="at"))
    query
      select   a.x
      from     s a [1 minute], t b [1 minute]
      join     a.k = b.k

    Raises
    ------
    QueryError
        With line, column and carets, if the text does not parse.
    """
    if not isinstance(sql, str):
        raise QueryError(f"expected a text, got {type(sql).__name__}", Option(name))
    text = SourceText(sql, name)
    try:
        trees = [tree for tree in sqlglot.parse(sql, dialect=WindrowDialect) if tree is not None]
    except (ParseError, TokenError) as error:
        raise text.refused(error) from None
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise text.error(f"there is no statement; {STATEMENTS}", None)
    created: dict[str, CreatedStream] = {}
    for tree in trees:
        if isinstance(tree, CreateStream):
            one = read_create(text, tree)
            if any(one.source.name.lower() == other.lower() for other in created):
                raise text.at(f"stream '{one.source.name}' is created twice", tree.this)
            created[one.source.name] = one
    return ParsedScript(text, created, tuple(tree for tree in trees if not isinstance(tree, CreateStream)))
