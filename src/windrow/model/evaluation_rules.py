"""Settings of a query that decide what its expressions give where SQL engines differ."""

from __future__ import annotations

from typing import Literal

from windrow.model.settings import choice, optional, setting

NanRule = Literal["spark", "never"]

ON_ERROR = setting(
    optional(choice("rule", "raise", "null")),
    'What happens when a cast, a division or another operation of an expression fails for a row: "raise" '
    'ends the query with an error that names it; "null" takes it as null and counts it (`rows_failed`, '
    "`combinations_failed`). None follows `spark.sql.ansi.enabled` on Spark, which is on by default, and "
    "raises elsewhere. It may change at a restart.",
)
NAN = setting(
    choice("rule", "spark", "never"),
    'What NaN matches in the predicate: with "spark" it equals itself and is above every other number, with '
    '"never" a comparison with NaN does not hold, whatever it is.',
    fixed="rows that it filters out were not kept",
)
