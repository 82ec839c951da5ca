"""Policies that sample: a random part of the results, each with its weight (Memory, section 4).

A result's weight is the inverse of its sampling probability, so weighted sums and counts over the sample are
unbiased. Parameters that are not given follow from the memory and from learned statistics of the streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windrow.errors import QueryError
from windrow.model.policies.base import (
    MemoryPolicy,
    check_learnable,
    decay,
    is_amount,
    known_age_curves,
    number_of_age_bins,
    policy,
    width_of_sketch,
)
from windrow.model.settings import choice, number, optional, setting

MODELS = ("frequency", "age")
Expected = Mapping[str, Mapping[object, float]]
DEVIATIONS = number("a number of standard deviations", lambda n: n >= 0)


def _expected(expected: Any) -> Expected:
    if not isinstance(expected, Mapping):
        raise QueryError(f"must map aliases to results, got {expected!r}")
    for alias, results in expected.items():
        if not isinstance(results, Mapping) or not all(map(is_amount, results.values())):
            raise QueryError(
                f"must map an alias to results by value, from 0 up, got {results!r} for '{alias}'"
            )
    return expected


def _expected_results() -> Any:
    known = "Known results of a stored row: alias to results by value of its key. None: learned."
    return setting(optional(_expected), known, default=None)


@policy
class SamplingPolicy(MemoryPolicy):
    """Settings of all sampling policies."""

    samples = True
    p: float | None = setting(
        optional(number("a fraction above 0 and up to 1", lambda p: 0 < p <= 1)),
        "The sampling fraction: of the results for `uniform`, of the rows for the others. None: as much as "
        "fits into the memory.",
        default=None,
    )
    margin: float = setting(
        DEVIATIONS,
        "Memory left free for random variation, in standard deviations of the memory demand.",
        default=1.0,
    )
    half_life: float = decay()


@policy
class Cluster(SamplingPolicy):
    """Keeps each row with the same probability, and then until it expires: all its results, or none
    (EQ-CLUSTER).

    Needs no model, and supports any number of streams.
    """

    name = "cluster"


@policy
class PpsCluster(SamplingPolicy):
    """Keeps rows with probabilities proportional to their expected results (PPS-CLUSTER)."""

    name = "pps-cluster"
    sketch_width: int = width_of_sketch()
    expected: Expected | None = _expected_results()


@policy
class Uniform(SamplingPolicy):
    """Samples every result independently with the same probability, and keeps a row until the last sampled
    result it is expected to find (UNIFORM). For two streams. Where keys arrive in bursts, rows find far more
    than expected, which only a few monitored rows see: the recall's interval is then too narrow.
    """

    name = "uniform"
    model: str | None = setting(
        optional(choice("model", *MODELS)),
        'How the results of a row are predicted: "frequency", from its key; "age", as the stream\'s mean. '
        "None: by frequency where the streams share a key.",
        default=None,
    )
    reach: float = setting(
        DEVIATIONS,
        "How far beyond the expected number a row's results are followed, in standard deviations of a "
        "Poisson number. Results beyond that are seen on monitored rows only, with a large weight; without "
        "monitored rows they are missed, as in the paper (reach=0, monitor_fraction=0).",
        default=3.0,
    )
    sketch_width: int = width_of_sketch()
    age_bins: int = number_of_age_bins()
    expected: Expected | None = _expected_results()
    age_curves: Mapping[str, tuple[float, ...]] | None = known_age_curves()

    def _validate(self) -> None:
        super()._validate()
        if self.model == "age":
            check_learnable(self.age_curves, self.monitor_fraction)

    def check(self, aliases: Sequence[str]) -> None:
        super().check(aliases)
        if len(aliases) > 2:
            raise QueryError(
                f"'uniform' samples the results of two streams, got {len(aliases)}: "
                f"{', '.join(aliases)}; use 'cluster' or 'pps-cluster'"
            )
