"""The dashboard over HTTP: its files, its data as JSON, and Prometheus metrics.

It serves GET and HEAD requests only. On loopback it also refuses requests whose Host is not this machine, so
that a foreign site cannot read it through DNS rebinding.
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
from windrow.ui.address import LOOPBACK, PAGE, Address
from windrow.ui.assets import asset
from windrow.ui.history import History
from windrow.ui.prometheus import CONTENT_TYPE, exposition

FILES = {
    "/": ("page.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    "/drawing.js": ("drawing.js", "text/javascript"),
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
MIN_COMPRESSED = 2048
"""Bytes from which a response is compressed."""
OPEN_SECONDS = 4.0
"""A page counts as open this long after its last request."""
GRACE_SECONDS = 2.5
"""How long `close` waits for open pages to fetch the final state of the run."""


class Server:
    """Serves a history until it is closed."""

    def __init__(self, history: History, address: Address) -> None:
        self.history = history
        self.host = address.host
        self.loopback = _is_loopback(address.host)
        self._http = _listen(self, address.host, address.port)
        self.port = int(self._http.server_address[1])
        self._last_request = 0.0
        self._end_delivered = threading.Event()
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host = self.host
        if host in ("0.0.0.0", "::", ""):
            host = socket.gethostname()
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def data(self, since: str | None) -> dict[str, Any]:
        """The data of the page."""
        self._last_request = time.monotonic()
        shown = self.history.page_data(since)
        if shown["run"]["state"] not in ("waiting", "running"):
            self._end_delivered.set()
        return shown

    def close(self) -> None:
        """Stop serving, after an open page has fetched the final state of the run."""
        ended = self.history.state not in ("waiting", "running")
        if ended and self._last_request and time.monotonic() - self._last_request < OPEN_SECONDS:
            self._end_delivered.wait(GRACE_SECONDS)
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    page: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of a connection, such as a page closed during a response."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    server_version = "windrow"
    sys_version = ""
    protocol_version = "HTTP/1.0"  # one connection per request, so that none outlives the server
    timeout = 30

    def do_GET(self) -> None:
        page = self.server.page
        url = urlsplit(self.path)
        if page.loopback and not _is_here(self.headers.get("Host", "")):
            self._respond(HTTPStatus.FORBIDDEN, "text/plain", "this page is only served to its own machine\n")
        elif url.path in FILES:
            name, kind = FILES[url.path]
            self._respond(HTTPStatus.OK, f"{kind}; charset=utf-8", asset(name))
        elif url.path == "/data":
            since = parse_qs(url.query).get("since", [None])[0]
            text = json.dumps(page.data(since), separators=(",", ":"), allow_nan=False)
            self._respond(HTTPStatus.OK, "application/json", text)
        elif url.path == "/metrics":
            self._respond(HTTPStatus.OK, CONTENT_TYPE, exposition(page.history))
        else:
            self._respond(HTTPStatus.NOT_FOUND, "text/plain", "nothing here; the page is at /\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _respond(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        if len(body) >= MIN_COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because the terminal shows the run."""


def _listen(page: Server, host: str, port: int) -> _Http:
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        http = type("_Http", (_Http,), {"address_family": family})(address[:2], _Handler)
    except socket.gaierror:
        raise QueryError(
            f"unknown host '{host}'; use {LOOPBACK} for this machine, 0.0.0.0 for all", PAGE
        ) from None
    except OSError as error:
        raise QueryError(_listen_error(error, host, port), PAGE) from None
    http.page = page
    return http


def _listen_error(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use, perhaps by another run; choose another, or 0 for any free port"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs privileges; choose one above 1023, or 0 for any free port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; use {LOOPBACK} for itself alone, 0.0.0.0 for all"
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
