"""Late rows are kept exactly once, whatever happens to tasks, drivers and checkpoints."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from io import BytesIO

import pyarrow.parquet as pq
import pytest

import simulation
from simulated_store import SimulatedRoot
from simulation import Batch, SimulatedQuery, Simulation

SEEDS = 40


class LateSimulation(Simulation):
    """One query that keeps its late rows, of which there are many. It is not copied: two queries that go on
    from copies of one checkpoint have the same id, and must not share a place for late rows."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        (self.asked,) = self.queries
        self.place = SimulatedRoot(self.scheduler, self.asked.root.eventual, local=True)
        self.task = replace(self.task, late_rows=self.place)

    def form(self, batch: int) -> Batch:
        times = {a: [self.rng.uniform(batch - 5, batch) for _ in range(self.rng.randint(0, 4))] for a in "ab"}
        return self._batch_of({alias: [self._row(t) for t in own] for alias, own in times.items()})

    def _run(self) -> None:
        while not self.asked.over:
            self.asked.go_on()
        for zombie in list(self.scheduler.actors):
            self.scheduler.kill(zombie)

    def expected(self, batches: list[Batch]) -> Counter[tuple[str, int]]:
        """The rows that are late when the batches come as they were formed last."""
        newest: dict[str, int] = {}
        found: Counter[tuple[str, int]] = Counter()
        for batch in batches:
            reached = dict(newest)
            if self.counted and reached:
                reached = dict.fromkeys("ab", max(reached.values()))
            for alias, rows in batch.rows.items():
                for number, time, _ in rows:
                    if alias in reached and time < reached[alias] - self.late:
                        found[alias, number] += 1
                    newest[alias] = max(newest.get(alias, time), time)
        return found


def kept(place: SimulatedRoot) -> Counter[tuple[str, int]]:
    """What any reader of parquet finds there."""
    found: Counter[tuple[str, int]] = Counter()
    for path, (data, _) in place.files.items():
        if path.endswith(".parquet"):
            rows = pq.read_table(BytesIO(data)).to_pylist()
            found.update((row["stream"], row[row["stream"]]["id"]) for row in rows)
    return found


@pytest.mark.blocks(1, soak=60)
def test_any_schedule_keeps_every_late_row_once(
    block: int, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "REAL_OPERATOR", 1.0)
    # A backup of checkpoint and state has no late rows, so they are not put back with it.
    monkeypatch.setattr(SimulatedQuery, "_back_up", lambda self: None)
    rows = done = 0
    for seed in range(first_seed + block * SEEDS, first_seed + (block + 1) * SEEDS):
        sim = LateSimulation(seed)
        (outcome,) = sim.run()
        if outcome.refused is None:
            schedule = "\n".join([f"seed {seed}", *outcome.trace])
            found = kept(sim.place)
            assert found == sim.expected(sim.asked.batches), schedule
            rows, done = rows + found.total(), done + 1
    assert done > SEEDS / 2 and rows, "few schedules may be refused, and some rows must be late"
