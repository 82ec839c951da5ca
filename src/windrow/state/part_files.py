"""The part files of a version: fetched and verified side by side, mapped where they are local."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from windrow.errors import StateError
from windrow.state.local_storage import LocalStorage
from windrow.state.manifest import Manifest
from windrow.state.part_cache import Contents, PartCache
from windrow.state.parts import StoredPart, check_size, damaged, open_part, read_part
from windrow.state.storage import FETCHING, Storage, side_by_side
from windrow.state.trusted_files import is_trusted
from windrow.window.mapped_arrays import FilePlace

VERIFYING = 2
"""Parts that are verified at the same time, if they are large."""
_LARGE = 1 << 22


class PartFiles:
    """
    Parameters
    ----------
    directory
        The partition's, in `storage`.
    cache
        Local copies of the files, if the storage is remote.
    mapped
        Files that are mapped already.
    """

    def __init__(
        self,
        storage: Storage,
        directory: str,
        cache: PartCache | None,
        manifest: Manifest,
        mapped: Mapping[str, Contents],
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._cache = cache
        self._manifest = manifest
        self._files = {file: mapped[file] for file in manifest.files if file in mapped}
        self._files[manifest.inline_file] = Contents(pa.py_buffer(manifest.inline), None)
        self._trusted: dict[str, bool] = {}
        self._by_address: dict[int, Contents] = {}
        self._begins: list[int] = []

    def fetch(self, parts: Iterable[StoredPart]) -> None:
        """Makes the files of these parts available."""
        files = list(dict.fromkeys(part.file for part in parts if part.file not in self._files))
        threads = 1 if self._storage.local else FETCHING
        self._files |= dict(zip(files, side_by_side(self._contents, files, threads), strict=True))

    @property
    def mapped(self) -> dict[str, Contents]:
        return self._files

    def open(self, part: StoredPart) -> pa.RecordBatch:
        """The batch of a part. Only its description is read."""
        return self._from_copy_or_original(open_part, part)

    def read(self, part: StoredPart) -> pa.RecordBatch:
        """The batch of a part, verified."""
        return self._from_copy_or_original(read_part, part)

    def _from_copy_or_original(
        self, reading: Callable[[pa.Buffer, StoredPart, str], pa.RecordBatch], part: StoredPart
    ) -> pa.RecordBatch:
        try:
            return reading(self._files[part.file].buffer, part, self._where(part.file))
        except StateError:
            if self._cache is None or part.file not in self._manifest.files:
                raise
            # Only the local copy may be damaged: read the original.
            self._cache.drop(part.file)
            self._files[part.file], self._by_address = self._contents(part.file), {}
            return reading(self._files[part.file].buffer, part, self._where(part.file))

    def is_trusted(self, part: StoredPart) -> bool:
        """Whether this machine has written the part, so that it need not be verified."""
        path = self._files[part.file].path
        if part.file not in self._trusted:
            self._trusted[part.file] = path is not None and is_trusted(path)
        return self._trusted[part.file]

    def read_all(self, parts: Iterable[StoredPart]) -> dict[StoredPart, pa.RecordBatch]:
        parts = list(parts)
        threads = VERIFYING if sum(part.bytes for part in parts) > _LARGE else 1
        return dict(zip(parts, side_by_side(self.read, parts, threads), strict=True))

    def locate(self, address: int) -> FilePlace | None:
        """The local file that is mapped at an address, and the place in it."""
        if len(self._by_address) != len(self._files):
            self._by_address = {found.buffer.address: found for found in self._files.values()}
            self._begins = sorted(self._by_address)
        at = bisect_right(self._begins, address) - 1
        if at < 0:
            return None
        begin = self._begins[at]
        found = self._by_address[begin]
        if found.path is None or address >= begin + found.buffer.size:
            return None
        return FilePlace(found.path, address - begin)

    def _contents(self, file: str) -> Contents:
        path, size = f"{self._directory}/{file}", self._manifest.files[file]
        try:
            if self._cache:
                found = self._cache.get(file, size, lambda: self._storage.read(path))
            else:
                held = self._storage
                mapped = f"{held.directory}/{path}" if isinstance(held, LocalStorage) else None
                found = Contents(self._storage.read(path), mapped)
        except FileNotFoundError:
            needed = f"it is missing, and batch {self._manifest.batch} needs it"
            raise StateError(damaged(self._where(file), needed)) from None
        check_size(found.buffer, size, self._where(file))
        return found

    def _where(self, file: str) -> str:
        return self._storage.at(f"{self._directory}/{file}")
