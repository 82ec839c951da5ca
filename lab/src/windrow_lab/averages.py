"""Means over the seeds of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from windrow_lab.experiment import Row


def pivot(rows: Sequence[Row], *by: str, of: str) -> Any:
    """Means of a column by other columns, as nested dictionaries. Rows without a value are left out.

    >>> rows = [{"n": 1, "x": 2.0}, {"n": 1, "x": 4.0}, {"n": 2, "x": None}]
    >>> pivot(rows, "n", of="x"), pivot(rows, of="x")
    ({1: 3.0}, 3.0)
    """
    known = [row for row in rows if row.get(of) is not None]
    if not known:
        raise KeyError(of)
    if not by:
        return fmean(row[of] for row in known)
    groups: dict[Any, list[Row]] = {}
    for row in known:
        groups.setdefault(row[by[0]], []).append(row)
    return {key: pivot(group, *by[1:], of=of) for key, group in groups.items()}


def average(rows: Sequence[Row], by: Sequence[str], of: Sequence[str]) -> list[Row]:
    """One row for each combination of the columns `by`, with the means of the columns `of`.

    >>> average([{"n": 1, "x": 2.0}, {"n": 1, "x": 4.0}], by=["n"], of=["x"])
    [{'n': 1, 'x': 3.0}]
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [
        dict(zip(by, key, strict=True)) | {name: fmean(row[name] for row in group) for name in of}
        for key, group in groups.items()
    ]
