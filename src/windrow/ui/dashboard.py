"""`wr.dashboard`: the page of a query that runs in this process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from windrow.ui.address import LOOPBACK, Address
from windrow.ui.history import History
from windrow.ui.report import write_page
from windrow.ui.server import Server

if TYPE_CHECKING:
    from windrow.spark.query_progress import StreamingQuery

LOOK = 0.5
"""Seconds between two looks at the query."""


class Dashboard:
    """A page that is served until it is closed; `wr.dashboard` makes it.

    Attributes
    ----------
    url
        Where the page is. Prometheus finds its figures at `url` + "metrics".
    """

    def __init__(self, query: StreamingQuery, port: int = 0, host: str = LOOPBACK) -> None:
        self.history: History = History(_name(query))
        self._server = Server(self.history, Address(port, host))
        self.url: str = self._server.url
        self._closing = threading.Event()
        self._watcher: threading.Thread | None = None
        self._watch(query)

    def follow(self, query: StreamingQuery) -> None:
        """Goes on with another query, such as the same one started again; pages that are open say so."""
        self._stop_watching()
        self.history.restart()
        self._watch(query)

    def save(self, path: str | Path) -> Path:
        """Writes the page as it is now: one HTML file that needs nothing else."""
        return write_page(self.history, Path(path))

    def close(self) -> None:
        """Takes the page down. The query runs on."""
        self._stop_watching()
        self._server.close()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<page of '{self.history.name}' at {self.url}>"

    def _watch(self, query: StreamingQuery) -> None:
        self._closing.clear()
        self._watcher = threading.Thread(target=self._look, args=(query,), daemon=True)
        self._watcher.start()

    def _stop_watching(self) -> None:
        self._closing.set()
        if self._watcher is not None:
            self._watcher.join()

    def _look(self, query: StreamingQuery) -> None:
        from windrow.spark.query_progress import QueryWatcher

        running = QueryWatcher(query)
        while True:
            active = running.active
            for progress in running.progress():
                self.history.add(progress.to_dict())
            if not active:
                failure = running.failure()
                self.history.end("failed" if failure else "stopped", failure[0] if failure else None)
                return
            if self._closing.wait(LOOK):
                return


def dashboard(query: StreamingQuery, port: int = 0, host: str = LOOPBACK) -> Dashboard:
    """Serves a live page of a streaming query: rates, recall, memory, time, what was learned, what was lost.

    Parameters
    ----------
    query
        As `writeStream.start()` returned it; one that has ended shows its last batches.
    port
        0 for any that is free.
    host
        Only this machine sees the page, unless this says otherwise ("0.0.0.0": everybody who reaches it).

    Returns
    -------
    Dashboard
        With `url`, `follow(query)`, `save(path)` and `close()`.

    Examples
    --------
    >>> with wr.dashboard(query) as page:                                              # doctest: +SKIP
    ...     print(page.url)
    ...     query.awaitTermination()
    """
    return Dashboard(query, port, host)


def _name(query: StreamingQuery) -> str:
    return str(query.name or query.id)
