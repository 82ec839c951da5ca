"""The page over HTTP: its files, its data as JSON, and figures for Prometheus.

It answers only reading requests, and bound to loopback only those addressed to this machine: a foreign site
whose name is made to point here (DNS rebinding) learns nothing.
"""

from __future__ import annotations

import errno
import gzip
import ipaddress
import json
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from windrow.errors import QueryError
from windrow.ui.address import LOOPBACK, Address
from windrow.ui.assets import asset
from windrow.ui.history import History
from windrow.ui.prometheus import CONTENT_TYPE, exposition

FILES = {
    "/": ("page.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    "/figures.js": ("figures.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/panels.js": ("panels.js", "text/javascript"),
    "/page.js": ("page.js", "text/javascript"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
WORTH_PACKING = 2048
"""Bytes from which an answer is compressed."""
OPEN = 4.0
"""Seconds after its last request in which a page counts as open."""
PATIENCE = 2.5
"""Seconds that open pages get to see how a run ended."""


class Server:
    """Serves a history until it is closed."""

    def __init__(self, history: History, address: Address) -> None:
        self.history = history
        self.host = address.host
        self.loopback = _is_loopback(address.host)
        self._http = _listen(self, address.host, address.port)
        self.port = int(self._http.server_address[1])
        self._asked = 0.0
        self._told_end = threading.Event()
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host = self.host
        if host in ("0.0.0.0", "::", ""):
            host = socket.gethostname()
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def data(self, seen: str | None) -> dict[str, Any]:
        """For a page that asks."""
        self._asked = time.monotonic()
        shown = self.history.look(seen)
        if shown["run"]["state"] not in ("waiting", "running"):
            self._told_end.set()
        return shown

    def close(self) -> None:
        """Ends it; a page that is open gets to see how the run ended."""
        ended = self.history.state not in ("waiting", "running")
        if ended and time.monotonic() - self._asked < OPEN and self._asked:
            self._told_end.wait(PATIENCE)
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    page: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed in mid-answer is nobody's concern."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    server_version = "windrow"
    sys_version = ""
    protocol_version = "HTTP/1.0"  # A connection a request: none outlives the server.
    timeout = 30

    def do_GET(self) -> None:
        page = self.server.page
        asked = urlsplit(self.path)
        if page.loopback and not _is_here(self.headers.get("Host", "")):
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "this page is for its own machine only\n")
        elif asked.path in FILES:
            name, kind = FILES[asked.path]
            self._answer(HTTPStatus.OK, f"{kind}; charset=utf-8", asset(name))
        elif asked.path == "/data":
            seen = parse_qs(asked.query).get("seen", [None])[0]
            text = json.dumps(page.data(seen), separators=(",", ":"), allow_nan=False)
            self._answer(HTTPStatus.OK, "application/json", text)
        elif asked.path == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE, exposition(page.history))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "nothing here; the page is at /\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        if len(body) >= WORTH_PACKING and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the terminal belongs to the run."""


def _listen(page: Server, host: str, port: int) -> _Http:
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        http = type("_Http", (_Http,), {"address_family": family})(address[:2], _Handler)
    except socket.gaierror:
        raise QueryError(f"page: unknown host '{host}'; {LOOPBACK} is this machine, 0.0.0.0 all") from None
    except OSError as error:
        raise QueryError(f"page: {_trouble(error, host, port)}") from None
    http.page = page
    return http


def _trouble(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use, perhaps by another run; choose another, or 0 for any free"
    if error.errno == errno.EACCES:
        return f"port {port} is not for everybody; choose one above 1023, or 0 for any that is free"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; {LOOPBACK} is for itself alone, 0.0.0.0 for all"
    return f"cannot listen on port {port} of {host}: {error.strerror}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_here(host: str) -> bool:
    """Whether a request's Host names this machine."""
    name = urlsplit(f"//{host}").hostname or ""
    return _is_loopback(name)
