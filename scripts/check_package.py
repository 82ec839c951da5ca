"""check_package.py DIST SOURCES: the wheel holds the whole package, the other file all that tests need."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

BESIDE = (
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "pyproject.toml",
    "mkdocs.yml",
)
FOLDERS = ("src", "lab", "tests", "docs", "examples", "scripts")


def missing(dist: Path, sources: Path) -> dict[str, list[str]]:
    """What each file in `dist` lacks, by its name."""
    listed = subprocess.run(
        ["git", "ls-files", *FOLDERS, *BESIDE], cwd=sources, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    with tarfile.open(source) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    package = [name.removeprefix("src/") for name in listed if name.startswith("src/")]
    return {
        wheel.name: [name for name in package if name not in packed],
        source.name: [name for name in listed if name not in shipped],
    }


def main() -> None:
    found = missing(Path(sys.argv[1]), Path(sys.argv[2]))
    for name, absent in found.items():
        print(f"{name}: " + (f"lacks {', '.join(absent)}" if absent else "whole"))
    if any(found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
