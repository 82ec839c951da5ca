"""The examples at a small size, and `windrow run` inside this process."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from typer.testing import CliRunner

from windrow.cli import app

EXAMPLES = Path(__file__).parent.parent / "examples"
COMMAND = "from windrow.cli import main; main()"
"""`windrow` as a process of its own: python -c COMMAND run FILE ..."""


def make_data() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_data", EXAMPLES / "make_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def set_up(
    directory: Path, name: str, seconds: int, rate: float, files: int
) -> tuple[Path, Mapping[str, Any]]:
    """An example with its data in a directory: the TOML file, and the parts of each stream as tables."""
    maker = make_data()
    streams = maker.EXAMPLES[name](seconds, rate, 1)
    maker.write_streams(streams, directory / "data" / name, files)
    shutil.copy(EXAMPLES / f"{name}.toml", directory)
    return directory / f"{name}.toml", maker.cut_streams(streams, files)


def in_microseconds(table: pa.Table) -> pa.Table:
    """Timestamps as numbers, which every engine reads alike."""
    columns = [
        pc.cast(column, pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, table.column_names)


def run(*arguments: str | Path):
    return CliRunner().invoke(app, ["run", *map(str, arguments)])
