"""Schedules of simulated drivers, tasks and stores, drawn from seeds: every one ends with exactly the right
results, or with an error that says why, and never with wrong ones."""

from __future__ import annotations

import pytest

from simulation import Simulation

SEEDS = 75


@pytest.mark.blocks(4, soak=270)
def test_any_schedule_ends_right_or_is_refused(block: int, first_seed: int) -> None:
    ends = refused = 0
    for seed in range(first_seed + block * SEEDS, first_seed + (block + 1) * SEEDS):
        for outcome in Simulation(seed).run():
            schedule = "\n".join([f"seed {seed}", *outcome.trace])
            assert not outcome.results - outcome.wanted, schedule
            assert outcome.refused or not outcome.wanted - outcome.results, schedule
            assert not outcome.lost, schedule
            ends, refused = ends + 1, refused + (outcome.refused is not None)
    assert refused < ends / 5, "few schedules may end in a refusal"
