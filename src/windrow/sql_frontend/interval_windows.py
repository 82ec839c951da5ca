"""Windows of streams that have none, from conditions on their times.

    b.at BETWEEN a.at AND a.at + INTERVAL '10' MINUTE

bounds `b.at - a.at` by 10 minutes and `a.at - b.at` by 0, so the window of `a` is 10 minutes and the window
of `b` has the minimum length. Bounds add up along a chain of streams. The conditions stay in the predicate,
so a window only has to be wide enough for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from sqlglot import exp

from windrow.expr.constants import interval_microseconds

Bounds = dict[tuple[str, str], int]
"""(later, earlier) to the maximum of later minus earlier, in microseconds."""


def interval_windows(conditions: Sequence[exp.Expr], times: Mapping[str, str]) -> dict[str, int]:
    """Windows in microseconds by alias. A stream has one if the conditions bound how much later each other
    stream's time can be.

    `times` holds the time column of each stream.
    """
    bounds: Bounds = {}
    for condition in conditions:
        for later, earlier, most in _bounds(condition, times):
            bounds[later, earlier] = min(most, bounds.get((later, earlier), most))
    # Shortest paths (Floyd and Warshall): `via` is the outer loop.
    for via, later, earlier in product(times, repeat=3):
        if (later, via) in bounds and (via, earlier) in bounds and later != earlier:
            most = bounds[later, via] + bounds[via, earlier]
            bounds[later, earlier] = min(most, bounds.get((later, earlier), most))
    found: dict[str, int] = {}
    for alias in times:
        own = [bounds.get((other, alias)) for other in times if other != alias]
        if own and None not in own:
            found[alias] = max(1, *(most for most in own if most is not None))
    return found


def _bounds(condition: exp.Expr, times: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """(later, earlier, most) for each bound `later - earlier <= most` in a condition."""
    condition = condition.unnest()
    if isinstance(condition, exp.Between):
        value, low, high = (condition.args[name] for name in ("this", "low", "high"))
        yield from _difference(low, value, times)
        yield from _difference(value, high, times)
    elif isinstance(condition, exp.LTE | exp.LT):
        yield from _difference(condition.left, condition.right, times)
    elif isinstance(condition, exp.GTE | exp.GT):
        yield from _difference(condition.right, condition.left, times)
    elif isinstance(condition, exp.EQ):
        yield from _difference(condition.left, condition.right, times)
        yield from _difference(condition.right, condition.left, times)


def _difference(small: exp.Expr, large: exp.Expr, times: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """The bound in `small <= large`, if both are times of streams plus or minus constants."""
    left, right = _shifted(small, times), _shifted(large, times)
    if left is not None and right is not None and left[0] != right[0]:
        yield left[0], right[0], right[1] - left[1]


def _shifted(node: exp.Expr, times: Mapping[str, str]) -> tuple[str, int] | None:
    """(alias, microseconds) of `alias.time` plus or minus intervals."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return (node.table, 0) if times.get(node.table) == node.name else None
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    time, span = node.left, node.right.unnest()
    if isinstance(node, exp.Add) and isinstance(node.left.unnest(), exp.Interval):
        time, span = node.right, node.left.unnest()
    base = _shifted(time, times)
    if base is None or not isinstance(span, exp.Interval):
        return None
    shift = round(interval_microseconds(span))
    return base[0], base[1] + (shift if isinstance(node, exp.Add) else -shift)
