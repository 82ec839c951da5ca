"""Policies that keep the most results, by models learned from the streams (Memory, section 3).

Parameters that are not given are learned while the query runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windrow.errors import QueryError
from windrow.model.keywords import checks_keywords
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.importance import BY, By
from windrow.model.policies.validation import AGE_BINS, AGE_CURVES, HALF_LIFE, SKETCH_WIDTH
from windrow.model.settings import choice, setting

AGE_METHODS = ("priority", "envelope")


@checks_keywords("wr.policies.Age")
@dataclass(frozen=True, kw_only=True)
class Age(MemoryPolicy):
    """Keeps rows at the ages at which they find most (Memory, section 3.2), for any age curve.

    Parameters
    ----------
    buckets
        Number of age bins: equal parts of the window.
    curves
        Known age curves: alias to the results of a row in each of equally long parts of its window, youngest
        first. A stream that is not named finds nothing when stored. None: learned.
    method
        "priority" evicts the rows that find least per second of being kept from now on, which adapts to
        bursts. "envelope" gives each row one of two retention times in advance, which is optimal for rows
        that arrive evenly.
    half_life
        Half-life of the learned statistics, in windows.
    """

    name = "age"
    buckets: int = field(default=40, metadata=AGE_BINS)
    curves: Mapping[str, tuple[float, ...]] | None = field(default=None, metadata=AGE_CURVES)
    method: str = field(default="priority", metadata=setting(choice("method", *AGE_METHODS)))
    half_life: float = field(default=4.0, metadata=HALF_LIFE)

    def _validate(self) -> None:
        super()._validate()
        if self.curves is None and self.monitor == 0:
            raise QueryError(
                "curves cannot be learned without monitored rows; pass curves, or monitor above 0"
            )


@checks_keywords("wr.policies.Frequency")
@dataclass(frozen=True, kw_only=True)
class Frequency(MemoryPolicy):
    """Keeps rows whose key arrives often on the other streams (PROB; Memory, section 3.3).

    Parameters
    ----------
    width
        Counters per stream and key. If there are more key values, they share counters.
    half_life
        Half-life of the counts, in windows.
    """

    name = "frequency"
    width: int = field(default=8192, metadata=SKETCH_WIDTH)
    half_life: float = field(default=4.0, metadata=HALF_LIFE)


@checks_keywords("wr.policies.Auto")
@dataclass(frozen=True, kw_only=True)
class Auto(MemoryPolicy):
    """Keeps the rows that are expected to find most per byte, by age, key and importance together.

    Parameters
    ----------
    by
        The importance of results, as in `Importance`; None: all results count the same.
    buckets, width, half_life
        As in `Age` and `Frequency`.
    """

    name = "auto"
    by: By = field(default=None, metadata=BY)
    buckets: int = field(default=40, metadata=AGE_BINS)
    width: int = field(default=8192, metadata=SKETCH_WIDTH)
    half_life: float = field(default=4.0, metadata=HALF_LIFE)


POLICIES: tuple[type[MemoryPolicy], ...] = (Age, Frequency, Auto)
