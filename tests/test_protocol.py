"""Schedules of simulated drivers, tasks and stores, drawn from seeds: every one ends with exactly the right
results, or with an error that says why, and never with wrong ones."""

from __future__ import annotations

import pytest

from simulation import Simulation

BLOCKS, SEEDS, SOAK = 5, 50, 100


@pytest.mark.parametrize("block", range(BLOCKS))
def test_any_schedule_ends_right_or_is_refused(block: int, request: pytest.FixtureRequest) -> None:
    seeds = SEEDS * (SOAK if request.config.getoption("--soak") else 1)
    refused = 0
    for seed in range(block * seeds, (block + 1) * seeds):
        outcome = Simulation(seed).run()
        schedule = "\n".join([f"seed {seed}", *outcome.trace])
        assert not outcome.results - outcome.wanted, schedule
        assert outcome.refused or not outcome.wanted - outcome.results, schedule
        refused += outcome.refused is not None
    assert refused < seeds / 5, "few schedules may end in a refusal"
