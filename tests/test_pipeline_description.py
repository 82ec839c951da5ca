"""Pipelines that are wrong are refused with a sentence and code 2, before anything starts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from pipelines import run, set_up
from windrow.errors import QueryError
from windrow.model.sharing import SharingSettings
from windrow.pipeline.toml_reader import read_pipeline
from windrow.spark.session import local_session

GOOD = """
[streams.a]
format = "json"
path = "a"
schema = "id bigint, at timestamp"
time = "at"
within = "5 minutes"

[streams.b]
format = "json"
path = "b"
schema = { id = "bigint", at = "timestamp", price = "double" }
time = "at"
within = "30 seconds"
access = "hash"

[join]
on = "a.id = b.id"
late = "10 seconds"
order = ["b", "a"]

[aggregate]
time = "b.at"
window = "1 minute"
watermark_delay = "5 seconds"
aggregates = ["count(*) as n"]

[sink]
format = "parquet"
path = "s3://bucket/out"

[run]
checkpoint = "checkpoint"
trigger = "5 seconds"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    return path


def test_a_description_becomes_values(file, tmp_path):
    pipeline = read_pipeline(file)
    assert pipeline.run.name == "good"
    assert pipeline.sources[0].path == str(tmp_path / "a")
    assert pipeline.sources[1].schema == "`id` bigint, `at` timestamp, `price` double"
    assert pipeline.sink.path == "s3://bucket/out"
    assert pipeline.execution.state == str(tmp_path / "checkpoint" / "windrow")
    assert str(pipeline.query.streams["b"].window) == "30 seconds"
    assert (pipeline.streaming, pipeline.mode) == (True, "append")
    assert str(pipeline.run.trigger) == "every 5 seconds"


def test_queries_share_the_join_of_a_description(file):
    shared = "[queries.near]\nwithin = '1 s'\n[queries.far]\nwhere = 'b.price > 5'\n[join]\ndeadline = '2 s'"
    file.write_text(GOOD.replace("[join]", f"{shared}\nschedule = 'swf'\nmax_backlog = 9\nheartbeat = true"))
    pipeline = read_pipeline(file)
    windows = {name: [str(w) for w in asked.windows] for name, asked in pipeline.queries.items()}
    assert windows == {"near": ["1 second", "1 second"], "far": ["5 minutes", "30 seconds"]}
    assert pipeline.queries["far"].where == "b.price > 5"
    assert pipeline.sharing == SharingSettings("swf", "2 s", 9, True)


