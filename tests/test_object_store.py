"""States on an object store, over the S3 protocol: slow, failing, with listings that are behind."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

import stored
import windrow as wr
from object_server import KEYS, Asked, ObjectServer
from partition_runs import PartitionedJoin
from results import ids
from stored import QUERY, batches, collect, commit, newest, run, schemas, store, uninterrupted
from windrow.engine.state import State
from windrow.spark.partition_join import LOCAL
from windrow.state.inspect import show, verify
from windrow.state.prune import gone_queries, remove
from windrow.state.storage import ArrowStorage, Storage, open_storage

CALLS = batches(8, 300)
LATENCY = 0.005


@pytest.fixture(scope="module")
def started_server() -> Iterator[ObjectServer]:
    pytest.importorskip("moto.server", reason="the S3 server: pip install 'moto[s3]' flask flask-cors")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        server = ObjectServer(LATENCY)
        yield server
        server.stop()


@pytest.fixture
def server(started_server: ObjectServer) -> Iterator[ObjectServer]:
    """A server that answers. Each test has a directory of its own."""
    yield started_server
    started_server.strike, started_server.lag = (lambda asked: None), 0.0


@pytest.fixture
def url(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(LOCAL, str(tmp_path))  # copies of its files
    return server.url(f"states/{tmp_path.name}")


class Strikes:
    """Strikes every so-many-th request of some kinds."""

    def __init__(self, kinds: dict[str, str], every: int) -> None:
        self._kinds, self._every = kinds, every
        self._seen: Counter[str] = Counter()
        self.struck = 0

    def __call__(self, asked: Asked) -> str | None:
        fault = self._kinds.get(asked.kind)
        if fault is None:
            return None
        self._seen[asked.kind] += 1
        if self._seen[asked.kind] % self._every:
            return None
        self.struck += 1
        return fault


def joined(join: PartitionedJoin, batch: int, calls: list[stored.Call] = CALLS) -> Counter[tuple]:
    found = [out.select(["a", "b"]) for out in join.process(batch, calls[batch])]
    return sum((ids(pa.Table.from_batches([out])) for out in found), Counter())


@pytest.mark.parametrize("cached", [False, True])
def test_results_are_exact_and_old_versions_go(url: str, tmp_path: Path, cached: bool) -> None:
    cache = tmp_path / "cache" if cached else None
    answer = run(
        lambda: store(url, cache=cache),
        CALLS,
        reload=lambda batch: batch % 3 == 0,
        committed=lambda held, batch: collect(held, batch - 1),
    )
    assert answer == uninterrupted(CALLS)
    assert (verify(url).joins, verify(url).damage) == (1, ())
    assert show(url)[0].stored[0].batches == (4, 5, 6, 7)
    (gone,) = gone_queries(url)
    assert gone.last_commit == pytest.approx(time.time(), abs=3600)
    remove(url, gone)
    assert gone_queries(url) == []


@pytest.mark.parametrize(("rows", "puts"), [(5, 1), (300, 2)])
def test_a_warm_task_takes_two_or_three_requests(
    server: ObjectServer, url: str, rows: int, puts: int
) -> None:
    """Few new rows go into the manifest."""
    join, calls = PartitionedJoin(QUERY, schemas(), url, 1), batches(6, rows)
    for batch in range(3):
        joined(join, batch, calls)
    server.counts()
    joined(join, 3, calls)
    assert server.counts() == {"LIST": 1, "PUT": puts}
    moved = PartitionedJoin(QUERY, schemas(), url, 1)
    moved.run = join.run
    joined(moved, 4, calls)
    # A new worker reads the descriptions of join and run once; windows are on the machine.
    assert server.counts() == {"GET": 2, "HEAD": 2, "LIST": 1, "PUT": puts}


def test_a_move_of_few_rows_to_another_machine_takes_three_requests(
    server: ObjectServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join, calls = PartitionedJoin(QUERY, schemas(), url, 1), batches(6, 5)
    for batch in range(3):
        joined(join, batch, calls)
    monkeypatch.setenv(LOCAL, str(tmp_path / "another"))
    moved = PartitionedJoin(QUERY, schemas(), url, 1)
    moved.run = join.run
    server.counts()
    joined(moved, 3, calls)
    # Beside the descriptions of join and run, the manifest is read; pyarrow asks for sizes first.
    assert server.counts() == {"GET": 3, "HEAD": 3, "LIST": 1, "PUT": 1}


FAULTS = {
    "slow down": Strikes(dict.fromkeys(("GET", "HEAD", "LIST", "PUT", "DELETE"), "503"), every=5),
    "broken answers": Strikes({"GET": "reset", "LIST": "reset"}, every=3),
    "late answers": Strikes({"GET": "timeout", "PUT": "lost"}, every=12),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_passing_failures_do_no_harm(
    server: ObjectServer, url: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the client cannot make good by itself fails the task, and Spark runs it again. Every batch
    finds its windows on no machine."""
    server.strike, found = FAULTS[fault], Counter()
    for batch in range(4):
        for attempt in range(4):
            monkeypatch.setenv(LOCAL, str(tmp_path / f"{batch}-{attempt}"))
            join = PartitionedJoin(QUERY, schemas(), url, 2)
            join.run = "1" * 32
            try:
                found += joined(join, batch)
                break
            except wr.StateError as error:
                assert "Nothing is lost" in str(error), error
        else:
            pytest.fail("a task failed too often")
    assert FAULTS[fault].struck > 1
    server.strike = lambda asked: None
    op = wr.Operator(QUERY)
    assert found == sum((ids(op.process(call)) for call in CALLS[:4]), Counter())
    assert not verify(url).damage


