"""Variance of a weighted sum over sampled clusters.

Cluster c is in the sample with probability 1/w_c, independently. With y_c the total of its values, the sum
over the sample of w_c y_c is unbiased. Its variance, the sum over all clusters of (w_c - 1) y_c^2, is
estimated without bias by the sum over the sample of (1 - 1/w_c) (w_c y_c)^2.

If a cluster is thinned while it is held, so that its later results weigh more, results i and j are both in
the sample with probability 1/max(w_i, w_j), and the cluster's term is (sum of w_i y_i)^2 less the sum over
all i and j of max(w_i, w_j) y_i y_j: the same as above where the weights are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class ClusterVariance:
    """Per group: the estimated variance of the weighted sum, and what it rests on."""

    variance: Array
    squares: Array
    """Sum of the squared terms of the variance."""
    units: Array
    """Clusters seen; certain results are one."""
    sampled: Array
    """Whether any of them was drawn."""

    def quantile(self, confidence: float) -> Array:
        """Student's, with the degrees of freedom that unequal terms leave (Satterthwaite): an interval that
        rests on few clusters, or on a few large ones, is wider."""
        from scipy.special import stdtrit  # imported here because only intervals need it

        spread = self.variance > 0
        freedom = np.divide(self.variance**2, self.squares, out=np.ones(len(spread)), where=spread)
        return stdtrit(freedom, (1 + confidence) / 2)


def cluster_variance(
    group: Array, cluster: Array, weight: Array, value: Array, groups: int
) -> ClusterVariance:
    """The spread of the sum of weight * value in each of the groups 0..groups - 1."""
    order = np.lexsort((weight, cluster, group))
    group, cluster, weight, value = (a[order] for a in (group, cluster, weight, value))
    edge = (group[1:] != group[:-1]) | (cluster[1:] != cluster[:-1])
    head = np.flatnonzero(np.append(True, edge)[: len(order)])
    tail = np.append(head[1:], len(order))[: len(head)] - 1
    unit = np.repeat(np.arange(len(head)), tail + 1 - head)
    # Ascending in weight within a cluster, the larger weight of two results is the later one's.
    before = np.cumsum(value) - value
    before -= before[head][unit]
    both = np.bincount(unit, weight * value * (value + 2 * before), len(head))
    term = np.bincount(unit, weight * value, len(head)) ** 2 - both
    sampled = weight[tail] > 1
    term = np.where(sampled, np.maximum(term, 0.0), 0.0)
    of = group[head]
    return ClusterVariance(
        variance=np.bincount(of, term, groups),
        squares=np.bincount(of, term**2, groups),
        units=np.bincount(of, minlength=groups),
        sampled=np.bincount(of, sampled, groups) > 0,
    )
