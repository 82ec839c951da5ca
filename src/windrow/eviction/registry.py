"""Rankings by the name of their memory policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.eviction.context import Context
from windrow.eviction.policies import importance
from windrow.eviction.policies.age import AgeRanking
from windrow.eviction.policies.auto import AutoRanking
from windrow.eviction.policies.baselines import FifoRanking, RandomRanking, UntilExpiryRanking
from windrow.eviction.policies.cluster import cluster, pps_cluster
from windrow.eviction.policies.frequency import FrequencyRanking
from windrow.eviction.policies.uniform import UniformRanking
from windrow.eviction.ranking import Ranking
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo, Random, UntilExpiry
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow.model.policies.sampling import Cluster, PpsCluster, Uniform

RANKINGS: dict[str, Callable[[Any, Context], Ranking]] = {
    Fifo.name: lambda policy, context: FifoRanking(),
    Random.name: lambda policy, context: RandomRanking(),
    UntilExpiry.name: lambda policy, context: UntilExpiryRanking(),
    **importance.RANKINGS,
    Age.name: AgeRanking,
    Frequency.name: FrequencyRanking,
    Auto.name: AutoRanking,
    Cluster.name: cluster,
    PpsCluster.name: pps_cluster,
    Uniform.name: UniformRanking,
}


def make_ranking(policy: MemoryPolicy, context: Context) -> Ranking:
    """The ranking a policy describes, for one join."""
    return RANKINGS[policy.name](policy, context)
