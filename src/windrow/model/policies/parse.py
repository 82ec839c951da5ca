"""Reads `shed`: a memory policy, a time policy, or both; each by name, as a value, or as a mapping.

A mapping, as in TOML and SQL, holds the policy's name under "policy", and its settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo, Random, UntilExpiry
from windrow.model.policies.importance import Greedy, Importance, Size
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow.model.policies.sampling import Cluster, PpsCluster, Uniform
from windrow.model.policies.time_policies import TIME_POLICIES, Harvesting, TimePolicy

_MEMORY: tuple[type[MemoryPolicy], ...] = (
    *(Fifo, Random, UntilExpiry, Size, Greedy, Importance),
    *(Age, Frequency, Auto, Uniform, Cluster, PpsCluster),
)
POLICIES = {each.name: each for each in _MEMORY}
"""Every memory policy by its name."""
SHED: dict[str, type[MemoryPolicy] | type[TimePolicy]] = {**POLICIES, **TIME_POLICIES}
"""Every policy by its name in `shed`."""
EXPECTED = (
    "expected one policy, such as 'age' or wr.policies.Harvesting(), or one for memory and one for time"
)


def parse_shed(
    value: object, limit: MemoryLimit | None, deadline: Deadline | None
) -> tuple[MemoryPolicy, TimePolicy]:
    """The memory policy and the time policy; by default "auto" and "harvest".

    A single policy needs its limit. A pair may lack a limit, so that a query can be rebuilt without one of
    its limits.
    """
    parsed = parse_policies(value)
    memory = [p for p in parsed if isinstance(p, MemoryPolicy)]
    time = [p for p in parsed if isinstance(p, TimePolicy)]
    if len(memory) > 1 or len(time) > 1:
        raise QueryError(f"{EXPECTED}, got two of one kind: {value!r}")
    if not memory and deadline is None:
        raise QueryError(
            f"'{time[0].name}' sheds work to meet a deadline; pass deadline='2 seconds' or similar"
        )
    if not time and memory[0].name != "auto" and deadline is not None and limit is None:
        raise QueryError(
            f"'{memory[0].name}' evicts rows to stay inside a memory limit, and there is only a deadline; "
            "pass memory='64 MiB' or similar as well, or leave shed out"
        )
    return memory[0] if memory else Auto(), time[0] if time else Harvesting()


def parse_policies(value: object) -> tuple[MemoryPolicy | TimePolicy, ...]:
    """Read one or two policies. `parse_shed` checks that they fit the limits."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    if len(given) not in (1, 2):
        raise QueryError(f"{EXPECTED}, got {value!r}")
    return tuple(parse_policy(each) for each in given)


def parse_policy(value: object) -> MemoryPolicy | TimePolicy:
    """One policy.

    >>> print(parse_policy({"policy": "age", "age_bins": 20}))
    age(age_bins=20)
    """
    if isinstance(value, MemoryPolicy | TimePolicy):
        return value
    name, settings = value, {}
    if isinstance(value, Mapping):
        name, settings = value.get("policy", ""), {k: v for k, v in value.items() if k != "policy"}
    if not isinstance(name, str):
        raise QueryError(f"{EXPECTED}, got {value!r}")
    if name not in SHED:
        raise QueryError(unknown("policy", name, SHED))
    known = [field.name for field in fields(SHED[name])]
    with placed(Option(policy=name)):
        for setting in settings:
            if setting not in known:
                raise QueryError(unknown("setting", setting, known))
    return SHED[name](**settings)
