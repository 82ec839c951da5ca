"""Kinds of join: which streams a result must have a row of, and what happens to a combination that lacks one.

The required streams form the *core*, an inner join. Each other stream follows at a *level* of its own: first
`exists` and `absent` streams, which only filter, then the others in the order of the query, like SQL's
sequence of LEFT JOINs. A condition belongs to the last level it refers to. A stream with `match` also has its
own level, even if required: only one of its rows is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from windrow.errors import Option, QueryError, placed, unknown

INNER = "inner"
Role = Literal["required", "optional", "exists", "absent"]
Match = Literal["last", "first", "nearest"]
KINDS = (INNER, "left", "right", "full", "semi", "anti")
ROLES = ("required", "optional", "exists", "absent")
MATCHES = ("last", "first", "nearest")
CERTAIN = "certain"
"""Result column: whether no shed row could have changed the result."""


@dataclass(frozen=True)
class Level:
    """A stream that is searched once the streams before it are bound."""

    stream: int
    role: Role
    match: Match | None = None


@dataclass(frozen=True)
class JoinShape:
    """A core, whose combinations are all decided, and the levels that decide them."""

    core: tuple[int, ...]
    levels: tuple[Level, ...]
    filters_core: bool = True
    """Whether conditions on the core alone filter it. If not, `on` is the ON of an outer join of two streams:
    a row that fails such a condition matches nothing."""

    def level_of(self, streams: Iterable[int]) -> int:
        """The level a condition on these streams belongs to; -1 for the core."""
        numbers = {level.stream: k for k, level in enumerate(self.levels)}
        return max((numbers.get(stream, -1) for stream in streams), default=-1)


@dataclass(frozen=True)
class JoinShapes:
    """`how` and `match`, parsed. An inner join has no shapes; a full outer join has one per side."""

    aliases: tuple[str, ...]
    shapes: tuple[JoinShape, ...]
    limited: bool
    """Whether rows may be shed."""

    @property
    def levels(self) -> list[Level]:
        return [level for shape in self.shapes for level in shape.levels]

    @property
    def eager(self) -> bool:
        """Whether the inner join finds the results with a row of every stream, so they are immediate."""
        return all(level.role == "optional" and level.match is None for level in self.levels)

    @property
    def pairwise(self) -> bool:
        """Whether a result of the inner join shows that a row has a match, and nothing else matters to it."""
        return all(
            len(x.core) == len(x.levels) == 1 and x.levels[0].match is None and x.levels[0].role != "required"
            for x in self.shapes
        )

    @property
    def hidden(self) -> frozenset[int]:
        """Streams without a column in the result."""
        return frozenset(level.stream for level in self.levels if level.role in ("exists", "absent"))

    @property
    def result_aliases(self) -> tuple[str, ...]:
        """Streams with a column in the result."""
        return tuple(alias for k, alias in enumerate(self.aliases) if k not in self.hidden)

    @property
    def reports_certainty(self) -> bool:
        """Whether results have the column `CERTAIN`: if a shed row can make one false."""
        return self.limited and any(x.role in ("optional", "absent") or x.match for x in self.levels)

    @classmethod
    def parse(
        cls,
        how: str | Mapping[str, str],
        match: Mapping[str, str] | None,
        aliases: tuple[str, ...],
        limited: bool,
    ) -> JoinShapes:
        with placed(Option("match")):
            chosen = dict(match or {})
            _check_aliases(chosen, aliases)
        with placed(Option("how")):
            if isinstance(how, str):
                return cls(aliases, _named(how, chosen, aliases), limited)
            _check_aliases(how, aliases)
            roles = {a: how.get(a, "required") for a in aliases}
            return cls(aliases, _with_roles(roles, chosen, aliases), limited)


def read_how(value: Any) -> str | Mapping[str, str]:
    """Read a kind of join, or roles by alias."""
    if isinstance(value, Mapping):
        return _known_values(value, "role", ROLES)
    if not isinstance(value, str):
        raise QueryError(f"expected one of {', '.join(KINDS)}, or a role per stream, got {value!r}")
    if value not in KINDS:
        raise QueryError(unknown("kind of join", value, KINDS))
    return value


def read_match(value: Any) -> Mapping[str, str] | None:
    """Read which row is taken, by alias."""
    if value is not None and not isinstance(value, Mapping):
        raise QueryError(f"expected {', '.join(MATCHES)} by stream, such as {{'b': 'last'}}, got {value!r}")
    return _known_values(value, "match", MATCHES) if value else None


def _known_values(given: Mapping[str, str], kind: str, known: Sequence[str]) -> Mapping[str, str]:
    for alias, value in given.items():
        if value not in known:
            raise QueryError(unknown(kind, value, known), Option(stream=alias))
    return dict(given)


def _check_aliases(given: Mapping[str, str], aliases: Sequence[str]) -> None:
    for alias in given:
        if alias not in aliases:
            raise QueryError(unknown("stream", alias, aliases))


def _named(how: str, match: Mapping[str, Any], aliases: Sequence[str]) -> tuple[JoinShape, ...]:
    if how == INNER:
        return _with_roles(dict.fromkeys(aliases, "required"), match, aliases) if match else ()
    if len(aliases) != 2:
        raise QueryError(
            f"'{how}' is for two streams, got {len(aliases)}; give each stream that is not required its "
            f"role, such as how={{'{aliases[-1]}': 'optional'}}"
        )
    if how in ("semi", "anti"):
        return _with_roles(
            {aliases[0]: "required", aliases[1]: "exists" if how == "semi" else "absent"}, match, aliases
        )
    kept = {"left": (0,), "right": (1,), "full": (0, 1)}[how]
    for side in kept:
        if aliases[side] in match:
            raise QueryError(
                f"a '{how}' join keeps every row of '{aliases[side]}', so none of them can be chosen; "
                "give match to the other stream",
                Option("match"),
            )
    return tuple(
        JoinShape((side,), (Level(1 - side, "optional", match.get(aliases[1 - side])),), filters_core=False)
        for side in kept
    )


def _with_roles(
    roles: Mapping[str, Any], match: Mapping[str, Any], aliases: Sequence[str]
) -> tuple[JoinShape, ...]:
    for alias in match:
        if roles[alias] in ("exists", "absent"):
            raise QueryError(
                f"stream '{alias}' is '{roles[alias]}' and has no row in the result to choose; leave it out",
                Option("match"),
            )
    if "required" not in roles.values():
        raise QueryError(
            f"no stream is required, so the combinations are undefined; got {dict(roles)}; "
            "leave one stream out of how, or use how='full' for two streams"
        )
    core = tuple(k for k, alias in enumerate(aliases) if roles[alias] == "required" and alias not in match)
    if not core:
        raise QueryError(
            "every required stream has a match, so there is no time to compare with; "
            f"leave one of {[a for a in aliases if roles[a] == 'required']} out",
            Option("match"),
        )
    if len(core) == len(aliases):
        return ()
    # Streams that only filter come first: what they exclude need not be searched for further.
    filtering = [k for k, alias in enumerate(aliases) if roles[alias] in ("exists", "absent")]
    rest = [k for k in range(len(aliases)) if k not in core and k not in filtering]
    levels = [Level(k, roles[aliases[k]], match.get(aliases[k])) for k in (*filtering, *rest)]
    return (JoinShape(core, tuple(levels)),)