def test_settings_can_be_replaced(file, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    changes = [
        "join.partitions=8",
        "run.trigger=available now",
        "streams.a.path=data/x",
        "sink.options.k=true",
        "join.ahead=unlimited",
    ]
    pipeline = read_pipeline(file, changes)
    assert pipeline.execution.partitions == 8
    assert pipeline.query.head_start is None and read_pipeline(file).query.head_start == 86_400_000_000
    assert pipeline.run.trigger.kind == "available now"
    assert pipeline.sources[0].path == str(Path("/data/x").resolve())
    assert pipeline.sink.options == {"k": "true"}
    with pytest.raises(QueryError, match=r"--set: expected section.key=value .* got 'partitions=8'"):
        read_pipeline(file, ["partitions=8"])


@pytest.mark.parametrize(
    ("replaced", "by", "told"),
    [
        ('time = "at"', 'tme = "at"', r"streams.a: unknown setting 'tme'. Did you mean 'time'\?"),
        ("[sink]", "[snik]", r"file: unknown setting 'snik'. Did you mean 'sink'\?"),
        ('[sink]\nformat = "parquet"\npath = "s3://bucket/out"', "", r"section \[sink\] is missing"),
        ('on = "a.id = b.id"', "", "join: 'on' is missing; add for example on = 'a.id = b.id'"),
        ('"5 minutes"', '"-5 minutes"', "streams.a: within: window must be positive, got -5 minutes"),
        ('"5 minutes"', '"5 parsecs"', "streams.a: within: unknown unit 'parsecs'"),
        ('"5 minutes"', "5", "streams.a: within: expected a duration such as '5 minutes', got 5"),
        ('"hash"', '"hsh"', r"streams.b: access: unknown access path 'hsh'. Did you mean 'hash'\?"),
        ('"10 seconds"', '"soon"', "join: late: expected a duration"),
        ('["b", "a"]', '["b", "c"]', r"join: order: expected each of \['a', 'b'\] once"),
        (
            'schema = "id bigint, at timestamp"',
            "",
            "streams.a: 'schema' is missing: 'json' files have no types",
        ),
        ('path = "a"', "", "streams.a: 'json' files need a path"),
        ('checkpoint = "checkpoint"', "", "run: 'checkpoint' is missing"),
        ('trigger = "5 seconds"', 'trigger = "continuous"', "run: trigger: 'continuous' is not supported"),
        ('trigger = "5 seconds"', 'trigger = "availble now"', "Did you mean 'available now'"),
        ('watermark_delay = "5 seconds"', "", "aggregate: 'watermark_delay' is missing"),
        ('window = "1 minute"', 'window = "0 s"', "aggregate: window: must be positive, got 0 s"),
        ('window = "1 minute"', 'window = "1 minute"\nslide = "2 min"', "slide: must not exceed the window"),
        (
            'path = "s3:',
            'mode = "apend"\npath = "s3:',
            r"sink: mode: unknown mode 'apend'. Did you mean 'append'\?",
        ),
        ('path = "s3:', 'mode = "update"\npath = "s3:', "sink: 'parquet' files only take mode 'append'"),
        (
            'watermark_delay = "5 seconds"',
            'watermark_delay = "x"',
            "aggregate: watermark_delay: expected a duration",
        ),
        ("[join]", "[join]\npartitions = 0", "join: partitions: must be a whole number of at least 1, got 0"),
        ("[join]", "[join]\nallow_cross_join = 1", "join: allow_cross_join: expected true or false, got 1"),
        ("[join]", "[join]\nmemory = '1 fish'", "join: memory: expected '256 MiB'"),
        ("[join]", "[join]\nmemory = '1 MiB'\nshed = 'aeg'", "join: shed: .*Did you mean 'age'"),
        (
            "[join]",
            "[join]\nmemory = '1 MiB'\nshed = {policy = 'age', age_bin = 3}",
            "toml: join: shed age: unknown setting 'age_bin'.*'age_bins'",
        ),
        (
            "[join]",
            "[join]\nmemory = '1 MiB'\nshed = {policy = 'age', age_bins = 0}",
            "toml: join: shed age: age_bins: must be a whole number",
        ),
        ("[join]", "[join", "is not valid TOML: "),
        (
            "[join]",
            "[join]\nschedule = 'swf'",
            r"join: schedule: is for queries that share .*\[queries.<",
        ),
        ("[join]", "[queries.q]\n[join]\nheartbeat = true", "join: heartbeat: needs a deadline"),
        ("[join]", "[queries.q]\n[join]\nschedule = 'gredy'", "join: schedule: .*Did you mean 'greedy'"),
        (
            "[join]",
            "[queries.q]\n[join]\nmax_backlog = -1",
            "join: max_backlog: must be a whole number",
        ),
        ("[join]", "[queries.q]\n[join]\nmemory = '1 MiB'", "queries.q: .* takes no memory limit"),
        ("[join]", "[queries.q]\nwithn = '1 s'\n[join]", "queries.q: unknown setting 'withn'"),
        ("[join]", "[queries.q]\nwithin = {c = '1 s'}\n[join]", "queries.q: within: unknown stream 'c'"),
        ("[join]", "[queries.q]\nselect = 'a.id'\n[join]", "queries.q: select: expected a list"),
        ("[join]", "[queries]\nq = 3\n[join]", "queries.q: expected a table, got 3"),
        (
            'path = "a"',
            'path = "a"\nvalue_format = "json"',
            "streams.a: value_format: needs format 'kafka', got 'json'",
        ),
        (
            'format = "json"\npath = "a"',
            'format = "kafka"\nvalue_format = "jsn"',
            r"streams.a: value_format: unknown format of values 'jsn'. Did you mean 'json'\?",
        ),
        (
            'format = "json"\npath = "a"',
            'format = "kafka"',
            "streams.a: schema: Kafka's records have columns of their own; .* value_format = 'json'",
        ),
        (
            'format = "json"\npath = "a"\nschema = "id bigint, at timestamp"',
            'format = "kafka"\nvalue_format = "json"',
            "streams.a: 'schema' is missing: json values .* schema = 'id bigint, at timestamp'",
        ),
        (
            'format = "json"\npath = "a"',
            'format = "kafka"\nvalue_format = "avro"',
            "streams.a: schema: expected the Avro schema of a record, .* got 'id bigint, at timestamp'",
        ),
        (
            'path = "s3://bucket/out"',
            'path = "s3://bucket/out"\nvalue_format = "json"',
            "sink: value_format: needs format 'kafka', got 'parquet'",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(file, replaced, by, told):
    assert replaced in GOOD
    file.write_text(GOOD.replace(replaced, by, 1))
    with pytest.raises(QueryError, match=told) as caught:
        read_pipeline(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_missing_file_and_a_wrong_one_end_with_code_2(file, tmp_path):
    missing = run(tmp_path / "nothing.toml")
    assert missing.exit_code == 2
    assert (
        missing.output == f"QueryError: {tmp_path}/nothing.toml: cannot be read: No such file or directory\n"
    )
    file.write_text(GOOD.replace('time = "at"', 'tme = "at"', 1))
    assert run(file).exit_code == 2


def test_help_has_examples():
    told = run("--help").output
    assert "--check" in told and "windrow run pipeline.toml" in told


# -- with Spark, which knows columns and expressions ---------------------------------------------------


@pytest.fixture(scope="module")
def auctions(tmp_path_factory):
    local_session(2, "windrow tests")
    return set_up(tmp_path_factory.mktemp("auctions"), "auctions", seconds=20, rate=10, files=1)[0]


def test_check_prints_the_plan_and_starts_nothing(auctions, untried):
    ran = run(auctions, "--check")
    assert ran.exit_code == 0, ran.output
    for words in (
        "2 minutes",
        "2 partitions, 2 by key a.id = b.auction_id",
        "Plan for 2 streams",
        "auctions",
    ):
        assert words in ran.output, words
    facts = json.loads(run(auctions, "--check", "--json").stdout)
    assert facts["streams"]["a"]["window"] == "2 minutes" and facts["plan"]["memory"]["exact_bytes"] > 0
    assert not (auctions.parent / "checkpoints").exists() and not (auctions.parent / "results").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("join.on=a.id = b.auction", "join: unknown column|unknown column 'b.auction'|auction_id"),
        ("streams.b.filter=prce > 0", "streams.b: filter: .*`prce` cannot be resolved.*`price`"),
        ("streams.b.filter=price >> > 0", "streams.b: filter: Syntax error at or near '>'"),
        ("streams.b.schema=auction_id bigit", 'streams.b: Unsupported data type "BIGIT"'),
        ("streams.b.format=jsn", "streams.b: Failed to find the data source: jsn"),
        ("streams.a.path=/no/such/directory", "streams.a: Path does not exist: file:/no/such/directory"),
        ("streams.b.time=price", "streams.b: .*price"),
        ("sink.select=['a.id', 'b.nothing']", "sink: select: .*nothing"),
        ("sink.select=['a.id', 'b.bidder as id']", "sink: two columns are named 'id'"),
        ("sink.select=[]; sink.format=csv", "sink: 'csv' cannot hold column 'a', a struct; .*'a.id'"),
        ("join.partitioning=keys", "partitioning: unknown partitioning 'keys'. Did you mean 'key'"),
    ],
)
def test_columns_and_expressions_are_checked_before_anything_starts(auctions, change, told):
    ran = run(auctions, *(part for each in change.split("; ") for part in ("--set", each)))
    assert ran.exit_code == 2, ran.output
    assert ran.output.count("\n") == 1, ran.output
    assert ran.output.startswith(f"QueryError: {auctions}: ")
    assert re.search(told, ran.output), ran.output
    assert not (auctions.parent / "checkpoints").exists()


def test_a_run_that_fails_ends_with_a_sentence_and_code_1(auctions, tmp_path):
    elsewhere = ["--set", f"run.checkpoint={tmp_path / 'c'}", "--set", f"sink.path={tmp_path / 'r'}"]
    price = 'double(raise_error("no luck today")) as price'
    failing = f"streams.b.select=['auction_id', 'bidder', 'bid_at', '{price}']"
    ran = run(auctions, "--set", failing, *elsewhere)
    assert ran.exit_code == 1, ran.output
    assert ran.output.strip().splitlines()[-1].endswith("no luck today")
    batch = run(auctions, "--set", failing, "--set", "run.trigger=batch", "--stacktrace", *elsewhere)
    assert batch.exit_code == 1, batch.output
    sentence, *report = batch.output.strip().splitlines()
    assert sentence.endswith("no luck today") and "SQLSTATE" not in sentence
    assert any("SQLSTATE" in line for line in report), batch.output


def test_the_live_view_shows_what_happens(auctions, tmp_path):
    from windrow.pipeline.builder import build
    from windrow.pipeline.runner import run_stream

    changes = [f"run.checkpoint={tmp_path / 'c'}", f"sink.path={tmp_path / 'r'}"]
    console = Console(force_terminal=True, width=110, record=True, file=(tmp_path / "screen").open("w"))
    built = build(read_pipeline(auctions, changes), local_session(2, ""))
    run_stream(built.pipeline.run.name, built.start, console, per_partition=True)
    shown = console.export_text()
    for words in (
        "hot_bids",
        "rows in",
        "/s in all",
        "lost",
        "max event time",
        "hottest key",
        "done: 1 batches",
    ):
        assert words in shown, (words, shown)
