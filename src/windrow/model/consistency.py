"""Checks that the settings of a query fit each other; each has already been read on its own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.join_kind import CERTAIN, INNER
from windrow.model.settings import choice

if TYPE_CHECKING:
    from windrow.model.query import Query

ORDERS = ("heuristic", "low-selectivity", "exhaustive")
MOST_EXHAUSTIVE = 5
"""Maximum number of streams for which all orders can be tried."""


def check_consistency(query: Query) -> None:
    """Refuse a query whose settings do not fit each other."""
    _check_limits(query)
    _check_deadline(query)
    _check_kind(query)
    for alias in query.late if isinstance(query.late, Mapping) else ():
        if alias not in query.streams:
            raise QueryError(unknown("stream", str(alias), query.aliases), Option("late"))


def _check_limits(query: Query) -> None:
    limit, policy, count = query.memory_limit, query.memory_policy, len(query.streams)
    if query.disk_limit is not None and limit is None:
        raise QueryError(
            f"{query.disk_limit} on disk holds what does not fit into memory; pass memory='2 GiB' or similar "
            "as well, or leave disk out",
            Option("disk"),
        )
    if query.disk_limit is not None and limit is not None and limit.kind == "rows":
        raise QueryError(
            f"windows spill to disk by bytes, and {limit} counts rows; pass bytes such as memory='2 GiB', or "
            "leave disk out",
            Option("memory"),
        )
    with placed(Option("shed")):
        if not isinstance(policy.split, str) and set(policy.split) != set(query.streams):
            raise QueryError(
                f"split must give a share to each of {list(query.streams)}, got {dict(policy.split)}"
            )
        if query.shed_limit is None and policy.samples:
            remedy = "a limit on disk" if query.disk_limit is not None else "memory='64 MiB' or similar"
            raise QueryError(f"'{policy.name}' samples to stay inside a limit; pass {remedy}")
    with placed(Option(policy=policy.name)):
        policy.check(query.aliases)
    if limit is not None and limit.kind == "rows" and limit.size < count:
        raise QueryError(f"{limit} is less than one row for each of {count} streams", Option("memory"))


def _check_kind(query: Query) -> None:
    """A join that is not inner needs settings that support it."""
    if not query.kind.shapes:
        return
    option = Option("match" if query.how == INNER else "how")
    counted = next((a for a, s in query.streams.items() if s.window.kind == "rows per key"), None)
    if counted is not None:
        raise QueryError(
            f"the window of '{counted}' is counted in rows per key, and only inner joins have such windows: "
            f"rows without a key would never leave; count the rows of all keys, or give '{counted}' a time, "
            "such as within='5 minutes'",
            option,
        )
    if query.sampled:
        raise QueryError(
            f"a '{query.memory_policy.name}' sample has weights for inner joins only; choose another policy "
            "such as 'auto'",
            Option("shed"),
        )
    if query.kind.reports_certainty and CERTAIN in query.streams:
        raise QueryError(
            f"results of this join have a column '{CERTAIN}' under a limit; rename the stream",
            Option("streams"),
        )


def _check_deadline(query: Query) -> None:
    if query.deadline is None:
        return
    policy, memory = query.time_policy, query.memory_policy
    with placed(Option(policy=policy.name)):
        policy.check([s.window.size for s in query.streams.values() if s.window.is_time])
    if query.counts_rows and policy.buffer_rows is not None:
        raise QueryError(
            "windows counted in rows must see every row, so none may wait in a buffer or be dropped from it; "
            "leave buffer_rows out",
            Option("shed"),
        )
    if query.sampled:
        raise QueryError(
            f"a '{memory.name}' sample has weights only if all its results are found; leave the deadline "
            "out, or choose another policy such as 'auto'",
            Option("shed"),
        )
    if query.algorithm != "eager":
        raise QueryError(
            "parts of windows are chosen by their age against the arriving row, so probing must start from "
            f"it: algorithm must be 'eager', got {query.algorithm!r}",
            Option("deadline"),
        )


def read_order(value: Any) -> str | tuple[str, ...] | Mapping[str, tuple[str, ...]]:
    """Read a strategy, or aliases; `checked_order` checks whether these exist."""
    if isinstance(value, str):
        return choice("order", *ORDERS)(value)
    if isinstance(value, Mapping):
        return {alias: tuple(order) for alias, order in value.items()}
    if not isinstance(value, list | tuple):
        raise QueryError(f"expected {', '.join(ORDERS)} or aliases in order, got {value!r}")
    return tuple(value)


def checked_order(query: Query) -> str | Mapping[str, tuple[str, ...]]:
    """A strategy's name, or alias of the arriving stream -> all aliases in probing order."""
    order, aliases = query.order, list(query.streams)
    if isinstance(order, str):
        if order == "exhaustive" and len(aliases) > MOST_EXHAUSTIVE:
            raise QueryError(
                f"'exhaustive' tries every order and is for up to {MOST_EXHAUSTIVE} streams; use 'heuristic'"
            )
        return order
    if not isinstance(order, Mapping):
        _check_permutation(order, aliases, "")
        if query.algorithm == "eager":
            return MappingProxyType({a: (a, *(x for x in order if x != a)) for a in aliases})
        return MappingProxyType(dict.fromkeys(aliases, order))
    orders: dict[str, tuple[str, ...]] = {}
    for alias in aliases:
        if alias not in order:
            raise QueryError(f"direction '{alias}' is missing; give an order for each of {aliases}")
        # An order may leave out the arriving stream, which starts it.
        given = order[alias] if alias in order[alias] else (alias, *order[alias])
        _check_permutation(given, aliases, f"direction '{alias}': ")
        orders[alias] = given
    return MappingProxyType(orders)


def _check_permutation(given: tuple[str, ...], aliases: list[str], direction: str) -> None:
    if len(given) != len(aliases) or set(given) != set(aliases):
        raise QueryError(f"{direction}expected each of {sorted(aliases)} once, got {list(given)}")
