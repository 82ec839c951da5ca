"""What a simulated query goes on from: the checkpoint that Spark keeps, and backups of it with the state."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from simulated_tasks import Batch


@dataclass
class Checkpoint:
    """Spark's: which batch comes next, and what the sink holds of those before."""

    next: int = 0
    sink: dict[int, Counter[tuple]] = field(default_factory=dict)

    def copy(self) -> Checkpoint:
        return Checkpoint(self.next, dict(self.sink))


@dataclass
class Backup:
    """A copy of the state made file by file while tasks ran, and one of the checkpoint made when it began."""

    checkpoint: Checkpoint
    batches: list[Batch]
    files: dict[str, tuple[bytes, float]] = field(default_factory=dict)
