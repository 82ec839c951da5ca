"""A real browser for the tests: headless Chromium, told what to do over its DevTools pipe.

Chromium reads commands from file descriptor 3 and answers on 4, JSON documents that end with a zero byte. So
nothing but Chromium itself is needed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = (
    "no Chromium found, so the page is not tested in a browser; install it with `apt-get install chromium` "
    f"(or put one of {', '.join(NAMES)} on the PATH) and run the tests again"
)
PATIENCE = 30.0


def find_chromium() -> str:
    """Its path; without one the test is skipped, and the run says how to install it."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        warnings.warn(INSTALL, stacklevel=2)
        pytest.skip(INSTALL)
    return found


class Browser:
    """One tab."""

    def __init__(self, profile: Path) -> None:
        down, commands = os.pipe()
        answers, up = os.pipe()
        switches = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}",
        ]  # fmt: skip
        line = 'exec "$0" "$@" 3<&"$DOWN" 4>&"$UP"'
        self._process = subprocess.Popen(
            ["bash", "-c", line, find_chromium(), *switches, "about:blank"],
            env={**os.environ, "DOWN": str(down), "UP": str(up)},
            pass_fds=(down, up),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(down)
        os.close(up)
        self._commands, self._answers = commands, answers
        self._number = 0
        self._left = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        """Errors that scripts ended with, and what the security policy refused."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._commands)
        os.close(self._answers)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            told = self._read(until)
            if told.get("id") == self._number:
                assert "error" not in told, f"{method}: {told['error']}"
                return told["result"]
            self._listen(told)

    def _read(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            self._left += os.read(self._answers, 1 << 20)
        whole, self._left = self._left.split(b"\0", 1)
        return json.loads(whole)

    def _listen(self, told: dict[str, Any]) -> None:
        if told.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["params"]["exceptionDetails"])[:500])
        entry = told.get("params", {}).get("entry", {})
        if told.get("method") == "Log.entryAdded" and entry.get("source") in ("security", "violation"):
            self.complaints.append(entry["text"])

    def open(self, url: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def value(self, script: str) -> Any:
        """What an expression comes to in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait(self, script: str) -> Any:
        """Its value, once that is something."""
        until = time.monotonic() + PATIENCE
        while not (found := self.value(script)):
            assert time.monotonic() < until, f"in vain: {script}\n{self.text()}\n{self.complaints}"
            time.sleep(0.05)
        return found

    def text(self) -> str:
        return str(self.value("document.body ? document.body.innerText : ''"))

    def picture(self, path: Path, whole: bool = True) -> None:
        """A screenshot."""
        told = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))
