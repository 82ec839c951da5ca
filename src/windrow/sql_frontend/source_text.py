"""Places in the source text: an error shows the line and points at the place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from windrow.errors import QueryError
from windrow.redaction import redacted

_UNCLOSED = re.compile(r"Missing (\S+) from \d+:(\d+)")
_PREFIX = re.compile(r"(stream '[^']*'|\w+)\b")

Span = tuple[int, int]
"""(first character, last character)"""


@dataclass(frozen=True)
class SourceText:
    """A text of statements; `name` is told in errors: a file's name, or "sql"."""

    sql: str
    name: str = "sql"

    def error(self, message: str, span: Span | None) -> QueryError:
        """The message, its line and column, the line itself, and carets under the place.

        >>> print(Text("select a.x\\nfrom b").error("unknown stream 'b'", (16, 16)))
        sql, line 2, column 6: unknown stream 'b'
            from b
                 ^
        """
        if span is None or not self.sql:
            return QueryError(f"{self.name}: {message}")
        first = min(max(span[0], 0), len(self.sql) - 1)
        begins = self.sql.rfind("\n", 0, first) + 1
        ends = self.sql.find("\n", first)
        line = self.sql[begins : ends if ends >= 0 else len(self.sql)].rstrip()
        number, column = self.sql.count("\n", 0, first) + 1, first - begins + 1
        width = max(1, min(span[1] - first + 1, len(line) - column + 1))
        # The carets stand under the line as it is shown, without credentials. Tabs stay tabs, whatever they
        # are worth.
        lead = "".join("\t" if c == "\t" else " " for c in redacted(line[: column - 1]))
        return QueryError(
            f"{self.name}, line {number}, column {column}: {message}\n    {line}\n    {lead}{'^' * width}"
        )

    def at(self, message: str, node: exp.Expr | None) -> QueryError:
        return self.error(message, span_of(node) if node is not None else None)

    def refused(self, error: ParseError | TokenError) -> QueryError:
        """What the parser or the tokenizer says."""
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
        """Of the character after the token, whose end sqlglot tells."""
        begins = 0
        for _ in range(line - 1):
            begins = self.sql.find("\n", begins) + 1
        return begins + column


def _plain(said: str, near: str) -> str:
    """sqlglot's words in ours."""
    if said.startswith("Invalid expression"):
        return f"'{near}' is not expected here"
    if said.startswith("Required keyword"):
        return "something is missing here"
    if said.startswith("Expecting"):
        return f"expected {said.removeprefix('Expecting').strip()} after this"
    return said[:1].lower() + said[1:] if said.startswith(("Expected", "Found")) else said


def span_of(node: exp.Expr) -> Span | None:
    """From the first to the last name or value in a node, or in what holds it if it has none."""
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
    """Where a statement speaks of what an error may be about."""

    text: SourceText
    whole: Span | None = None
    spans: Mapping[str, Span | None] = field(default_factory=dict)
    """"on", "stream 'a'", the name of a setting: how messages open that are about it."""

    def point(self, error: QueryError) -> QueryError:
        """The error with its place, as far as its first words tell."""
        message = str(error)
        if set(message.splitlines()[-1].strip()) == {"^"}:
            return error  # it has its place
        opening = _PREFIX.match(message)
        span = self.spans.get(opening[1]) if opening else None
        return self.text.error(message, span or self.whole)
