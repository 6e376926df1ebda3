"""Controls a headless Chromium for local pages through a pipe, without a listening port."""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
LONGEST_S = 60.0


def executable() -> str | None:
    """Returns the program, None if it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextlib.contextmanager
def browser() -> Iterator["Browser"]:
    """Starts a browser with an empty profile, and ends it with all of its processes."""
    program = executable()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        to_read, its_write = os.pipe()
        its_read, to_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        script = f'exec "$@" 3<&{its_read} 4>&{its_write}'
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(its_read, its_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(its_read)
        os.close(its_write)
        try:
            yield Browser(to_read, to_write)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(to_read)
            os.close(to_write)


class Browser:
    """A browser with one tab. said: console errors and warnings. asked: the requested addresses."""

    def __init__(self, read: int, write: int) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self._read, self._write, self._left, self._number = read, write, b"", 0
        self._session: str | None = None
        self._events: list[str] = []
        targets = self.ask("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **values: Any) -> Any:
        """Returns the response to one command of the DevTools protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, page: Path, width: int, *, dark: bool = False, height: int = 800) -> float:
        """Opens a file; returns the seconds until it was loaded and had drawn twice."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self._events = []
        started = time.monotonic()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._next()
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - started

    def value(self, expression: str) -> Any:
        """Evaluates an expression in the page; awaits a promise."""
        found = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def key(self, name: str) -> None:
        """Presses a key."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def picture(self, form: str = "png", **options: Any) -> bytes:
        """Returns the visible text."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format=form, **options)["data"])

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + LONGEST_S
        while b"\0" not in self._left:
            assert time.monotonic() < deadline, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._left += part
        line, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, values = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.said.append(str(values["exceptionDetails"].get("exception", values["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(one.get("value")) for one in values["args"]))
        elif method == "Log.entryAdded":
            self.said.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(values["request"]["url"])
