"""`windrow state rescale | prune | export`: state is redistributed, removed and written out by command."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import test_state_formats as formats
import windrow as wr
from partition_runs import PartitionedJoin
from results import ids
from windrow.cli.state import app
from windrow.engine.operator import runner_of
from windrow.state import store
from windrow.state.inspect import show, verify
from windrow.state.layout import StoredDimension, StoredLayout
from windrow.state.rescale import Rescale, StoredVersion
from windrow.state.storage import open_storage
from windrow.state.store import SMALLEST_FILE

CALLS = formats.calls()
SCHEMAS = dict.fromkeys("ab", formats.SCHEMA)
SKEWED = '{"values": [1, 2], "splits": 2}'


@pytest.fixture(autouse=True, params=[0, SMALLEST_FILE], ids=["files", "manifests"])
def places_of_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are in files, or so few that they are in manifests."""
    monkeypatch.setattr(store, "SMALLEST_FILE", request.param)


def command(*arguments: object, given: str = "") -> tuple[int, str]:
    ran = CliRunner().invoke(app, [str(each) for each in arguments], input=given)
    return ran.exit_code, ran.output


def begun(root: Path, query: wr.Query = formats.QUERY, query_id: str = "query", **laid: object) -> Counter:
    """A join after three micro-batches; returns its results."""
    join = PartitionedJoin(query, SCHEMAS, str(root), laid.pop("partitions", 2), query_id=query_id, **laid)
    return sum((formats.results(join.process(n, call)) for n, call in enumerate(CALLS[:3])), Counter())


def continued(root: Path, query: wr.Query = formats.QUERY, **laid: object) -> Counter:
    join = PartitionedJoin(query, SCHEMAS, str(root), laid.pop("partitions"), **laid)
    return sum((formats.results(join.process(3 + n, call)) for n, call in enumerate(CALLS[3:])), Counter())


def whole(query: wr.Query = formats.QUERY) -> Counter:
    op = wr.Operator(query, SCHEMAS)
    return sum((ids(op.process(call)) for call in CALLS), Counter())


# --- rescale --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["a.k = b.k", "abs(a.k - b.k) <= 1", "a.k < b.k"])
def test_a_rescaled_state_is_continued_as_it_is(tmp_path: Path, on: str) -> None:
    query = wr.Query({a: wr.Stream("ts", "5 seconds") for a in "ab"}, on, late="1 second")
    found = begun(tmp_path, query)
    code, told = command("rescale", tmp_path, "--partitions", 4)
    assert code == 0 and "batch 2: 2 partitions before, now 4 partitions" in told, told
    assert not verify(str(tmp_path)).damage
    (shown,) = show(str(tmp_path))
    assert shown.partitions == len(shown.stored) == 4
    assert "has this layout already" in command("rescale", tmp_path, "--partitions", 4)[1]
    assert found + continued(tmp_path, query, partitions=4) == whole(query)
    assert len(list((tmp_path / "query" / "join" / "commits").glob("*/rescaled.*"))) == 1


def test_rescaled_again_and_again_nothing_is_lost(tmp_path: Path) -> None:
    found = begun(tmp_path)
    for partitions in (5, 1, 3, 2):
        assert command("rescale", tmp_path, "--partitions", partitions)[0] == 0
    code, told = command("rescale", tmp_path, "--partitions", 4, "--skewed-keys", SKEWED, "--json")
    assert code == 0 and json.loads(told)[0]["before"] == 2
    assert "rows of a" in command("show", tmp_path)[1]
    assert found + continued(tmp_path, partitions=7) == whole()


def test_of_two_rescalings_at_once_one_wins(tmp_path: Path) -> None:
    begun(tmp_path)
    root = open_storage(str(tmp_path))
    both = [
        Rescale(StoredVersion(root, "query/join"), StoredLayout(1, (StoredDimension(1, "key", t),)))
        for t in "xy"
    ]
    state = StoredVersion(root, "query/join").states()[0]
    for each in both:
        each.build(0, state)
    both[0].finish()
    with pytest.raises(wr.StateError, match=r"another rescaling of .* was faster: batch 2 has 1 partitions"):
        both[1].finish()


def test_a_rescaling_that_is_not_finished_does_not_count(tmp_path: Path) -> None:
    found = begun(tmp_path)
    stored = StoredVersion(open_storage(str(tmp_path)), "query/join")
    Rescale(stored, StoredLayout(1)).build(0, stored.states()[1])
    assert not verify(str(tmp_path)).damage
    assert show(str(tmp_path))[0].partitions == 2
    assert found + continued(tmp_path, partitions=2) == whole()


def test_what_the_query_commits_meanwhile_is_not_disturbed(tmp_path: Path) -> None:
    join = PartitionedJoin(formats.QUERY, SCHEMAS, str(tmp_path), 2)
    found: Counter = Counter()
    for number, call in enumerate(CALLS):
        if number == 4:
            stored = StoredVersion(open_storage(str(tmp_path)), "query/join")
        found += formats.results(join.process(number, call))
        if number == 4:  # it rescales batch 3 and ends after batch 4
            rescale = Rescale(stored, StoredLayout(1))
            rescale.build(0, stored.states()[0])
            rescale.finish()
    assert found == whole()
    assert show(str(tmp_path))[0].partitions == 2


