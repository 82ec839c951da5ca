"""Policies that give a sample of the results, each with its weight (Memory, section 4).

A result's weight is the inverse of the chance it had, so weighted sums and counts over the sample are right
on average. Parameters that are not given follow from the memory and from what is learned of the streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windrow.errors import QueryError, unknown
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.validation import (
    MOST_BUCKETS,
    MOST_COUNTERS,
    check_curves,
    check_half_life,
    check_most,
    is_amount,
)

MODELS = ("frequency", "age")
Expected = Mapping[str, Mapping[object, float]]


@dataclass(frozen=True, kw_only=True)
class SamplingPolicy(MemoryPolicy):
    """What all samples have in common.

    Parameters
    ----------
    p
        The part that is sampled: of the results for `uniform`, of the rows for the others. None: what fits.
    margin
        How much of the memory is left free for chance, in standard deviations of what is needed.
    half_life
        Of what is learned, in windows.
    """

    samples = True
    p: float | None = None
    margin: float = 1.0
    half_life: float = 4.0

    def _validate(self) -> None:
        super()._validate()
        if self.p is not None and not 0 < self.p <= 1:
            raise QueryError(f"p is a part above 0 and up to 1, got {self.p}")
        if not self.margin >= 0:
            raise QueryError(f"margin must be a number of standard deviations, got {self.margin}")
        check_half_life(self.half_life)

    def _check_width(self, width: int) -> None:
        if width < 16:
            raise QueryError(f"width must be a number from 16, got {width}")
        check_most("width", width, MOST_COUNTERS)

    def _check_expected(self, expected: Expected | None) -> None:
        if expected is not None and not isinstance(expected, Mapping):
            raise QueryError(f"expected maps aliases to results, got {expected!r}")
        for alias, results in (expected or {}).items():
            if not isinstance(results, Mapping) or not all(map(is_amount, results.values())):
                raise QueryError(
                    f"expected maps an alias to results by value, from 0 up, got {results!r} for '{alias}'"
                )


@dataclass(frozen=True, kw_only=True)
class Cluster(SamplingPolicy):
    """Keeps each row with the same chance, and then until it expires: all its results, or none (EQ-CLUSTER).

    Needs no model, and takes any number of streams.
    """

    name = "cluster"


@dataclass(frozen=True, kw_only=True)
class PpsCluster(SamplingPolicy):
    """Keeps rows with chances in proportion to the results they are expected to bring (PPS-CLUSTER).

    Parameters
    ----------
    width
        Counters per stream and key; values beyond that share them.
    expected
        Alias to the results a stored row of it brings, by value of its key; where known. None: learned.
    """

    name = "pps-cluster"
    width: int = 8192
    expected: Expected | None = None

    def _validate(self) -> None:
        super()._validate()
        self._check_width(self.width)
        self._check_expected(self.expected)


@dataclass(frozen=True, kw_only=True)
class Uniform(SamplingPolicy):
    """Chooses each result with the same chance, independently, and keeps a row until the last chosen result
    it is expected to bring (UNIFORM). For two streams. Where keys come in bursts, rows bring far more than is
    expected of them, which only a few monitored rows see: the recall's interval is then too narrow.

    Parameters
    ----------
    model
        What tells how many results a row brings: "frequency", its key; "age", the stream's mean. None:
        frequency where the streams share a key.
    reach
        How far beyond the expected number a row's results are followed, in standard deviations of a Poisson
        number. What comes later yet is seen on monitored rows only, at a large weight; without monitored
        rows it is lost, as in the paper (reach=0, monitor=0).
    width
        Counters per stream and key, for the frequencies.
    buckets
        How finely ages are told apart: parts of the window.
    expected
        As in `PpsCluster`, for the frequency model.
    curves
        As in `Age`, for the age model.
    """

    name = "uniform"
    model: str | None = None
    reach: float = 3.0
    width: int = 8192
    buckets: int = 40
    expected: Expected | None = None
    curves: Mapping[str, tuple[float, ...]] | None = None

    def _validate(self) -> None:
        super()._validate()
        if self.model is not None and self.model not in MODELS:
            raise QueryError(unknown("model", self.model, MODELS))
        if not self.reach >= 0:
            raise QueryError(f"reach must be a number of standard deviations, got {self.reach}")
        if self.buckets < 1:
            raise QueryError(f"buckets must be a number from 1, got {self.buckets}")
        check_most("buckets", self.buckets, MOST_BUCKETS)
        if self.curves is not None:
            check_curves(self.curves)
        if self.model == "age" and self.curves is None and self.monitor == 0:
            raise QueryError("without monitored rows no ages can be learned; give curves, or monitor")
        self._check_width(self.width)
        self._check_expected(self.expected)

    def check(self, aliases: Sequence[str]) -> None:
        if len(aliases) > 2:
            raise QueryError(
                f"'uniform' samples the results of two streams, got {len(aliases)}: "
                f"{', '.join(aliases)}; use 'cluster' or 'pps-cluster'"
            )


POLICIES: tuple[type[MemoryPolicy], ...] = (Uniform, Cluster, PpsCluster)
