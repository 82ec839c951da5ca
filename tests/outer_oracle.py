"""The right answer of outer, semi, anti and as-of joins, by definition: SQL's sequence as nested loops.

Required streams form the core, an inner join. `exists` and `absent` streams filter its combinations, then the
other streams follow in their order, each as a LEFT JOIN (or, if it is required and has a `match`, an inner
one) of what stands so far. A row fits a combination if every term of its level holds and `ts_j - ts_i <= T_i`
for all pairs of rows that are there. A term belongs to the last stream it refers to. A stream that is missing
from a combination is a row of nulls.

For two streams with how="left", "right" or "full" all terms are the ON of that join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windrow.testing.oracle import Row, Term

Bound = dict[str, Row]


class _Missing(dict[str, Any]):
    """A row of nulls."""

    def __missing__(self, column: str) -> None:
        return None


MISSING = _Missing()


@dataclass(frozen=True)
class Question:
    """What is joined, over admitted rows."""

    streams: Mapping[str, Sequence[Row]]
    windows: Mapping[str, int | tuple[int, bool]]
    """Microseconds, or rows; rows of such a join have their place in the order of all streams as `seq`, and
    as `out` the place of the row that displaces them."""
    terms: Sequence[Term]
    how: str | Mapping[str, str] = "inner"
    match: Mapping[str, str] | None = None

    def answer(self) -> Counter[tuple]:
        """How often each tuple of row ids is a result; None for a missing row."""
        return Counter(tuple(row.get("id") for row in bound.values()) for bound in self.combinations())

    def combinations(self) -> Iterator[Bound]:
        """Results as alias -> row, in the order of the streams, without those that only filter."""
        if self.how not in ("left", "right", "full"):
            yield from self._sequence()
            return
        first, second = self.streams
        kept, other = (second, first) if self.how == "right" else (first, second)
        for row in self.streams[kept]:
            for found in self._fitting({kept: row}, other, self.terms) or [MISSING]:
                pair = {kept: row, other: found}
                yield {first: pair[first], second: pair[second]}
        if self.how == "full":
            for row in self.streams[second]:
                if not self._fitting({second: row}, first, self.terms):
                    yield {first: MISSING, second: row}

    def _sequence(self) -> Iterator[Bound]:
        roles = self._roles()
        match = self.match or {}
        core = [a for a in self.streams if roles[a] == "required" and a not in match]
        filtering = [a for a in self.streams if roles[a] in ("exists", "absent")]
        rest = [a for a in self.streams if a not in core and a not in filtering]
        order = [*core, *filtering, *rest]

        def level(term: Term) -> str:
            return max(term.aliases, key=order.index)

        def extend(bound: Bound, depth: int) -> Iterator[Bound]:
            if depth == len(order):
                yield {a: bound[a] for a in self.streams if a in bound}
                return
            alias = order[depth]
            own = [t for t in self.terms if level(t) == alias]
            found = self._fitting(bound, alias, own)
            if alias in filtering:
                if bool(found) == (roles[alias] == "exists"):
                    yield from extend(bound, depth + 1)
                return
            if not found and roles[alias] == "optional":
                found = [MISSING]
            for row in found:
                yield from extend(bound | {alias: row}, depth + 1)

        yield from extend({}, 0)

    def _roles(self) -> dict[str, str]:
        if isinstance(self.how, str):
            role = {"semi": "exists", "anti": "absent"}.get(self.how, "required")
            last = list(self.streams)[-1]
            return {a: role if a == last else "required" for a in self.streams}
        return {a: self.how.get(a, "required") for a in self.streams}

    def _inside(self, rows: Bound) -> bool:
        """Whether each row is in its window when the newest arrives."""
        for alias, row in rows.items():
            window = self.windows[alias]
            if isinstance(window, int):
                if any(other["ts"] - row["ts"] > window for other in rows.values()):
                    return False
            elif max(other["seq"] for other in rows.values()) >= row["out"]:
                return False
        return True

    def _fitting(self, bound: Bound, alias: str, terms: Sequence[Term]) -> list[Row]:
        """Rows of a stream that join a combination; of those only one where the stream has a match."""
        there = {a: row for a, row in bound.items() if row is not MISSING}
        found = [
            row
            for row in self.streams[alias]
            if self._inside(there | {alias: row})
            and all(term.holds(bound | {alias: row}) is True for term in terms)
        ]
        how = (self.match or {}).get(alias)
        if how is None:
            return found
        now = max(row["ts"] for row in there.values())
        if how == "last":
            found = [row for row in found if row["ts"] <= now]
            return sorted(found, key=lambda row: (-row["ts"], row["id"]))[:1]
        if how == "first":
            found = [row for row in found if row["ts"] > now]
            return sorted(found, key=lambda row: (row["ts"], row["id"]))[:1]
        return sorted(found, key=lambda r: (abs(r["ts"] - now), r["ts"] > now, r["id"]))[:1]
