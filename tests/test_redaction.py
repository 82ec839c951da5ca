"""Credentials stay out of errors, tracebacks, the page and what commands print."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs
from typer.testing import CliRunner

import windrow as wr
from pipelines import run as windrow_run
from pipelines import set_up
from spark_tools import Stream, rows
from spark_tools import run as run_stream
from windrow.cli import app
from windrow.pipeline.toml_reader import read_pipeline
from windrow.redaction import redacted
from windrow.spark.spark_errors import RunError, as_query_error, short_message
from windrow.sql_frontend.parser import parse_script
from windrow.state.storage import ArrowStorage, open_storage
from windrow.ui.history import History
from windrow.ui.prometheus import exposition
from windrow.ui.report import page

SECRET = "hUnTeR2"
URLS = {
    "user and password": f"nonsense://AKIAKEY:{SECRET}@bucket/state",
    "a slash that nobody escaped": f"nonsense://AKIAKEY:a/b{SECRET}@bucket/state",
    "an at sign that nobody escaped": f"nonsense://AKIAKEY:{SECRET}@{SECRET}@bucket/state",
    "a token for a user": f"nonsense://{SECRET}@host/state",
    "a signature": f"nonsense://bucket/state?sv=2024&sig={SECRET}%3D",
    "keys as parameters": f"nonsense://bucket/state?access_key=A&secret_key={SECRET}&region=eu",
    "any parameter": f"nonsense://bucket/state?code={SECRET}",
    "a fragment": f"nonsense://bucket/state#access_token={SECRET}",
    "the semicolons of a JDBC driver": f"jdbc:sqlserver://host:1433;user=me;password={SECRET};encrypt=true",
    "Oracle's way": f"jdbc:oracle:thin:scott/{SECRET}@host:1521:db",
    "azure": f"abfss://container@account.dfs.core.windows.net/state?sig={SECRET}",
}
SETTINGS = {
    "TOML": f'password = "{SECRET}"',
    "SQL": f"password = '{SECRET}'",
    "Python": repr({"kafka.ssl.keystore.password": SECRET, "topic": "t"}),
    "JSON": json.dumps({"fs.s3a.secret.key": SECRET}),
    "JSON in JSON": json.dumps(json.dumps({"api_key": SECRET})),
    "JAAS": f'kafka.sasl.jaas.config = \'PlainLoginModule required username="u" password="{SECRET}";\'',
    "JAAS alone": f'PlainLoginModule required username="u" password="{SECRET}";',
    "Azure's account key": f"fs.azure.account.key.name.dfs.core.windows.net={SECRET}",
    "Spark's options": f"Map(url -> h, password -> {SECRET}, truststore.password -> {SECRET})",
    "a command": f"--set streams.a.options.password={SECRET}",
}


@pytest.fixture(params=URLS.values(), ids=URLS)
def url(request: pytest.FixtureRequest) -> str:
    return request.param


def _whole(error: BaseException) -> str:
    """All that Python prints of an error, with its causes."""
    return "".join(traceback.format_exception(error))


# --- The text ---------------------------------------------------------------------------------------------


def test_urls_are_shown_without_their_secrets(url: str) -> None:
    for text in (url, f"cannot open {url}: refused", f"<{url}>", repr(url), json.dumps({"path": url})):
        assert SECRET not in redacted(text) and "***" in redacted(text)
    assert redacted(f"cannot open {url}: refused").endswith(": refused")


@pytest.mark.parametrize("text", SETTINGS.values(), ids=SETTINGS)
def test_settings_with_a_telling_name_are_hidden(text: str) -> None:
    assert SECRET not in redacted(text) and "***" in redacted(f"refused: {text}, sorry")


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/state/p0/batch-000000000003.json",
        "abfss://container@account.dfs.core.windows.net/state",
        "hdfs://name:8020/state",
        "s3://bucket/2x@3/state",
        "s3a://bucket/year=202?/month",
        "unknown setting 'password'. Did you mean 'path'?",
        "on: a.token = b.token and a.t < 3",
        "kafka.bootstrap.servers = 'a:9092,b:9092'",
        "is there a state in gs://bucket/state? No",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@given(
    st.sampled_from(["s3", "s3a", "gs", "https", "jdbc:postgresql", "sftp", "wasbs"]),
    st.text("abcXYZ019%.-_~", max_size=8),
    st.text("abcXYZ019%.-_~/+=@:?#&;!$,()*", max_size=8),
    st.text("abcXYZ019%.-_~/+=@:?#&;!$,()*", max_size=8),
    st.sampled_from(["", "/", "/p/q", "/p?region=eu", "/p@q"]),
    st.sampled_from(["{}", "cannot open '{}': no", '{{"path": "{}"}}', "<{}> and {}", "{}, refused"]),
)
def test_no_part_of_any_password_is_shown(
    scheme: str, user: str, before: str, after: str, path: str, sentence: str
) -> None:
    url = f"{scheme}://{user}:{before}{SECRET}{after}@host{path}"
    assert SECRET not in redacted(sentence.format(url, url))


@pytest.mark.parametrize("piece", ["a", "a://", "password", "x=", "9.", "a://b:", "s3://a?b", " = "])
def test_a_text_of_any_length_is_looked_through_once(piece: str) -> None:
    """By the square of its length, each of these would take hours."""
    assert redacted(piece * 50_000).startswith(piece)


# --- State paths ------------------------------------------------------------------------------------------


def test_a_state_path_that_cannot_be_opened(url: str) -> None:
    try:
        # Some are opened: Azure connects when asked for a file, and Oracle's could be a path.
        told = repr(str(open_storage(url)))
    except wr.StateError as refused:
        told = _whole(refused)
        assert "cannot open the state path" in told
    # What is opened has no parameters any more.
    assert SECRET not in told and ("***" in told or "?" not in told)


class _Quoting:
    """A file system whose every complaint quotes the URL it was opened with."""

    def __init__(self, url: str, kind: type[Exception]) -> None:
        self._error = kind(f"403 for {url}/p0: go away")

    def __getattr__(self, name: str) -> Callable[..., None]:
        def refuse(*_: object, **__: object) -> None:
            raise self._error from ValueError(str(self._error))

        return refuse


@pytest.mark.parametrize("kind", [OSError, PermissionError, pa.ArrowInvalid, RuntimeError, KeyError])
def test_what_the_library_below_says_is_told_without_secrets(url: str, kind: type[Exception]) -> None:
    root = ArrowStorage(url, _Quoting(url, kind), "base")
    assert SECRET not in str(root) + root.at("p0") + root.url
    asked: list[Callable[[], object]] = [
        lambda: root.read("p0"),
        lambda: root.entries("p0"),
        lambda: root.create("p0", b"", "a file"),
        lambda: root.delete("p0"),
        lambda: _commit(root),
    ]
    for ask in asked:
        with pytest.raises(wr.StateError, match=r"go away.*Nothing is lost") as refused:
            ask()
        assert SECRET not in _whole(refused.value)


def _commit(root: ArrowStorage) -> None:
    with root.commit("a file", "p0") as commit:
        commit.open("p0/x").write(b"")


def test_a_file_that_is_not_there_is_named_without_secrets(url: str) -> None:
    root = ArrowStorage(url, _Quoting(url, FileNotFoundError), "base")
    with pytest.raises(FileNotFoundError) as missing:
        root.read("p0")
    assert SECRET not in _whole(missing.value) and "p0" in str(missing.value)


def test_damage_is_told_without_secrets(url: str) -> None:
    inner = fs._MockFileSystem()
    inner.create_dir("base/query/join/frontier")
    with inner.open_output_stream("base/query/join/join.json") as file:
        file.write(b"{}")
    from windrow.state.inspect import verify

    (damage,) = verify(ArrowStorage(url, inner, "base")).damage
    assert SECRET not in repr(damage) and "join.json" in damage.path


@pytest.mark.parametrize("command", [["state", "show"], ["state", "verify"], ["queries", "list"]])
@pytest.mark.parametrize("scheme", ["memory", "nonsense"])
def test_commands_on_a_state_print_no_secrets(command: list[str], scheme: str) -> None:
    ran = CliRunner().invoke(app, [*command, f"{scheme}://user:{SECRET}@nowhere/x?token={SECRET}"])
    assert ran.exit_code != 0 and ran.output
    assert SECRET not in ran.output + ran.stderr


def test_a_pool_prints_no_secrets() -> None:
    assert SECRET not in repr(wr.MemoryPool("1 MiB", f"s3://key:{SECRET}@bucket/pool"))


# --- Pipelines and SQL ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def auctions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return set_up(tmp_path_factory.mktemp("auctions"), "auctions", 20, 50, 2)[0]


def test_a_pipeline_is_checked_without_showing_secrets(auctions: Path) -> None:
    changes = [
        f"sink.path=s3a://key:{SECRET}@bucket/results",
        f"sink.options={{ password = '{SECRET}' }}",
        f"run.checkpoint=s3a://bucket/checkpoint?token={SECRET}",
        f"run.spark_conf={{ 'spark.hadoop.fs.s3a.secret.key' = '{SECRET}' }}",
    ]
    options = [part for change in changes for part in ("--set", change)]
    plain, as_json = (windrow_run(auctions, "--check", *options, *more) for more in ([], ["--json"]))
    assert plain.exit_code == as_json.exit_code == 0
    assert SECRET not in plain.output + as_json.output
    assert json.loads(as_json.stdout)["state"] == "s3a://bucket/checkpoint?***"
    assert json.loads(as_json.stdout)["sink"]["path"] == "s3a://***@bucket/results"
    assert SECRET not in repr(read_pipeline(auctions, changes[1::2]))


@pytest.mark.parametrize(
    "change",
    [
        f"streams.bids.options.password=['{SECRET}']",
        f"streams.bids.options='password={SECRET}'",
        f"streams.bids.options.password.more='{SECRET}'",
        f"streams.bids.path=jdbc:postgresql://u:{SECRET}@h/d",
        f"streams.bids.format.password={SECRET}",
        f"run.trigger='https://u:{SECRET}@h'",
    ],
)
def test_mistakes_in_a_pipeline_are_told_without_secrets(auctions: Path, change: str) -> None:
    ran = windrow_run(auctions, "--check", "--stacktrace", "--set", change)
    assert ran.exit_code == 2 and ran.stderr
    assert SECRET not in ran.output + ran.stderr


def test_a_line_of_sql_is_shown_without_secrets_and_the_carets_stay_below_their_place() -> None:
    line = f"CREATE STREAM x TIME ta FROM (format = jdbc, password = '{SECRET}', format = jdbc)"
    with pytest.raises(wr.QueryError) as refused:
        parse_script(line)
    told, shown, carets = str(refused.value).splitlines()
    assert SECRET not in told + shown and "password = ***" in shown
    at = carets.index("^")
    assert shown[at : at + carets.count("^")] == "format" and at == shown.rindex("format")


# --- Running ----------------------------------------------------------------------------------------------


def test_what_spark_says_is_told_without_secrets(url: str) -> None:
    said = f"[STREAM_FAILED] Query terminated with exception: [FAILED] cannot reach {url} SQLSTATE: XXKST"
    assert SECRET not in short_message(RuntimeError(said))
    assert SECRET not in str(error := RunError(said, f"{said}\n at Main")) + error.report
    with pytest.raises(wr.QueryError) as refused, as_query_error("here", (RuntimeError,)):
        raise RuntimeError(said)
    assert SECRET not in _whole(refused.value)


def test_the_page_and_the_metrics_tell_no_secrets(url: str) -> None:
    history = History("run")
    history.end("failed", f"cannot reach {url}")
    assert SECRET not in json.dumps(history.page_data()) + page(history) + exposition(history)
    assert "***" in history.page_data()["run"]["error"]


def test_a_query_that_fails_in_a_worker_tells_no_secrets(tmp_path: Path) -> None:
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    a.put(rows(1, 20))
    b.put(rows(2, 20))
    state = f"nonsense://AKIAKEY:{SECRET}@bucket/state?token={SECRET}"
    out = wr.join({"a": a.read(), "b": b.read()}, "a.k = b.k", "ts", "5 seconds", partitions=1, state=state)
    with pytest.raises(Exception, match=re.escape("nonsense://***@bucket/state?***")) as failed:
        run_stream(out, tmp_path)
    assert SECRET not in _whole(failed.value)
