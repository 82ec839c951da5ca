"""What `shed` may say: a policy for memory, one for time, or both; by name, as a value, or written out.

Written out, as TOML and SQL have it, a policy is a mapping with its name under "policy" and its settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import POLICIES
from windrow.model.policies.time_policies import TIME_POLICIES, Harvesting, TimePolicy

SHED: dict[str, type[MemoryPolicy] | type[TimePolicy]] = {**POLICIES, **TIME_POLICIES}
"""Every policy, by the name that `shed` knows it by."""
EXPECTED = (
    "expected one policy, such as 'age' or wr.policies.Harvesting(), or one for memory and one for time"
)


def parse_shed(
    value: object, limit: MemoryLimit | None, deadline: Deadline | None
) -> tuple[MemoryPolicy, TimePolicy]:
    """The policies for memory and for time. One that is not given is "auto", or "harvest".

    A policy given alone must have the limit that it serves. Two serve whichever limits there are, so that a
    query can be built again with one of its limits taken away.
    """
    parsed = parse_policies(value)
    memory = [p for p in parsed if isinstance(p, MemoryPolicy)]
    time = [p for p in parsed if isinstance(p, TimePolicy)]
    if len(memory) > 1 or len(time) > 1:
        raise QueryError(f"{EXPECTED}, got two of one kind: {value!r}")
    if not memory and deadline is None:
        raise QueryError(
            f"'{time[0].name}' gives up work to meet a deadline; give deadline='2 seconds' or so"
        )
    if not time and memory[0].name != "auto" and deadline is not None and limit is None:
        raise QueryError(
            f"'{memory[0].name}' gives up rows to stay inside a memory limit, and only a deadline is "
            "given; give memory='64 MiB' or so too, or leave shed out"
        )
    return (*memory, POLICIES["auto"]())[0], (*time, Harvesting())[0]


def parse_policies(value: object) -> tuple[MemoryPolicy | TimePolicy, ...]:
    """One policy or two, each by itself; which limits there are decides whether they fit."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    if len(given) not in (1, 2):
        raise QueryError(f"{EXPECTED}, got {value!r}")
    return tuple(parse_policy(each) for each in given)


def parse_policy(value: object) -> MemoryPolicy | TimePolicy:
    """One policy.

    >>> print(parse_policy({"policy": "age", "buckets": 20}))
    age(buckets=20)
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
