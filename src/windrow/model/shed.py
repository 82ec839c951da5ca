"""What `shed` may say: a policy for memory, one for time, or both; by name or as a value."""

from __future__ import annotations

from windrow.errors import QueryError, unknown
from windrow.model.policies import POLICIES
from windrow.model.policy import Policy
from windrow.model.time_policies import TIME_POLICIES, Harvesting, TimePolicy

EXPECTED = "expected one policy, such as 'age' or wr.Harvesting(), or one for memory and one for time"


def parse_shed(value: object) -> tuple[Policy, TimePolicy]:
    """The policies for memory and for time. What is not said of one is "auto", of the other "harvest"."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    if len(given) not in (1, 2):
        raise QueryError(f"shed: {EXPECTED}, got {value!r}")
    parsed = [_parse(each) for each in given]
    memory = [p for p in parsed if isinstance(p, Policy)]
    time = [p for p in parsed if isinstance(p, TimePolicy)]
    if len(memory) > 1 or len(time) > 1:
        raise QueryError(f"shed: {EXPECTED}, got two of one kind: {value!r}")
    return (*memory, POLICIES["auto"]())[0], (*time, Harvesting())[0]


def _parse(value: object) -> Policy | TimePolicy:
    if isinstance(value, Policy | TimePolicy):
        return value
    if not isinstance(value, str):
        raise QueryError(f"shed: {EXPECTED}, got {value!r}")
    known: dict[str, type[Policy] | type[TimePolicy]] = {**POLICIES, **TIME_POLICIES}
    if value not in known:
        raise QueryError(f"shed: {unknown('policy', value, known)}")
    return known[value]()
