"""`wr.dashboard`: the dashboard of a query that runs in this process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from windrow.model.keywords import checks_keywords
from windrow.ui.address import LOOPBACK, Address
from windrow.ui.history import History
from windrow.ui.report import write_page
from windrow.ui.server import Server

if TYPE_CHECKING:
    from windrow.spark.query_progress import StreamingQuery

POLL_SECONDS = 0.5


class Dashboard:
    """A dashboard that is served until it is closed. `wr.dashboard` creates it.

    Attributes
    ----------
    url
        Address of the page. Prometheus metrics are at `url` + "metrics".
    """

    def __init__(self, query: StreamingQuery, port: int = 0, host: str = LOOPBACK) -> None:
        self.history: History = History(str(query.name or query.id))
        self._server = Server(self.history, Address(port, host))
        self.url: str = self._server.url
        self._closing = threading.Event()
        self._watcher: threading.Thread | None = None
        self._watch(query)

    def follow(self, query: StreamingQuery) -> None:
        """Continue with another query, such as a restart of the same. Open pages show the restart."""
        self._stop_watching()
        self.history.restart()
        self._watch(query)

    def save(self, path: str | Path) -> Path:
        """Write the current page as one self-contained HTML file. That of an ended query is complete."""
        if self._watcher is not None and not self._query.isActive:
            self._watcher.join()
        return write_page(self.history, Path(path))

    def close(self) -> None:
        """Stop the server. The query keeps running."""
        self._stop_watching()
        self._server.close()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<page of '{self.history.name}' at {self.url}>"

    def _watch(self, query: StreamingQuery) -> None:
        self._query = query
        self._closing.clear()
        self._watcher = threading.Thread(target=self._poll, args=(query,), daemon=True)
        self._watcher.start()

    def _stop_watching(self) -> None:
        self._closing.set()
        if self._watcher is not None:
            self._watcher.join()

    def _poll(self, query: StreamingQuery) -> None:
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
            if self._closing.wait(POLL_SECONDS):
                return


@checks_keywords("wr.dashboard")
def dashboard(query: StreamingQuery, port: int = 0, host: str = LOOPBACK) -> Dashboard:
    """Serve a live dashboard of a streaming query: rates, recall, memory, time, learned models, lost rows.

    Parameters
    ----------
    query
        As `writeStream.start()` returned it. A query that has ended shows its last micro-batches.
    port
        0 for any free port.
    host
        The interface to listen on. By default only this machine has access; with "0.0.0.0" everyone who
        reaches it.

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
    from windrow.spark.spark_errors import check_started

    check_started(query)
    return Dashboard(query, port, host)
