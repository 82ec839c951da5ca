"""The baseline policies, and the table of all memory policies that a query may name."""

from __future__ import annotations

from windrow.model.policies.base import MemoryPolicy, policy
from windrow.model.policies.importance import Greedy, Importance, Size
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow.model.policies.sampling import Cluster, PpsCluster, Uniform


@policy
class Fifo(MemoryPolicy):
    """Evicts the oldest rows first (RECENT of the Memory paper)."""

    name = "fifo"


@policy
class Random(MemoryPolicy):
    """Evicts random rows."""

    name = "random"


@policy
class UntilExpiry(MemoryPolicy):
    """Keeps admitted rows until they expire; while memory is full, new rows are not stored."""

    name = "until-expiry"


_ALL: tuple[type[MemoryPolicy], ...] = (
    *(Fifo, Random, UntilExpiry, Size, Greedy, Importance),
    *(Age, Frequency, Auto, Uniform, Cluster, PpsCluster),
)
POLICIES: dict[str, type[MemoryPolicy]] = {each.name: each for each in _ALL}
