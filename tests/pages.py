"""Pages of documentation as programs: their code blocks in the order of the page, and what runs each kind.

A page's blocks share one namespace and one directory, which stands for `/data` and for relative paths. The
namespace begins with `stage`: the names that pages take for granted. A `text` block is what the Python block
before it printed; a block of SQL or TOML below the words "the file `NAME`" is that file. Blocks without a
language are pictures made of letters. What cannot run stands below a line that says so to the reader:
*Not run as a test: REASON.*
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from typer.testing import CliRunner

import windrow as wr
from spark_tools import spark
from windrow.cli import app
from windrow.testing.auctions import auctions_and_bids

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXCUSE = re.compile(r"^\*Not run as a test: (\S.+)\.\*$")
FILE = re.compile(r"the file `([\w./-]+)`")
ILLUSTRATIONS = ("", "yaml", "json", "html")
"""Blocks of these kinds are to be read only."""
OUTSIDE = ("make", "python", "pip", "git", "cd")
"""Commands of a shell block that are not run: what they name must be there."""


PIPELINE = """
[streams]
a = { format = "parquet", path = "auctions", time = "opened_at", within = "5 minutes" }
b = { format = "parquet", path = "bids", time = "bid_at", within = "30 seconds" }
[join]
on = "a.id = b.auction_id"
partitions = 2
[sink]
format = "parquet"
path = "results"
select = ["a.id", "b.price"]
[run]
checkpoint = "checkpoint"
trigger = "available now"
"""
STATEMENT = """
CREATE STREAM auctions TIME opened_at FROM (format = 'parquet', path = 'auctions');
CREATE STREAM bids TIME bid_at FROM (format = 'parquet', path = 'bids');
SELECT a.id, b.price FROM auctions a, bids b WHERE a.id = b.auction_id AND b.price > threshold WINDOW 1 MINUTE
"""
"""What `pipeline.toml` and `hot.sql` are on a page that does not say."""


@dataclass(frozen=True)
class Block:
    """A code block, the line it begins at, why it cannot run (if so), and the file it is (if one)."""

    kind: str
    text: str
    line: int
    excuse: str | None
    file: str | None


def pages() -> list[Path]:
    """Every page with a block of code that is meant to run."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        page for page in found if any(b.kind not in ILLUSTRATIONS for b in blocks(page.read_text("utf-8")))
    ]


def blocks(page: str) -> Iterator[Block]:
    for match in BLOCK.finditer(page):
        before = page[: match.start()].rstrip("\n").rpartition("\n\n")[2]
        excuse, file = EXCUSE.match(before.splitlines()[-1] if before else ""), FILE.search(before)
        line = page[: match.start()].count("\n") + 1
        yield Block(match[1], match[2], line, excuse and excuse[1], file and file[1])


def stage(directory: Path) -> dict[str, Any]:
    """What pages take for granted: a session, auctions and the bids on them as streams and as tables, a
    query over them with operators that have seen them, and a file that describes it."""
    tables = {name: _zoned(table) for name, table in auctions_and_bids(60, 20, seed=1).items()}
    frames = {}
    for name, table in tables.items():
        (directory / name).mkdir()
        pq.write_table(table, directory / name / "0.parquet")
        schema = from_arrow_schema(table.schema)
        frames[name] = spark().readStream.schema(schema).parquet(str(directory / name))
    (directory / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    (directory / "hot.sql").write_text(STATEMENT, encoding="utf-8")
    query = wr.Query(
        {"a": wr.Stream("opened_at", "5 minutes"), "b": wr.Stream("bid_at", "30 seconds")},
        "a.id = b.auction_id",
        memory="24 KiB",
    )
    streams = {"a": tables["auctions"], "b": tables["bids"]}
    schemas = {alias: table.schema for alias, table in streams.items()}
    operators = [wr.Operator(query, schemas) for _ in range(3)]
    for operator in operators:
        operator.process(streams)
    names = ("op", "op1", "op2")
    return {
        "wr": wr,
        "spark": spark(),
        **frames,
        **{f"{name}_table": table for name, table in tables.items()},
        **{"query": query, "schemas": schemas},
        **dict(zip(names, operators, strict=True)),
    }


def _zoned(table: pa.Table) -> pa.Table:
    """Spark takes a time without a zone for another type than a timestamp."""
    kinds = [pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


@dataclass
class Reading:
    """A page as it is read: what its blocks have defined, printed and written so far."""

    directory: Path
    names: dict[str, Any]
    printed: str = ""
    ran: int = 0
    runners: dict[str, Callable[[Block], None]] = field(init=False)

    def __post_init__(self) -> None:
        self.runners = {
            "python": self.python,
            "text": self.text,
            "sql": self.sql,
            "toml": self.toml,
            "sh": self.shell,
            "console": self.shell,
        }

    def read(self, page: str, name: str) -> None:
        for block in blocks(page):
            if block.kind in ILLUSTRATIONS or block.excuse:
                continue
            place = f"{name}, line {block.line}"
            assert block.kind in self.runners, f"{place}: nothing runs a block of {block.kind}"
            try:
                self.runners[block.kind](block)
            except Exception as error:
                raise AssertionError(f"{place}: {type(error).__name__}: {error}") from error
            self.ran += 1

    def placed(self, text: str) -> str:
        """With `/data` and relative paths of data taken for this page's directory; Spark's own working
        directory is that of the process when it began."""
        return re.sub(r"(?<=[\"' ])/?data/", f"{self.directory}/", text)

    def python(self, block: Block) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(self.placed(block.text), f"block at line {block.line}", "exec"), self.names)
        self.printed = out.getvalue()

    def text(self, block: Block) -> None:
        assert block.text == self.printed, f"the block before it printed:\n{self.printed}"

    def sql(self, block: Block) -> None:
        if block.file:
            (self.directory / block.file).write_text(self.placed(block.text), encoding="utf-8")
            return
        out = wr.sql(block.text, spark=spark(), streams=self.names["streams"], time="at")
        assert out.count() > 0

    def toml(self, block: Block) -> None:
        assert block.file, "a block of TOML needs the words 'the file `NAME`' before it"
        path = self.directory / block.file
        path.write_text(self.placed(block.text), encoding="utf-8")
        self.command(f"windrow run {path} --check")

    def shell(self, block: Block) -> None:
        for line in block.text.replace("\\\n", " ").splitlines():
            self.command(self.placed(line.partition("  #")[0].removeprefix("$ ").strip()))

    def command(self, line: str) -> None:
        if not line or line.startswith("#"):
            return
        command, *arguments = shlex.split(line)
        if command == "mkdir":
            Path(arguments[-1]).mkdir(parents=True, exist_ok=True)
        elif command == "windrow":
            ran = CliRunner().invoke(app, arguments)
            assert ran.exit_code == 0 and ran.output, (line, ran.exit_code, ran.output)
        else:
            assert Path(command).name in OUTSIDE or command.startswith(".venv/bin/"), f"what is this? {line}"
            targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            if command == "make":
                assert {a for a in arguments if "=" not in a} <= set(targets), line
            for argument in arguments:
                if argument.startswith(("tests/", "examples/", "docs/", "src/")):
                    assert (ROOT / argument).exists(), line
