"""The policies that `shed=` takes: what to evict under a memory limit, how to do less under a deadline.

>>> import windrow as wr
>>> print(wr.policies.Age(age_bins=20))
age(age_bins=20)
"""

from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo, Random, UntilExpiry
from windrow.model.policies.importance import Greedy, Importance, Lookup, Size
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow.model.policies.sampling import Cluster, PpsCluster, Uniform
from windrow.model.policies.time_policies import Dropping, Harvesting, TimePolicy

__all__ = [
    "Age",
    "Auto",
    "Cluster",
    "Dropping",
    "Fifo",
    "Frequency",
    "Greedy",
    "Harvesting",
    "Importance",
    "Lookup",
    "MemoryPolicy",
    "PpsCluster",
    "Random",
    "Size",
    "TimePolicy",
    "Uniform",
    "UntilExpiry",
]
