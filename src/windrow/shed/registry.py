"""The policies there are, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windrow.model.policies import Fifo, Random, UntilExpiry
from windrow.model.policy import Policy
from windrow.shed import importance, learned, sampling
from windrow.shed.baselines import FifoRanking, RandomRanking, UntilExpiryRanking
from windrow.shed.context import Context
from windrow.shed.ranking import Ranking

RANKINGS: dict[str, Callable[[Any, Context], Ranking]] = {
    Fifo.name: lambda policy, context: FifoRanking(),
    Random.name: lambda policy, context: RandomRanking(),
    UntilExpiry.name: lambda policy, context: UntilExpiryRanking(),
    **importance.RANKINGS,
    **learned.RANKINGS,
    **sampling.RANKINGS,
}


def make_ranking(policy: Policy, context: Context) -> Ranking:
    """The ranking a policy describes, for one join."""
    return RANKINGS[policy.name](policy, context)
