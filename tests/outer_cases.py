"""Random outer, semi, anti and as-of joins: a case of `queries` with roles and matches drawn to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import windrow as wr
from outer_oracle import Question
from queries import Case, cases
from results import _struct
from windrow.testing.oracle import Term

KINDS = ("left", "right", "full", "semi", "anti")


@dataclass(frozen=True, repr=False)
class OuterCase(Case):
    """A case with a kind of join."""

    how: str | Mapping[str, str] = "inner"
    match: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        return f"how {self.how}, match {self.match}\n{super().__repr__()}"

    def query(self, **changes: Any) -> wr.Query:
        return super().query(**{"how": self.how, "match": self.match, **changes})

    def question(self) -> Question:
        rows = {alias: [] for alias in self.windows}
        order = sorted(
            (
                (row["ts"], number, position, alias, row)
                for number, call in enumerate(self.admitted().calls)
                for position, alias in enumerate(self.windows)
                for row in call.get(alias, ())
            ),
            key=lambda entry: entry[:3],
        )
        for seq, (_, _, _, alias, row) in enumerate(order):
            window, before = self.windows[alias], rows[alias]
            if not isinstance(window, int) and len(before) >= window[0]:
                before[-window[0]]["out"] = seq
            before.append(row | {"seq": seq, "out": math.inf})
        return Question(rows, self.windows, self.terms, self.how, self.match)

    def answer(self) -> Counter[tuple]:
        return self.question().answer()


def outer_ids(output: pa.Table) -> Counter[tuple]:
    """Ids of the rows of each result, None for a missing one."""
    if output.num_rows == 0:
        return Counter()
    names = [name for name in output.column_names if pa.types.is_struct(output.schema.field(name).type)]
    columns = []
    for name in names:
        struct = _struct(output.column(name))
        ids = struct.field("id").to_pylist()
        missing = struct.is_null().to_pylist()
        columns.append([None if gone else key for gone, key in zip(missing, ids, strict=True)])
    return Counter(zip(*columns, strict=True))


def linked(terms: list[Term], levels: list[str], bound: list[str]) -> bool:
    """Whether each stream has a term with those before it, as a join that is no cross product has."""
    for alias in levels:
        due = [t for t in terms if alias in t.aliases and len(t.aliases) > 1]
        if not any(set(t.aliases) <= {*bound, alias} for t in due) and bound:
            return False
        bound = [*bound, alias]
    return True


@st.composite
def outer_cases(draw: st.DrawFn, most_streams: int = 4, matches: bool = True, **options: Any) -> OuterCase:
    case: Case = draw(cases(most_streams=most_streams, **options))
    whole = {a: w if isinstance(w, int) else (w[0], False) for a, w in case.windows.items()}
    case = replace(case, windows=whole)  # only inner joins count rows per key
    aliases = list(case.windows)
    match: dict[str, str] | None = None
    matching = matches and draw(st.integers(0, 2)) == 0
    drawn = st.sampled_from(["last", "first", "nearest"])
    if len(aliases) == 2 and draw(st.integers(0, 3)) > 0:
        how: str | dict[str, str] = draw(st.sampled_from(KINDS))
        if matching and how in ("left", "right"):
            match = {aliases[1] if how == "left" else aliases[0]: draw(drawn)}
        elif matching and how != "full":
            how, match = "inner", {draw(st.sampled_from(aliases)): draw(drawn)}
    else:
        role = st.sampled_from(["optional", "optional", "optional", "exists", "absent", "required"])
        kept = draw(st.sampled_from(aliases))
        how = {a: draw(role) for a in aliases if a != kept}
        if matching:
            free = [a for a in aliases if a != kept and how[a] in ("required", "optional")]
            match = {a: draw(drawn) for a in free if draw(st.booleans())}
    if not isinstance(how, str):
        core = {a for a in aliases if how.get(a, "required") == "required" and a not in (match or {})}
        for a in aliases:  # what is only looked for cannot be referred to by others
            seen = {x for t in case.terms if a in t.aliases for x in t.aliases} - {a}
            if how.get(a) in ("exists", "absent") and not seen <= core:
                how[a] = "optional"
    fields = {name: getattr(case, name) for name in Case.__dataclass_fields__}
    found = OuterCase(**fields, how=how, match=match)
    return replace(found, options={**case.options, "allow_cross_join": True})
