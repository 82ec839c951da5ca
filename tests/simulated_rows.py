"""The rows of a simulated query, and the answer they must lead to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa

import windrow as wr
from results import ids
from simulated_tasks import SECOND, Batch, Row, answer, batch_of


@dataclass(frozen=True)
class SimulatedRows:
    rng: Random
    query: wr.Query
    schema: pa.Schema
    late: int
    counted: bool
    """Whether windows are in rows."""

    def form(self, batch: int) -> Batch:
        """Few rows of few keys, so that partitions without rows and batches without any are common."""
        counts = {alias: self.rng.randint(0, 4) for alias in "ab"}
        return self._batch_of(
            {a: [self._row(self.rng.uniform(batch - 2, batch)) for _ in range(n)] for a, n in counts.items()}
        )

    def flush(self, number: int) -> Batch:
        """Rows of a time so late that all held back comes out, after the second of them in every partition.
        None matches them."""
        time = 1000.0 * (number + 1)
        return self._batch_of({"a": [self._row(time, -number)], "b": [self._row(time, -50 - number)]})

    def wanted(self, batches: list[Batch]) -> Counter[tuple]:
        if not self.counted:
            return answer([batch.rows for batch in batches], self.query.streams["a"].window.size, self.late)
        query = replace(self.query, memory=None, disk=None)
        op = wr.Operator(query, dict.fromkeys("ab", self.schema))
        found: Counter[tuple] = Counter()
        for batch in batches:
            found.update(ids(op.process({a: batch_of(rows, self.schema) for a, rows in batch.rows.items()})))
        return found

    def _row(self, seconds: float, key: int | None = None) -> Row:
        return (
            self.rng.getrandbits(40),
            int(seconds * SECOND),
            self.rng.randint(1, 3) if key is None else key,
        )

    def _batch_of(self, rows: dict[str, list[Row]]) -> Batch:
        return Batch(rows, self.schema)
