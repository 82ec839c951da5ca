"""Spans of the source text. An error shows the line and points at the span."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from windrow.errors import Option, QueryError, located
from windrow.redaction import redacted

_UNCLOSED = re.compile(r"Missing (\S+) from \d+:(\d+)")

Span = tuple[int, int]
"""(first character, last character)"""


@dataclass(frozen=True)
class SourceText:
    """A text of statements. Errors start with `name`: a file's name, or "sql"."""

    sql: str
    name: str = "sql"

    def error(self, message: str, span: Span | None, place: Option | None = None) -> QueryError:
        """An error at a place in the text.

        >>> print(SourceText("select a.x\\nfrom b").error("unknown stream 'b'", (16, 16)))
        sql, line 2, column 6: unknown stream 'b'
            from b
                 ^
        """
        return QueryError(message, place, TextLocation(self, span))

    def at(self, message: str, node: exp.Expr | None, place: Option | None = None) -> QueryError:
        return self.error(message, span_of(node) if node is not None else None, place)

    def locating(self, node: exp.Expr) -> AbstractContextManager[None]:
        """Errors raised in the block are at this node, unless they have a location already."""
        return located(lambda place: TextLocation(self, span_of(node)))

    def refused(self, error: ParseError | TokenError) -> QueryError:
        """The error of sqlglot's parser or tokenizer as ours."""
        if isinstance(error, TokenError):
            unclosed = _UNCLOSED.search(str(error.__cause__ or error))
            if unclosed is None:
                return self.error("cannot be read", None)
            start = int(unclosed[2])
            return self.error(f"{unclosed[1]} is opened here and never closed", (start, start))
        first = error.errors[0]
        near = str(first.get("highlight") or "")
        start = self._offset(int(first.get("line") or 1), int(first.get("col") or 1)) - max(len(near), 1)
        return self.error(_plain(str(first.get("description")), near), (start, start + max(len(near), 1) - 1))

    def _offset(self, line: int, column: int) -> int:
        """Offset of a line and column. sqlglot reports the column after a token's last character."""
        start = 0
        for _ in range(line - 1):
            start = self.sql.find("\n", start) + 1
        return start + column


@dataclass(frozen=True)
class TextLocation:
    """A span of the text, or all of it. Shows line and column, the line itself, and carets below."""

    text: SourceText
    span: Span | None

    def show(self, place: Option | None, message: str) -> str:
        full = f"{place}: {message}" if place else message
        if self.span is None or not self.text.sql:
            return f"{self.text.name}: {full}"
        sql = self.text.sql
        first = min(max(self.span[0], 0), len(sql) - 1)
        begins = sql.rfind("\n", 0, first) + 1
        ends = sql.find("\n", first)
        line = sql[begins : ends if ends >= 0 else len(sql)].rstrip()
        number, column = sql.count("\n", 0, first) + 1, first - begins + 1
        width = max(1, min(self.span[1] - first + 1, len(line) - column + 1))
        # The line is shown without credentials, so the carets are aligned with the redacted text. Tabs stay
        # tabs, because their width is the terminal's.
        lead = "".join("\t" if c == "\t" else " " for c in redacted(line[: column - 1]))
        where = f"{self.text.name}, line {number}, column {column}"
        return f"{where}: {full}\n    {line}\n    {lead}{'^' * width}"


# sqlglot's messages and ours. Its errors have no code, only text.
_MESSAGES = (
    (re.compile(r"Invalid expression.*", re.DOTALL), "'{near}' is not expected here"),
    (re.compile(r"Required keyword.*", re.DOTALL), "something is missing here"),
    (re.compile(r"Expecting (.*)", re.DOTALL), "expected {0} after this"),
    (re.compile(r"Expected (.*)", re.DOTALL), "expected {0}"),
    (re.compile(r"Found (.*)", re.DOTALL), "found {0}"),
)


def _plain(description: str, near: str) -> str:
    for pattern, message in _MESSAGES:
        if match := pattern.fullmatch(description):
            return message.format(*match.groups(), near=near)
    return description


def span_of(node: exp.Expr) -> Span | None:
    """From the first to the last name or value in a node; its parent's span if it has none."""
    spans = [
        (part.meta["start"], part.meta["end"])
        for part in node.walk()
        if isinstance(part, exp.Expression) and "start" in part.meta
    ]
    if not spans:
        return span_of(node.parent) if node.parent is not None else None
    return min(s for s, _ in spans), max(e for _, e in spans)


@dataclass(frozen=True)
class ClauseSpans:
    """The spans of a statement's options and streams."""

    text: SourceText
    whole: Span | None = None
    options: Mapping[str, Span | None] = field(default_factory=dict)
    """By the option's name: "on", "select", "memory"."""
    streams: Mapping[str, Span | None] = field(default_factory=dict)
    """By alias."""

    def locate(self, place: Option | None) -> TextLocation:
        """The span of an option; that of its stream or of the whole statement if it has none."""
        if place is None:
            return TextLocation(self.text, self.whole)
        option = "shed" if place.policy else place.name
        span = self.options.get(option or "") or self.streams.get(place.stream or "")
        return TextLocation(self.text, span or self.whole)
