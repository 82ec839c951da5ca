"""Where results are written, as in TOML's [sink] and by `windrow sql --out`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windrow.errors import QueryError
from windrow.model.settings import choice, optional, setting
from windrow.model.source import FILES, TEXT, check_value_format, spark_options, texts

STREAM_MODES = ("append", "update", "complete")
BATCH_MODES = ("error", "append", "overwrite", "ignore")


@dataclass(frozen=True)
class Sink:
    format: str = setting(TEXT)
    path: str | None = setting(optional(TEXT), default=None)
    options: Mapping[str, str] = setting(spark_options, default_factory=dict, repr=False)
    mode: str | None = setting(optional(choice("mode", *{*STREAM_MODES, *BATCH_MODES})), default=None)
    value_format: str | None = setting(optional(TEXT), default=None)
    """For Kafka: the encoding of the results' columns."""
    select: tuple[str, ...] = setting(texts, default=())

    def __post_init__(self) -> None:
        if self.format in FILES and self.path is None:
            raise QueryError(f"'{self.format}' files need a path; add path = 'directory'")
        check_value_format(self.format, self.value_format)
