"""Options and hypothesis profiles: the same examples every time, or with --soak many new ones; and what tests
that kill drivers share. CONTRIBUTING.md says what is run where.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from math import inf
from pathlib import Path
from random import SystemRandom
from time import monotonic

import pytest
from hypothesis import HealthCheck, settings

from driver import Drivers
from places import Place

# Half of what a short-lived Java takes goes into compiling for a long life. Much of the rest goes into
# verifying classes, into starting processes, and into making room in a small cache of compiled code.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn256m -Djdk.lang.Process.launchMechanism=VFORK"
    " -XX:ReservedCodeCacheSize=240m -XX:-UseCodeCacheFlushing"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))
WITH_SPARK = {"spark_tools", "spark_runs", "pipelines", "pages"}
"""Modules that start Spark for tests."""
LATER = ("faults", "lab", "kafka")
"""Markers of tests that wait for the option of their name."""
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
EXAMPLES, SOAK = 40, 200
"""Of a hundred examples a test asks for (`queries.examples`), so many are run, and in each round of a soak so
many."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run many times more random queries, with new seeds")
    parser.addoption("--minutes", type=float, default=inf, help="blocks of seeds begin only in this time")
    for name in LATER:
        parser.addoption(f"--{name}", action="store_true", help=f"run also the tests marked {name}")
    parser.addoption("--spark-seed", type=int, help="run only the random Spark join of this seed")


def pytest_configure(config: pytest.Config) -> None:
    soak = config.getoption("--soak")
    settings.register_profile(
        "windrow",
        deadline=None,
        derandomize=not soak,
        database=None,
        print_blob=soak,
        suppress_health_check=QUIET,
        max_examples=SOAK if soak else EXAMPLES,
    )
    settings.load_profile("windrow")
    if soak and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce())


class FailuresAtOnce:
    """Prints each failure when its test ends: the end of a soak is hours away."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"\n{report.longreprtext}", flush=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`blocks(4, soak=270)`: the test runs for blocks 0 to 3, in a soak for 0 to 269. So processes share the
    work, and a long run shows how far it is."""
    blocks = metafunc.definition.get_closest_marker("blocks")
    if blocks is not None:
        count = blocks.kwargs["soak"] if metafunc.config.getoption("--soak") else blocks.args[0]
        metafunc.parametrize("block", range(count))


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """From which tests may count: 0, or in a soak a new one."""
    return SystemRandom().randrange(10**9) if request.config.getoption("--soak") else 0


@pytest.fixture(autouse=True, scope="session")
def time_is_up(request: pytest.FixtureRequest) -> float:
    """When blocks of seeds no longer begin, by this process's clock."""
    return monotonic() + 60 * float(request.config.getoption("--minutes"))


@pytest.fixture(autouse=True)
def _in_time(request: pytest.FixtureRequest, time_is_up: float) -> None:
    if request.node.get_closest_marker("blocks") and monotonic() > time_is_up:
        pytest.skip("the time of the soak is up")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes has a target of its own: make soak, make lab. In a soak kinds of random tests take
    turns, so that none is left out when time is up. Otherwise tests on Spark come first: of several
    processes the first then runs them, with one Java, while the others run those without."""
    if config.getoption("--soak"):
        items.sort(key=lambda item: item.callspec.params.get("block", 0) if hasattr(item, "callspec") else 0)
    else:
        items.sort(key=lambda item: not on_spark(item))
    off = [name for name in LATER if not config.getoption(f"--{name}")]
    later = [item for item in items if any(map(item.get_closest_marker, off))]
    if later:
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if item not in later]


def on_spark(item: pytest.Item) -> bool:
    """Whether this may start Spark: by the name of its file, or by what that imports."""
    values = vars(item.getparent(pytest.Module).obj).values()
    made_in = {value.__module__ for value in values if hasattr(value, "__module__")}
    return "spark" in item.path.stem or not WITH_SPARK.isdisjoint(made_in)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Thousands of tests are collected and all of them are kept: the garbage collector need not look at them
    meanwhile, nor again and again afterwards."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    drivers = Drivers(tmp_path_factory.mktemp("drivers"))
    yield drivers
    drivers.stop()


@pytest.fixture
def drivers(started: Drivers) -> Iterator[Drivers]:
    """A driver to kill, with no fault planted yet."""
    yield started
    started.faults.clear()


@pytest.fixture
def compiled() -> Iterator[None]:
    """Spark compiles its plans, as it does by default."""
    from spark_tools import CODEGEN, settings

    with settings(dict(zip(CODEGEN, ("true", "FALLBACK"), strict=True))):
        yield


@pytest.fixture
def at(tmp_path: Path) -> Place:
    """Two streams whose files have yet to arrive."""
    return Place(tmp_path).write()


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation need not tell recall by memory: each fraction tried is one more run over the sample."""
    monkeypatch.setattr("windrow.explanation.dry_run.TRIED", ())
