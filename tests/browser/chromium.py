"""Chromium without a window, asked through a pipe by the DevTools protocol. It needs no other package."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from typing import Any

from running import ROOT

NAME = "chromium"
AXE = ROOT / ".work/axe/node_modules/axe-core/axe.min.js"
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # Chromium refuses to run as root with its sandbox; it opens only files of these tests
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
TIMEOUT_S = 60
FIRST_VISIT = "try { localStorage.clear() } catch (error) {}"  # it has the colours that somebody chose


def missing() -> list[str]:
    """What these tests lack here."""
    return ([] if shutil.which(NAME) else [NAME]) + ([] if AXE.exists() else ["axe-core"])


class Chromium:
    """A browser with one page. `events` has what it reported since the page was opened."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._to = os.pipe()
        self._from, back = os.pipe()
        line = f'exec "$0" "$@" 3<&{theirs} 4>&{back}'
        command = ["bash", "-c", line, NAME, *OPTIONS, f"--user-data-dir={self._home.name}"]
        self._process = subprocess.Popen(
            command, pass_fds=(theirs, back), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs), os.close(back)
        self._count, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=FIRST_VISIT)

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        try:
            self.ask("Browser.close")
            self._process.wait(10)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to), os.close(self._from)
        self._home.cleanup()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come meanwhile are kept."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise EOFError("Chromium ended")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        if "method" in answer:
            self.events.append(answer)
        return answer

    def open(self, page: pathlib.Path, *, width: int, dark: bool = False, print_: bool = False) -> None:
        """Open a file in a window of that width, and wait until it is loaded."""
        self.resize(width)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="print" if print_ else "screen", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + TIMEOUT_S
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < deadline, f"{page} does not load"
            self._next()

    def resize(self, width: int) -> None:
        """Make the window that wide."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page; a promise is awaited."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def violations(self, *rules: str, within: str = "document") -> list[str]:
        """What axe finds by these rules or rules with these tags; within: an expression for the element to look in."""
        if not self.evaluate("typeof axe == 'object'"):
            self.evaluate(AXE.read_text(encoding="utf-8") + ";0")
        options = json.dumps({"runOnly": rules, "resultTypes": ["violations"]})
        found = self.evaluate(f"axe.run({within},{options}).then(r=>r.violations)")
        told = "{}: {}: {}"
        return [
            told.format(each["id"], node["html"][:200], node["failureSummary"])
            for each in found
            for node in each["nodes"]
        ]

    def requests(self) -> list[str]:
        """Every address that the page has asked for."""
        sent = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def picture(self) -> bytes:
        """A PNG of the whole page."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])
