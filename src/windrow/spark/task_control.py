"""Applies the control messages of a micro-batch to the join of a partition."""

from __future__ import annotations

from windrow.engine.control import in_order, short
from windrow.spark.partition_join import PartitionJoin

MAX_REASONS = 20
"""Reasons reported per micro-batch, because metrics must stay small."""


def apply_controls(join: PartitionJoin, documents: tuple[str, ...]) -> tuple[str, ...]:
    """Apply control messages. Returns the reasons why some were refused."""
    rejected: dict[str, None] = {}
    for document in in_order(documents):
        try:
            join.control(document)
        except Exception as error:
            # Never raised: Spark's offset log would bring the message back after every restart.
            if len(rejected) < MAX_REASONS:
                rejected[short(str(error))] = None
    return tuple(rejected)