def test_a_predicate_with_functions_needs_its_program(tmp_path: Path) -> None:
    alike = wr.Function(lambda a, b: a is not None and a == b, pa.bool_())
    query = wr.Query(
        {a: wr.Stream("ts", "5 seconds") for a in "ab"}, "alike(a.k, b.k)", functions={"alike": alike},
        allow_cross_join=True, late="1 second",
    )  # fmt: skip
    found = begun(tmp_path, query, partitioning="grid")
    code, told = command("rescale", tmp_path, "--partitions", 4)
    assert code == 1 and "without the program that runs it" in told and "Restart the query" in told
    assert found + continued(tmp_path, query, partitions=4) == whole(query)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--partitions", 4, "--partitioning", "range"], 2, "gives nothing to partition by range"),
        (["--partitions", 4, "--skewed-keys", "7"], 2, "expected {'values': [values]"),
        (["--partitions", 4, "--skewed-keys", "{"], 2, "expected JSON"),
        (["--partitions", 4, "--join", "other"], 2, "There is no state"),
    ],
)
def test_what_cannot_be_rescaled_is_said(
    tmp_path: Path, arguments: list[object], code: int, told: str
) -> None:
    begun(tmp_path)
    got, output = command("rescale", tmp_path, *arguments)
    assert (got, told in output) == (code, True), output
    assert show(str(tmp_path))[0].partitions == 2


# --- export ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["a.k = b.k", "abs(a.k - b.k) <= 1", "a.k < b.k"])
def test_every_row_is_exported_once(tmp_path: Path, on: str) -> None:
    query = wr.Query({a: wr.Stream("ts", "5 seconds") for a in "ab"}, on, late="1 second")
    begun(tmp_path / "state", query, partitions=4)
    op = wr.Operator(query, SCHEMAS)
    for call in CALLS[:3]:
        op.process(call)
    code, told = command("export", tmp_path / "state", tmp_path / "rows", "--json")
    assert code == 0, told
    for stream, alias in enumerate("ab"):
        rows = pq.read_table(tmp_path / "rows" / "query" / "join" / alias)
        assert rows.schema.names == formats.SCHEMA.names
        held = Counter(rows.column("id").to_pylist())
        needed = Counter(runner_of(op).join.windows[stream].live_payload().column("id").to_pylist())
        assert not needed - held and max(held.values()) == 1
        assert json.loads(told)[0]["rows"][alias] == rows.num_rows
    code, told = command("export", tmp_path / "state", tmp_path / "rows")
    assert code == 1 and "is not empty; give a new directory" in told


# --- prune ----------------------------------------------------------------------------------------------


def checkpoint(path: Path, query_id: str) -> Path:
    path.mkdir(parents=True)
    (path / "metadata").write_text(json.dumps({"id": query_id}))
    return path


def queries(root: Path) -> set[str]:
    return {state.query for state in show(str(root))}


def test_prune_keeps_the_queries_of_checkpoints_and_asks(tmp_path: Path) -> None:
    root = tmp_path / "state"
    for query_id in ("one", "two"):
        begun(root, query_id=query_id)
    kept = checkpoint(tmp_path / "checkpoint", "one")
    code, told = command("prune", root, "--checkpoint", kept, given="n\n")
    assert code == 0 and "two" in told and "Delete the state of these queries?" in told
    assert queries(root) == {"one", "two"}
    code, told = command("prune", root, "--checkpoint", kept, "--json")
    found = json.loads(told)
    assert not found["deleted"] and [each["query"] for each in found["gone"]] == ["two"]
    assert found["gone"][0]["files"] == len([f for f in (root / "two").rglob("*") if f.is_file()])
    assert queries(root) == {"one", "two"}
    assert command("prune", root, "--checkpoint", kept, given="y\n")[0] == 0
    assert queries(root) == {"one"} and not (root / "two").exists()
    assert "No query in" in command("prune", root, "--checkpoint", kept)[1]


def test_prune_by_age_and_by_name(tmp_path: Path) -> None:
    for query_id in ("one", "two"):
        begun(tmp_path, query_id=query_id)
    for file in (tmp_path / "one").rglob("*"):
        os.utime(file, (time.time() - 40 * 86_400,) * 2)
    assert command("prune", tmp_path, "--older-than", "50 days", "--yes")[0] == 0
    assert queries(tmp_path) == {"one", "two"}
    assert command("prune", tmp_path, "--older-than", "30 days", "--yes")[0] == 0
    assert queries(tmp_path) == {"two"}
    assert command("prune", tmp_path, "--query", "other", "--yes")[0] == 0
    assert command("prune", tmp_path, "--query", "two", "--yes")[0] == 0
    assert queries(tmp_path) == set()
    assert command("prune", tmp_path, "--query", "two", "--yes")[0] == 2


def test_prune_must_be_told_what_is_gone(tmp_path: Path) -> None:
    begun(tmp_path / "state")
    assert command("prune", tmp_path / "state", "--yes")[0] == 2
    code, told = command("prune", tmp_path / "state", "--checkpoint", tmp_path / "no", "--yes")
    assert code == 1 and "is no checkpoint of a Spark query" in told
    assert queries(tmp_path / "state") == {"query"}


def test_a_removal_that_was_cut_off_is_repeated(tmp_path: Path) -> None:
    begun(tmp_path)
    shutil.rmtree(tmp_path / "query" / "join" / "p0", ignore_errors=True)  # in manifests, there is none
    assert command("prune", tmp_path, "--query", "query", "--yes")[0] == 0
    assert not (tmp_path / "query").exists()