def test_a_store_that_is_down_is_reported_and_loses_nothing(server: ObjectServer, url: str) -> None:
    """Clients try for seconds, so stores of which different requests fail do so at the same time."""
    told = {"LIST": "read the state in", "GET": "read the state in", "PUT": "write the state of batch 3"}
    server.strike = lambda asked: "503" if down and f"/{asked.kind}/" in asked.key else None
    down = False
    places = {kind: url.replace("?", f"/{kind}/states?") for kind in told}
    held = {}
    for kind, place in places.items():
        run(partial(store, place), CALLS[:3])
        held[kind] = store(place)
    before = {kind: each.load(newest(each, 3)) for kind, each in held.items()}

    def fails(kind: str) -> None:
        with pytest.raises(wr.StateError, match=rf"cannot {told[kind]}.*Nothing is lost"):
            again = store(places[kind])
            again.load(newest(again, 3))
            commit(held[kind], 3, before[kind], ())

    down = True
    with ThreadPoolExecutor() as pool:
        list(pool.map(fails, told))
    down = False
    for kind, place in places.items():
        again = store(place)
        assert newest(again, 10).batch == 2
        assert again.load(newest(again, 3)).metadata == before[kind].metadata


def test_a_listing_that_is_behind_is_an_error_and_not_a_wrong_result(server: ObjectServer, url: str) -> None:
    join, found = PartitionedJoin(QUERY, schemas(), url, 2), Counter()
    for batch in range(3):
        found += joined(join, batch)
    server.lag = 3600.0
    with pytest.raises(wr.StateError, match="batch 2: commit markers are missing for 2 of 2"):
        joined(join, 3)
    server.lag = 0.0
    found += joined(join, 3)
    op = wr.Operator(QUERY)
    assert found == sum((ids(op.process(call)) for call in CALLS[:4]), Counter())


def test_messages_name_the_object_and_not_the_options_of_its_url(server: ObjectServer, url: str) -> None:
    with pytest.raises(wr.StateError, match=r"no state in s3://bucket/states/[^?]*/query/join, though"):
        store(url).log.check_metadata({}, first=False)


# --- Without a server -----------------------------------------------------------------------------------


def test_where_the_store_can_the_first_to_create_a_file_wins(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    root = open_storage(f"memory://{tmp_path.name}")
    assert isinstance(root, ArrowStorage)
    root._there = lambda path: False  # both have looked before either created it
    for data in (b"first", b"second"):
        root.create("query/record", data, "a record")
    assert root.read("query/record").to_pybytes() == b"first"


class _Ageless(stored.Wrapped):
    """A filesystem that does not say when files were modified."""

    def get_file_info(self, asked: object) -> object:
        found = self._inner.get_file_info(asked)
        return [_without_time(i) for i in found] if isinstance(found, list) else found


def _without_time(info: fs.FileInfo) -> fs.FileInfo:
    return fs.FileInfo(info.path, info.type, size=info.size if info.is_file else None)


def test_files_of_unknown_age_count_as_young() -> None:
    root: Storage = ArrowStorage("mock://states", _Ageless(fs._MockFileSystem()), "states")
    held = store(root)
    for batch in range(5):
        commit(held, batch, State({}, (pa.record_batch({"x": [batch]}),)), ())
    orphan = f"query/join/p0/parts-{'0' * 32}.arrows"
    root.create(orphan, b"", "an orphan")
    collect(store(root, clock=lambda: time.time() + 10_000), 4)
    assert orphan.rpartition("/")[2] in root.names("query/join/p0")
    assert len(stored.log(root).read_markers().committed) == 3, (
        "what is known to be obsolete goes all the same"
    )
