"""Applies the control messages of a micro-batch to the join of a partition."""

from __future__ import annotations

from windrow.engine.control import in_order, short
from windrow.spark.partition_join import PartitionJoin

REASONS_TOLD = 20
"""Reasons reported per micro-batch, because metrics must stay small."""


def apply_controls(join: PartitionJoin, documents: tuple[str, ...]) -> tuple[str, ...]:
    """Applies control messages and returns the reasons why some were refused."""
    rejected: dict[str, None] = {}
    for document in in_order(documents):
        try:
            join.control(document)
        except Exception as error:
            # Never raised: Spark's offset log would bring the message back after every restart.
            if len(rejected) < REASONS_TOLD:
                rejected[short(str(error))] = None
    return tuple(rejected)
