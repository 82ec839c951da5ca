"""Averaging the rows of a sweep over its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from windrow.lab.experiment import Row


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
