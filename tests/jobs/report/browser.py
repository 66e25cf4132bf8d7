"""Drives a headless Chromium for the tests by its own protocol (Chrome DevTools Protocol) over a pair of pipes.

Messages are JSON, each ended by a NUL. The tests need so little of it that neither a driver nor a library is used, and
a pipe needs no port. All requests, errors and exceptions of the browser are kept.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS_MAX = 120.0
FLAGS = (
    *("--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--force-device-scale-factor=1", "--hide-scrollbars"),
)
KEYS = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}
KEYS |= {" ": 32}

# How many texts there are, and the least contrast that one has with its paper.
CONTRAST = """
(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = (text) => {
    const parts = numbers(text).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = getComputedStyle(each).backgroundColor;
      if (numbers(found)[3] !== 0) return found;
    }
  };
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const texts = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility()
    && !element.closest("svg, .chart") && hasText(element));
  const ratios = texts.map((element) => {
    const [a, b] = [getComputedStyle(element).color, paper(element)].map(luminance);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
  return [texts.length, Math.min(...ratios)];
})()
"""
# What of the picture is smaller than a person reads, and whether the page is wider than the screen.
SMALLEST = """Math.min(...[...document.querySelectorAll("svg text")].map((each) => {
    const box = each.ownerSVGElement.getBoundingClientRect(), view = each.ownerSVGElement.viewBox.baseVal;
    return parseFloat(getComputedStyle(each).fontSize) * (view.width ? box.width / view.width : 1);
}))"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WITHOUT_CAPTION = "[...document.querySelectorAll('table')].filter((each) => !each.caption?.textContent.trim()).length"


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. `requests` are the addresses that it asked for, `complaints` its console's errors and exceptions."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._write, self._read = process.stdin, process.stdout
        self._buffer = b""
        self._sent = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = self._read.read(1 << 20)
            if not data:
                raise RuntimeError("The browser has ended.")
            self._buffer += data
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(event["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and event["type"] in {"error", "warning"}:
            self.complaints.append(str([each.get("value", each.get("description")) for each in event["args"]]))

    def look(self, width: int, height: int = 900, *, is_dark: bool = False) -> None:
        """Sets the screen's size, and its user's preferences."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path, fragment: str = "") -> None:
        self.call("Page.navigate", url=f"{page.as_uri()}{fragment}")
        self.wait("location.protocol == 'file:' && document.readyState == 'complete'")

    def visit(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        scheme = address.partition(":")[0]
        self.wait(f"location.protocol == '{scheme}:' && document.readyState == 'complete'")

    def leave(self, act: Callable[[], object]) -> None:
        """Does what opens another page, and waits for that."""

        def is_another_there() -> bool:
            with contextlib.suppress(RuntimeError):  # between two pages there is no page to ask
                return bool(self.evaluate("!window.isLeft && document.readyState == 'complete'"))
            return False

        self.evaluate("window.isLeft = true")
        act()
        self._wait_until(is_another_there, "No other page comes.")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise's once it is there."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        self._wait_until(lambda: self.evaluate(expression), f"It does not come: {expression}")

    def wait_for_request(self, ending: str) -> None:
        """Waits until the page has asked for an address with this ending, answered or not."""

        def is_asked() -> bool:
            self.evaluate("0")  # which reads the browser's reports since then
            return any(each.endswith(ending) for each in self.requests)

        self._wait_until(is_asked, f"Nothing asks for {ending}.")

    def _wait_until(self, is_there: Callable[[], object], complaint: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not is_there():
            if time.monotonic() > deadline:
                raise TimeoutError(complaint)
            time.sleep(0.02)

    def press(self, *keys: str, modifiers: int = 0) -> None:
        """Keys by their names; one character is typed."""
        for key in keys:
            event: dict[str, Any] = {"key": key, "code": key, "modifiers": modifiers}
            event["windowsVirtualKeyCode"] = KEYS.get(key, ord(key[0].upper()))
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
            self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def screenshot(self, file: Path, *, is_whole: bool = False) -> None:
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=is_whole, **self._clip(is_whole=is_whole))
        file.write_bytes(base64.b64decode(answer["data"]))

    def _clip(self, *, is_whole: bool) -> dict[str, Any]:
        if not is_whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """Raises RuntimeError where no Chromium is installed."""
    binary = chromium()
    if binary is None:
        raise RuntimeError(f"None of {', '.join(NAMES)} is on the PATH: install Chromium.")
    # The protocol's pipes are descriptors 3 and 4; the shell moves them there from the usual ones.
    moved = ["sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null', binary]
    with (
        tempfile.TemporaryDirectory(prefix="groupledger-browser-", ignore_cleanup_errors=True) as profile,
        subprocess.Popen(
            [*moved, *FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        ) as process,
    ):
        try:
            yield Browser(process)
        finally:
            # Without its pipe the browser ends by itself.
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
