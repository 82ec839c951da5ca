"""Applies the control messages of a micro-batch to the join of a partition."""

from __future__ import annotations

from windrow.engine.control import in_order, short
from windrow.spark.partition_join import PartitionJoin

REASONS_TOLD = 20
"""Of messages refused in a batch: metrics must stay small."""


def apply_controls(join: PartitionJoin, documents: tuple[str, ...]) -> tuple[str, ...]:
    """Applies control messages; returns why some were refused. They are in Spark's offset log, so one that
    failed the task would fail it after every restart: whatever goes wrong is a refusal."""
    rejected: dict[str, None] = {}
    for document in in_order(documents):
        try:
            join.control(document)
        except Exception as error:
            if len(rejected) < REASONS_TOLD:
                rejected[short(str(error))] = None
    return tuple(rejected)
