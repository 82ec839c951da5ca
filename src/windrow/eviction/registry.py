"""Rankings by the name of their memory policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.errors import Option, placed
from windrow.eviction.policies.age import AgeRanking
from windrow.eviction.policies.auto import AutoRanking
from windrow.eviction.policies.baselines import FifoRanking, RandomRanking, UntilExpiryRanking
from windrow.eviction.policies.cluster import ClusterRanking
from windrow.eviction.policies.frequency import FrequencyRanking
from windrow.eviction.policies.importance import GreedyRanking, ImportanceRanking, SizeRanking
from windrow.eviction.policies.uniform import UniformRanking
from windrow.eviction.ranking import Ranking
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo, Random, UntilExpiry
from windrow.model.policies.importance import Greedy, Importance, Size
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow.model.policies.sampling import Cluster, PpsCluster, Uniform
from windrow.planning.bound_query import BoundQuery

RANKINGS: dict[str, Callable[[Any, BoundQuery], Ranking]] = {
    Fifo.name: lambda policy, bound: FifoRanking(),
    Random.name: lambda policy, bound: RandomRanking(),
    UntilExpiry.name: lambda policy, bound: UntilExpiryRanking(),
    Size.name: lambda policy, bound: SizeRanking(),
    Greedy.name: GreedyRanking,
    Importance.name: ImportanceRanking,
    Age.name: AgeRanking,
    Frequency.name: FrequencyRanking,
    Auto.name: AutoRanking,
    Cluster.name: ClusterRanking,
    PpsCluster.name: ClusterRanking,
    Uniform.name: UniformRanking,
}


def make_ranking(policy: MemoryPolicy, bound: BoundQuery) -> Ranking:
    """The ranking a policy describes, for one join."""
    with placed(Option(policy=policy.name)):
        return RANKINGS[policy.name](policy, bound)
