"""The page over HTTP: what is served, to whom, and what happens when there is no place to serve it."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
import time

import pytest

from page_runs import limited
from windrow.errors import QueryError
from windrow.ui.address import Address
from windrow.ui.history import History
from windrow.ui.server import FILES, Server


@pytest.fixture(scope="module")
def told():
    run = limited()
    return [run.next() for _ in range(3)]


@pytest.fixture
def server():
    opened = Server(History("sensors"), Address(0))
    yield opened
    opened.close()


def get(server: Server, path: str, method: str = "GET", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.getheader("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return answer, body.decode()


def test_every_file_comes_with_a_policy_that_allows_nothing_from_elsewhere(server):
    for path, (_, kind) in FILES.items():
        answer, body = get(server, path)
        assert answer.status == 200 and answer.getheader("Content-Type") == f"{kind}; charset=utf-8"
        policy = answer.getheader("Content-Security-Policy")
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert "http://" not in body.replace("http://www.w3.org/2000/svg", "") and "https://" not in body
        assert "innerHTML" not in body and "eval(" not in body
    assert get(server, "/", "HEAD")[1] == ""
    assert get(server, "/../pyproject.toml")[0].status == 404
    assert get(server, "/", "POST")[0].status == 501


def test_data_is_sent_when_there_is_something_new(server, told):
    first = json.loads(get(server, "/data")[1])
    assert (first["run"]["state"], first["joins"]) == ("waiting", {})
    for batch in told:
        server.history.add(batch)
    answer, body = get(server, f"/data?since={first['revision']}", **{"Accept-Encoding": "gzip"})
    assert answer.getheader("Content-Encoding") == "gzip"
    second = json.loads(body)
    join = second["joins"]["sensors"]
    assert second["run"]["state"] == "running" and [p["batch"] for p in join["points"]] == [0, 1, 2]
    assert set(join["learned_models"]) == {"0", "1"} and join["partitions_known"] == 2
    assert "joins" not in json.loads(get(server, f"/data?since={second['revision']}")[1])


def test_on_loopback_only_this_machine_is_answered(server):
    for host in ("localhost", "127.0.0.1:4040", "[::1]:80", f"localhost:{server.port}"):
        assert get(server, "/data", Host=host)[0].status == 200, host
    for host in ("example.com", "127.0.0.1.example.com", "evil@example.com", ""):
        assert get(server, "/data", Host=host)[0].status == 403, host


def test_elsewhere_every_host_is_answered_and_loopback_is_the_default():
    assert Address(0).host == "127.0.0.1"
    server = Server(History("sensors"), Address(0, "0.0.0.0"))
    try:
        assert get(server, "/data", Host="example.com")[0].status == 200
        assert socket.gethostname() in server.url
    finally:
        server.close()


def test_a_port_in_use_is_told_with_what_to_do(server):
    with pytest.raises(QueryError, match=f"port {server.port} of 127.0.0.1 is in use.*choose another, or 0"):
        Server(History("other"), Address(server.port))


@pytest.mark.parametrize(
    ("port", "host", "why"),
    [
        (70_000, "127.0.0.1", "from 0 .* to 65535, got 70000"),
        (-1, "127.0.0.1", "got -1"),
        (0, "no.such.host.invalid", "unknown host 'no.such.host.invalid'"),
        (0, "192.0.2.1", "192.0.2.1 is not an address of this machine"),
    ],
)
def test_addresses_that_cannot_be(port, host, why):
    with pytest.raises(QueryError, match=why):
        Server(History("sensors"), Address(port, host))


def test_closing_waits_for_an_open_page_to_see_the_end(told):
    history = History("sensors")
    server = Server(history, Address(0))
    history.add(told[0])
    get(server, "/data")
    history.end("failed", "a sentence")
    closing = threading.Thread(target=server.close)
    closing.start()
    time.sleep(0.3)
    assert closing.is_alive()
    run = json.loads(get(server, "/data")[1])["run"]
    assert (run["state"], run["error"]) == ("failed", "a sentence")
    closing.join(5)
    assert not closing.is_alive()


def test_closing_waits_for_nobody_when_no_page_is_open(told):
    history = History("sensors")
    server = Server(history, Address(0))
    history.add(told[0])
    history.end("done")
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < 2
