"""Turns a join order into steps: for each window, what its index looks up and what is checked afterwards.

Invariant along an order: every condition among the bound streams holds. So a further stream adds exactly the
conditions that read it and otherwise only bound streams. Of a class of equal columns one comparison with any
bound member is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.model.access import Access
from windrow.model.plan import BoundEquality, Condition, Driver, Step, own_column
from windrow.model.predicate import (
    Atom,
    Band,
    Class,
    Comparison,
    Equality,
    Predicate,
    Residual,
    SetSimilarity,
)


def steps_of(order: Sequence[int], predicate: Predicate, paths: Sequence[Access | None]) -> tuple[Step, ...]:
    """The steps after the first stream of `order`. `paths` are the access paths the user chose, by stream."""
    return tuple(
        _step(stream, frozenset(order[: k + 1]), predicate, paths[stream])
        for k, stream in enumerate(order[1:])
    )


def _step(stream: int, bound: frozenset[int], predicate: Predicate, path: Access | None) -> Step:
    def is_due(condition: Atom | Residual) -> bool:
        return stream in condition.streams and condition.streams <= bound | {stream}

    matches = _matches(stream, bound, predicate.classes)
    ranges = [a for a in predicate.atoms if not isinstance(a, Equality) and is_due(a)]
    return step_of(stream, matches, ranges, [r for r in predicate.residuals if is_due(r)], path)


def step_of(
    stream: int,
    matches: Sequence[BoundEquality],
    ranges: Sequence[Band | Comparison],
    residuals: Sequence[Residual],
    path: Access | None,
    leading: Sequence[BoundEquality] | None = None,
) -> Step:
    """The step that checks these conditions. Of the equalities, an index may look up those in `leading`."""
    alike = [r.similarity for r in residuals if r.similarity is not None]
    access, driver = _access(stream, matches if leading is None else leading, ranges, alike, path)
    checks = tuple(c for c in (*matches, *ranges) if not _guaranteed(c, driver, access))
    # An inverted index counts the shared elements of each pair, which decides the condition that drives it.
    left = tuple(r for r in residuals if r.similarity is None or r.similarity not in driver)
    return Step(stream, access, driver, checks, left)


def _matches(stream: int, bound: frozenset[int], classes: Sequence[Class]) -> list[BoundEquality]:
    """One equality per class that links the stream to a bound one.

    Any column of the stream will do: rows in which two columns of one class differ are not admitted.
    """
    found = []
    for members in classes:
        own = next((w for w in members if w.stream == stream), None)
        partner = next((w for w in members if w.stream in bound), None)
        if own is not None and partner is not None:
            found.append(BoundEquality(own, partner))
    return found


def _access(
    stream: int,
    matches: Sequence[BoundEquality],
    ranges: Sequence[Band | Comparison],
    alike: Sequence[SetSimilarity],
    path: Access | None,
) -> tuple[Access, tuple[Driver, ...]]:
    """The access path and the conditions that drive it.

    Takes the user's path if a condition can drive it. Otherwise a hash index for equalities, a sorted index
    for bands, an inverted index for sets, and a scan for the rest.
    """
    given = None if path is None else path.path
    if given == "inverted":
        if alike:
            return Access("inverted"), (_strictest(alike),)
        given = path = None
    if matches and given in (None, "hash"):
        return path or Access("hash"), tuple(matches)
    driver = _range_driver(stream, matches, ranges)
    if path is not None and given in ("sorted", "scan"):
        return (path if driver or given == "scan" else Access("scan")), driver
    if any(isinstance(c, Band) for c in driver):
        return Access("sorted"), driver
    return (Access("inverted"), (_strictest(alike),)) if alike else (Access("scan"), driver)


def _strictest(alike: Sequence[SetSimilarity]) -> SetSimilarity:
    """The condition that is likely to find least: a jaccard before an overlap, then the highest threshold."""
    return max(alike, key=lambda c: (c.measure == "jaccard", c.threshold))


def _range_driver(
    stream: int, matches: Sequence[BoundEquality], ranges: Sequence[Band | Comparison]
) -> tuple[Condition, ...]:
    """All conditions that bound one column of the stream: that of the first equality, else of the first band,
    else of the first comparison."""
    usable: list[Condition] = [
        *matches,
        *(c for c in ranges if isinstance(c, Band)),
        *(c for c in ranges if isinstance(c, Comparison) and c.op != "<>"),
    ]
    if not usable:
        return ()
    column = own_column(usable[0], stream)
    return tuple(c for c in usable if own_column(c, stream) == column)


def _guaranteed(condition: Condition, driver: tuple[Driver, ...], access: Access) -> bool:
    """Whether the index alone ensures the condition."""
    if condition not in driver:
        return False
    if isinstance(condition, BoundEquality):
        # Several columns are mixed into one key, and equal keys do not prove equal columns.
        return access.path != "hash" or len(driver) == 1
    # Ranges of floats are a little too wide, because of rounding, so the band itself is checked as well.
    if isinstance(condition, Band):
        return condition.left.kind == "int"
    # Ranges include their ends.
    return isinstance(condition, Comparison) and condition.op in ("<=", ">=")
