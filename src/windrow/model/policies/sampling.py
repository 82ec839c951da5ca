"""Policies that return a sample of the results, each with its weight (Memory, section 4).

A result's weight is the inverse of its sampling probability, so weighted sums and counts over the sample are
unbiased. Parameters that are not given follow from the memory and from learned statistics of the streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windrow.errors import QueryError
from windrow.model.keywords import checks_keywords
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.validation import (
    AGE_BINS,
    AGE_CURVES,
    HALF_LIFE,
    SKETCH_WIDTH,
    is_amount,
    number,
)
from windrow.model.settings import choice, optional, setting

MODELS = ("frequency", "age")
Expected = Mapping[str, Mapping[object, float]]
DEVIATIONS = setting(number(lambda n: n >= 0, "a number of standard deviations"))


def _expected(expected: Any) -> Expected:
    if not isinstance(expected, Mapping):
        raise QueryError(f"must map aliases to results, got {expected!r}")
    for alias, results in expected.items():
        if not isinstance(results, Mapping) or not all(map(is_amount, results.values())):
            raise QueryError(
                f"must map an alias to results by value, from 0 up, got {results!r} for '{alias}'"
            )
    return expected


EXPECTED = setting(optional(_expected))


@dataclass(frozen=True, kw_only=True)
class SamplingPolicy(MemoryPolicy):
    """Settings of all sampling policies.

    Parameters
    ----------
    p
        The sampling fraction: of the results for `uniform`, of the rows for the others. None: as much as
        fits into the memory.
    margin
        Memory left free for random variation, in standard deviations of the memory demand.
    half_life
        Half-life of the learned statistics, in windows.
    """

    samples = True
    p: float | None = field(
        default=None,
        metadata=setting(optional(number(lambda p: 0 < p <= 1, "a fraction above 0 and up to 1"))),
    )
    margin: float = field(default=1.0, metadata=DEVIATIONS)
    half_life: float = field(default=4.0, metadata=HALF_LIFE)


@checks_keywords("wr.policies.Cluster")
@dataclass(frozen=True, kw_only=True)
class Cluster(SamplingPolicy):
    """Keeps each row with the same probability, and then until it expires: all its results, or none
    (EQ-CLUSTER).

    Needs no model, and supports any number of streams.
    """

    name = "cluster"


@checks_keywords("wr.policies.PpsCluster")
@dataclass(frozen=True, kw_only=True)
class PpsCluster(SamplingPolicy):
    """Keeps rows with probabilities proportional to their expected results (PPS-CLUSTER).

    Parameters
    ----------
    width
        Counters per stream and key. If there are more key values, they share counters.
    expected
        Known results of a stored row: alias to results by value of its key. None: learned.
    """

    name = "pps-cluster"
    width: int = field(default=8192, metadata=SKETCH_WIDTH)
    expected: Expected | None = field(default=None, metadata=EXPECTED)


@checks_keywords("wr.policies.Uniform")
@dataclass(frozen=True, kw_only=True)
class Uniform(SamplingPolicy):
    """Samples every result independently with the same probability, and keeps a row until the last sampled
    result it is expected to find (UNIFORM). For two streams. Where keys arrive in bursts, rows find far more
    than expected, which only a few monitored rows see: the recall's interval is then too narrow.

    Parameters
    ----------
    model
        How the results of a row are predicted: "frequency", from its key; "age", as the stream's mean. None:
        by frequency where the streams share a key.
    reach
        How far beyond the expected number a row's results are followed, in standard deviations of a Poisson
        number. Results beyond that are seen on monitored rows only, with a large weight; without monitored
        rows they are missed, as in the paper (reach=0, monitor=0).
    width
        Counters per stream and key, for the frequencies.
    buckets
        Number of age bins: equal parts of the window.
    expected
        As in `PpsCluster`, for the frequency model.
    curves
        As in `Age`, for the age model.
    """

    name = "uniform"
    model: str | None = field(default=None, metadata=setting(optional(choice("model", *MODELS))))
    reach: float = field(default=3.0, metadata=DEVIATIONS)
    width: int = field(default=8192, metadata=SKETCH_WIDTH)
    buckets: int = field(default=40, metadata=AGE_BINS)
    expected: Expected | None = field(default=None, metadata=EXPECTED)
    curves: Mapping[str, tuple[float, ...]] | None = field(default=None, metadata=AGE_CURVES)

    def _validate(self) -> None:
        super()._validate()
        if self.model == "age" and self.curves is None and self.monitor == 0:
            raise QueryError(
                "curves cannot be learned without monitored rows; pass curves, or monitor above 0"
            )

    def check(self, aliases: Sequence[str]) -> None:
        super().check(aliases)
        if len(aliases) > 2:
            raise QueryError(
                f"'uniform' samples the results of two streams, got {len(aliases)}: "
                f"{', '.join(aliases)}; use 'cluster' or 'pps-cluster'"
            )


POLICIES: tuple[type[MemoryPolicy], ...] = (Uniform, Cluster, PpsCluster)
