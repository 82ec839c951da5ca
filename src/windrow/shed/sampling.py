"""Rankings that sample (Memory, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.model.samples import Cluster, PpsCluster, Uniform
from windrow.shed.cluster import cluster, pps_cluster
from windrow.shed.context import Context
from windrow.shed.ranking import Ranking
from windrow.shed.uniform import UniformRanking

RANKINGS: dict[str, Callable[[Any, Context], Ranking]] = {
    Cluster.name: cluster,
    PpsCluster.name: pps_cluster,
    Uniform.name: UniformRanking,
}
