"""What `shed` may say: a policy for memory, one for time, or both; by name or as a value."""

from __future__ import annotations

from windrow.errors import QueryError, unknown
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import POLICIES
from windrow.model.policies.time_policies import TIME_POLICIES, Harvesting, TimePolicy

SHED: dict[str, type[MemoryPolicy] | type[TimePolicy]] = {**POLICIES, **TIME_POLICIES}
"""Every policy, by the name that `shed` knows it by."""
EXPECTED = "expected one policy, such as 'age' or wr.Harvesting(), or one for memory and one for time"


def parse_shed(
    value: object, limit: MemoryLimit | None, deadline: Deadline | None
) -> tuple[MemoryPolicy, TimePolicy]:
    """The policies for memory and for time. What is not said of one is "auto", of the other "harvest".

    A policy said alone must have the limit that it serves. Two serve whichever limits there are, so that a
    query can be had again with one of its limits taken away.
    """
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    if len(given) not in (1, 2):
        raise QueryError(f"shed: {EXPECTED}, got {value!r}")
    parsed = [_parse(each) for each in given]
    memory = [p for p in parsed if isinstance(p, MemoryPolicy)]
    time = [p for p in parsed if isinstance(p, TimePolicy)]
    if len(memory) > 1 or len(time) > 1:
        raise QueryError(f"shed: {EXPECTED}, got two of one kind: {value!r}")
    if not memory and deadline is None:
        raise QueryError(
            f"shed: '{time[0].name}' gives up work to meet a deadline; give deadline='2 seconds' or so"
        )
    if not time and memory[0].name != "auto" and deadline is not None and limit is None:
        raise QueryError(
            f"shed: '{memory[0].name}' gives up rows to stay inside a memory limit, and only a deadline is "
            "given; give memory='64 MiB' or so too, or leave shed out"
        )
    return (*memory, POLICIES["auto"]())[0], (*time, Harvesting())[0]


def _parse(value: object) -> MemoryPolicy | TimePolicy:
    if isinstance(value, MemoryPolicy | TimePolicy):
        return value
    if not isinstance(value, str):
        raise QueryError(f"shed: {EXPECTED}, got {value!r}")
    if value not in SHED:
        raise QueryError(f"shed: {unknown('policy', value, SHED)}")
    return SHED[value]()
