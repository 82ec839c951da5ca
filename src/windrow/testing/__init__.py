"""Tools for testing your own queries: tables from text, a player that feeds them in steps, exact results."""

from windrow.testing.exact import exact_answer
from windrow.testing.player import StreamPlayer, in_steps
from windrow.testing.tables import assert_same_rows, table

__all__ = ["StreamPlayer", "assert_same_rows", "exact_answer", "in_steps", "table"]
