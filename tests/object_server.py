"""An S3 server in this process, moto's, behind a layer that counts requests, adds latency and strikes.

It speaks the real protocol: clients are pyarrow's, with its own retries and timeouts.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs
from urllib.request import Request, urlopen

KEYS = {
    "AWS_ACCESS_KEY_ID": "windrow",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What clients need in their environment."""
BUCKET = "bucket"
TIMEOUT = 5.0
"""Seconds; longer than pyarrow waits for an answer."""


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    key: str
    """Within the bucket; the prefix if it is a listing."""
    listing: bool

    @property
    def kind(self) -> str:
        return "LIST" if self.listing else self.method


Strike = Callable[[Asked], str | None]
"""What happens to a request: None, or one of the faults below."""


class ObjectServer:
    """
    The faults are "503" (the store asks to slow down), "reset" (the connection breaks in the middle of the
    answer), "timeout" (nothing is done, and the answer comes too late) and "lost" (it is done, and the answer
    comes too late).

    Parameters
    ----------
    latency
        Seconds by which every answer is delayed.
    """

    def __init__(self, latency: float = 0.0) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs every request
        self.latency = latency
        self.strike: Strike = lambda asked: None
        self.lag = 0.0
        """Seconds after which a listing shows a new object."""
        self.asked: list[Asked] = []
        self._put: dict[str, float] = {}
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock = Lock()
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        urlopen(Request(f"http://127.0.0.1:{self._server.port}/{BUCKET}", method="PUT")).close()
        self.asked.clear()

    def url(self, path: str) -> str:
        options = f"endpoint_override=127.0.0.1:{self._server.port}&scheme=http&region=us-east-1"
        return f"s3://{BUCKET}/{path}?{options}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def counts(self) -> dict[str, int]:
        """Requests by kind since the last call."""
        with self._lock:
            kinds = [asked.kind for asked in self.asked]
            self.asked.clear()
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        asked = _asked(environ)
        with self._lock:
            self.asked.append(asked)
            fault = self.strike(asked)
        time.sleep(self.latency)
        if fault == "503":
            start_response("503 Slow Down", [("Content-Length", "0")])
            return []
        if fault == "timeout":
            time.sleep(TIMEOUT)
            start_response("500 Too Late", [("Content-Length", "0")])
            return []
        body = self._app(environ, start_response)
        if fault == "lost":
            b"".join(body)
            time.sleep(TIMEOUT)
        if fault == "reset":
            return _half(body)
        if asked.method == "PUT":
            self._put[asked.key] = time.monotonic()
        return self._lagging(body) if asked.listing and self.lag else body

    def _lagging(self, body: Iterable[bytes]) -> Iterable[bytes]:
        """Hides new objects from a listing. Its length has been sent, so it is filled up with spaces."""
        text = b"".join(body).decode()
        young = {key for key, at in self._put.items() if at > time.monotonic() - self.lag}
        shown = re.sub(
            r"<Contents>.*?</Contents>|<CommonPrefixes>.*?</CommonPrefixes>",
            lambda found: "" if _listed(found[0]) in young else found[0],
            text,
            flags=re.DOTALL,
        )
        return [shown.ljust(len(text)).encode()]


def _asked(environ: dict[str, Any]) -> Asked:
    key = environ["PATH_INFO"].removeprefix(f"/{BUCKET}").strip("/")
    query = parse_qs(environ.get("QUERY_STRING", ""))
    listing = environ["REQUEST_METHOD"] == "GET" and "list-type" in query
    return Asked(environ["REQUEST_METHOD"], query.get("prefix", [""])[0] if listing else key, listing)


def _listed(element: str) -> str:
    found = re.search(r"<(?:Key|Prefix)>(.*?)</", element)
    return found[1] if found else ""


def _half(body: Iterable[bytes]) -> Iterator[bytes]:
    whole = b"".join(body)
    yield whole[: len(whole) // 2]
    raise ConnectionResetError("the connection breaks")
