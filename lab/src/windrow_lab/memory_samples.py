"""Samples of join results, judged by a windowed average (Memory, s. 6.2.4).

At each second the average of a column over the results of the last `WINDOW` seconds is taken, of all results
and of the sampled ones with their weights. The error of a run is the mean distance between the two over the
mean size of the true average. (The paper averages the ratio at each moment; with a spread as large as the
mean the true average comes near 0 now and then, and such moments would count for more than others.) A moment
without a sampled result counts as an estimate of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow.compute as pc

import windrow as wr
from windrow.engine.result_builder import WEIGHT
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.sampling import Cluster, PpsCluster, Uniform
from windrow_lab.driver import run_whole
from windrow_lab.memory import JoinWorkload
from windrow_lab.memory_streams import frequency_based
from windrow_lab.timed_rows import seconds, since_start

Array = np.ndarray
WINDOW = 500.0
VALUES = 50
FIELDS = 32 / 34
"""The paper's rows take 32 bytes, and two more for the counters of UNIFORM."""
RATES = (1.0, 5.0)
BY_FORMULA = "PPS-CLUSTER, p by the formula"


@dataclass(frozen=True, eq=False)
class Averaged:
    """A join whose rows carry a standard normal value `x`, on both streams.

    What is sampled does not depend on it, so one run gives the error for any mean and deviation.
    """

    trace: JoinWorkload
    expected: Mapping[str, Mapping[object, float]]
    """Results of a stored row by its key (eq. 1), for policies that are given it."""

    @classmethod
    def frequency(cls, skew: float, order: str, span: float, seed: int) -> Averaged:
        """Streams of the frequency model."""
        trace = frequency_based(skew, order, span, seed, RATES, WINDOW, VALUES)
        rng = np.random.default_rng((seed, 1))
        tables = {
            alias: rows.append_column("x", [rng.standard_normal(len(rows))])
            for alias, rows in trace.tables.items()
        }
        # The true frequencies, read off the rows: the paper, too, looks at its streams beforehand.
        counts = np.bincount(trace.tables["b"]["k"].to_numpy(), minlength=VALUES)
        expected_results: dict[object, float] = {}
        expected_results.update(enumerate((counts / counts.sum() * trace.rates["b"] * WINDOW).tolist()))
        return cls(replace(trace, tables=tables), {"a": expected_results})

    def policies(self, memory: float) -> dict[str, tuple[MemoryPolicy, float]]:
        """The approaches under a part of the memory of whole windows, and how many rows each has where others
        have one."""
        return {
            "UNIFORM": (Uniform(expected=self.expected, reach=0.0, monitor_fraction=0.0), FIELDS),
            "UNIFORM, unbiased": (Uniform(), FIELDS),
            "EQ-CLUSTER": (Cluster(), 1.0),
            "PPS-CLUSTER": (PpsCluster(expected=self.expected), 1.0),
            BY_FORMULA: (PpsCluster(expected=self.expected), self._without_iteration(memory)),
        }

    def _without_iteration(self, memory: float) -> float:
        """The part of this memory, itself a part of whole windows, that PPS-CLUSTER has with p by formula.

        The formula takes p n for a probability even where it exceeds 1. A footnote repairs that by an
        iteration (s. 4.3.1); PPS-CLUSTER with the memory that is left without it keeps rows with
        probabilities min(1, p n).
        """
        keys = self.trace.tables["a"]["k"].to_numpy()
        results = np.array([self.expected["a"][key] for key in keys.tolist()])
        return float(np.minimum(1.0, memory * results / results.mean()).mean() / memory)

    @cached_property
    def true(self) -> dict[str, Array]:
        """By stream the average of its value over all results, second by second."""
        return self._averages(wr.Query(self.trace.streams, on=self.trace.on))

    def errors(
        self, memory: float, policy: MemoryPolicy, seed: int, evaluate: str, spreads: Sequence[float]
    ) -> dict[tuple[str, float], float]:
        """Under a part of the memory that whole windows take: by stream whose value is averaged, and by the
        value's deviation over its mean."""
        sampled = self._averages(self.trace.query(memory * self.trace.whole, policy, seed, evaluate))
        found = {}
        for alias, mean in self.true.items():
            for spread in spreads:
                true = 1 + spread * np.nan_to_num(mean)
                expected_results = np.nan_to_num(1 + spread * sampled[alias])
                found[alias, spread] = float(np.abs(expected_results - true).mean() / np.abs(true).mean())
        return found

    def _averages(self, query: wr.Query) -> dict[str, Array]:
        results = run_whole(query, self.trace.tables)[1].combine_chunks()
        times = since_start(pc.struct_field(results["b"], "ts"))
        order = np.argsort(times, kind="stable")
        weight = results[WEIGHT].to_numpy() if WEIGHT in results.column_names else np.ones(len(times))
        end = min(seconds(rows)[-1] for rows in self.trace.tables.values())
        moments = np.arange(2 * WINDOW, end)
        first, last = (np.searchsorted(times[order], at) for at in (moments - WINDOW, moments))
        found = {}
        for alias in "ab":
            values = pc.struct_field(results[alias], "x").to_numpy()
            total, count = (
                np.diff(np.concatenate([[0.0], np.cumsum(each[order])])[[first, last]], axis=0)[0]
                for each in (weight * values, weight)
            )
            found[alias] = np.divide(total, count, out=np.full(len(moments), np.nan), where=last > first)
        return found
