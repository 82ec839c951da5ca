"""The grammar: SQL with windows on streams, limits and sources.

    SELECT ... FROM stream [AS] alias [RANGE 1 MINUTE], ... WHERE ... GROUP BY ...
    WINDOW 1 MINUTE WITH (memory = '64 MiB')
    CREATE STREAM name (column type, ...) TIME column FROM (format = 'parquet', path = '...')
    EXPLAIN SELECT ...

Calls are parsed as plain calls by name, as in predicates, so that one table defines all functions.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp, parser, tokens
from sqlglot.dialects.dialect import Dialect

from windrow.expr.dialect import WindrowPredicate

STATEMENTS = "expected SELECT, EXPLAIN SELECT or CREATE STREAM"


class Within(exp.Expression):
    """A window: `RANGE 1 MINUTE`, `ROWS 1000`, `PARTITION BY k ROWS 100`.

    `this` is the size as text ("1 MINUTE", "1000"), `kind` is "time", "rows" or "rows per key".
    """

    arg_types: ClassVar = {"this": True, "kind": True, "expressions": False}

    @property
    def size(self) -> str:
        """As `Window.parse` reads it."""
        kind = self.args["kind"]
        return str(self.this).lower() if kind == "time" else f"{self.this} {kind}"


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


class WindrowDialect(Dialect):
    """sqlglot registers it under the name `windrow`."""

    NUMBERS_CAN_BE_UNDERSCORE_SEPARATED = True

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar = ['"', "`"]
        COMMANDS: ClassVar = set()
        # As a command, EXPLAIN would take the rest of the statement as one string.
        KEYWORDS: ClassVar = {
            word: kind for word, kind in tokens.Tokenizer.KEYWORDS.items() if kind != TokenType.COMMAND
        }
        SINGLE_TOKENS: ClassVar = {
            **tokens.Tokenizer.SINGLE_TOKENS,
            "≠": TokenType.NEQ,
            "≤": TokenType.LTE,
            "≥": TokenType.GTE,
        }

    class Parser(parser.Parser):
        FUNCTIONS: ClassVar = WindrowPredicate.Parser.FUNCTIONS
        FUNCTION_PARSERS: ClassVar = WindrowPredicate.Parser.FUNCTION_PARSERS
        NO_PAREN_FUNCTIONS: ClassVar = WindrowPredicate.Parser.NO_PAREN_FUNCTIONS
        QUERY_MODIFIER_PARSERS: ClassVar = {
            **parser.Parser.QUERY_MODIFIER_PARSERS,
            TokenType.WINDOW: lambda self: ("within", self._parse_window_for_all()),
            TokenType.WITH: lambda self: ("settings", self._parse_limits()),
        }
        # In `GROUP BY window(...)` the word WINDOW starts a call, not the next clause.
        QUERY_MODIFIER_TOKENS: ClassVar = parser.Parser.QUERY_MODIFIER_TOKENS - {TokenType.WINDOW}
        TABLE_ALIAS_TOKENS: ClassVar = parser.Parser.TABLE_ALIAS_TOKENS - {TokenType.WINDOW}

        def _parse_statement(self) -> exp.Expr | None:
            if not self._curr:
                return None
            if self._match(TokenType.SEMICOLON):  # only comments before it
                return exp.Semicolon()
            if self._match_text_seq("CREATE", "STREAM"):
                return self._parse_stream_definition()
            explained = self._match_text_seq("EXPLAIN")
            if self._match(TokenType.WITH, advance=False):
                self.raise_error("WITH ... AS is not supported; write settings as WITH (...) at the end")
            if not self._match(TokenType.SELECT, advance=False):
                self.raise_error(STATEMENTS)
            first = self._curr
            select = self._parse_select()
            if select is not None:
                select.meta.update(start=first.start, end=first.end)
            return self.expression(Explain(this=select)) if explained else select

        def _parse_derived_table_values(self, *_: Any, **__: Any) -> None:
            """There is no VALUES clause; in `skewed_keys = (values = (1, 2), splits = 4)` it is a name."""

        def _parse_table(self, *_: Any, **__: Any) -> exp.Expr | None:
            """A stream in FROM: its name, its alias, its window."""
            if self._match(TokenType.L_PAREN, advance=False):
                self.raise_error("a subquery is not supported in FROM; make it a stream of its own")
            table = self._parse_table_parts()
            assert table is not None  # _parse_table_parts raises if the name is missing
            alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
            if alias:
                table.set("alias", alias)
            if self._match(TokenType.L_BRACKET):
                table.set("within", self._parse_within())
                if not self._match(TokenType.R_BRACKET):
                    self.raise_error("expected ] after the window")
            return table

        def _parse_join(self, *given: Any, **named: Any) -> exp.Join | None:
            if self._match(TokenType.COMMA):
                return self.expression(exp.Join(this=self._parse_table()))
            return super()._parse_join(*given, **named)

        def _placed(self, node: exp.Expr, first: Token) -> exp.Expr:
            """The node with its span in the text, which errors point at."""
            node.meta.update(start=first.start, end=self._prev.end)
            return self.expression(node)

        def _parse_within(self) -> exp.Expr:
            keys: list[exp.Expr] = []
            if self._match(TokenType.PARTITION_BY):
                keys = self._parse_csv(self._parse_column)
                if not self._match_text_seq("ROWS"):
                    self.raise_error("expected ROWS: windows per key are counted in rows")
                return self._rows("rows per key", keys)
            if self._match_text_seq("ROWS"):
                return self._rows("rows", keys)
            if self._match_text_seq("RANGE"):
                return self._duration()
            self.raise_error("expected a window: RANGE 1 MINUTE, ROWS 1000 or PARTITION BY key ROWS 100")
            raise AssertionError("raise_error raises")

        def _rows(self, kind: str, keys: list[exp.Expr]) -> exp.Expr:
            first = self._curr
            if not self._match(TokenType.NUMBER):
                self.raise_error("expected a number of rows")
            return self._placed(Within(this=self._prev.text, kind=kind, expressions=keys), first)

        def _duration(self) -> exp.Expr:
            """`1 MINUTE`, `1 minute 30 seconds`, `INTERVAL '1' MINUTE` or '1 minute'."""
            self._match(TokenType.INTERVAL)
            words, first = [], self._curr
            while self._match_set((TokenType.NUMBER, TokenType.STRING)):
                words.append(self._prev.text)
                if self._match_set((TokenType.VAR, TokenType.IDENTIFIER)):
                    words.append(self._prev.text.upper())
            if not words:
                self.raise_error("expected a time such as 1 MINUTE")
            return self._placed(Within(this=" ".join(words), kind="time"), first)

        def _parse_window_for_all(self) -> exp.Expr:
            self._match(TokenType.WINDOW)
            if self._match_text_seq("ROWS"):
                return self._rows("rows", [])
            self._match_text_seq("RANGE")
            return self._duration()

        def _parse_limits(self) -> exp.Expr:
            self._match(TokenType.WITH)
            return self._parse_options()

        def _parse_options(self) -> exp.Expr:
            if not self._match(TokenType.L_PAREN):
                self.raise_error("expected ( and settings such as memory = '64 MiB'")
            found = self._parse_csv(self._parse_option)
            if not self._match(TokenType.R_PAREN):
                self.raise_error("expected , or ) after a setting")
            if not found:
                self.raise_error("expected a setting such as memory = '64 MiB'", self._prev)
            return self.expression(Assignments(expressions=found))

        def _parse_option(self) -> exp.Expr | None:
            if self._match(TokenType.R_PAREN, advance=False):
                return None
            name = self._parse_id_var(any_token=True)
            while name is not None and self._match(TokenType.DOT):
                further = self._parse_id_var(any_token=True)
                name.set("this", f"{name.name}.{further.name if further else ''}")
            if not self._match(TokenType.EQ):
                self.raise_error("expected = and the setting's value")
            value = self._parse_bitwise()
            if value is None:
                self.raise_error("expected a value")
            return self.expression(Assignment(this=name, expression=value))

        def _parse_stream_definition(self) -> exp.Expr:
            name = self._parse_id_var()
            if name is None:
                self.raise_error("expected the stream's name")
            columns: list[exp.Expr] = []
            if self._match(TokenType.L_PAREN):
                columns = self._parse_csv(lambda: self._parse_field_def())
                if not self._match(TokenType.R_PAREN):
                    self.raise_error("expected , or ) after a column")
            time = None
            if self._match_text_seq("TIME"):
                time = self._parse_id_var()
                if time is None:
                    self.raise_error("expected the name of the time column")
            if not self._match_texts(("FROM", "OPTIONS")):
                self.raise_error("expected FROM (format = 'parquet', path = '...')")
            options = self._parse_options()
            return self.expression(CreateStream(this=name, columns=columns, time=time, options=options))
