"""Drives a headless Chromium over two pipes with the DevTools protocol: no driver, no packages."""
import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
KEYS = {
    "Enter": ("\r", "Enter", 13), "Escape": ("", "Escape", 27), "Tab": ("", "Tab", 9),
    "ArrowUp": ("", "ArrowUp", 38), "ArrowDown": ("", "ArrowDown", 40), "Home": ("", "Home", 36),
    "End": ("", "End", 35), "PageUp": ("", "PageUp", 33),
}


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. Console messages, requests and policy faults are collected as they come."""

    def __init__(self, seconds=20):
        self.seconds = seconds
        self.home = tempfile.mkdtemp(prefix="page-test-")
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()

        def wire():
            # Chromium reads commands from descriptor 3 and writes replies to 4. Both ends are moved
            # out of the way first: either number may be in use by the other.
            read, write = os.dup(to_read), os.dup(from_write)
            high_read, high_write = os.dup2(read, 60), os.dup2(write, 61)
            os.dup2(high_read, 3)
            os.dup2(high_write, 4)

        self.process = subprocess.Popen(
            [find(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb",
             f"--user-data-dir={self.home}", "about:blank"],
            preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.next_id, self.replies = 0, {}
        self.console, self.requests, self.violations = [], [], []
        self.arrived = threading.Condition()
        self.pending = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        target = next(t for t in self._send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.page = self._send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self._send("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_write)
        shutil.rmtree(self.home, ignore_errors=True)

    def _listen(self):
        buffer = b""
        while True:
            try:
                data = os.read(self.from_read, 1 << 20)
            except OSError:
                data = b""
            if not data:
                with self.arrived:
                    self.replies[None] = True
                    self.arrived.notify_all()
                return
            buffer += data
            *messages, buffer = buffer.split(b"\0")
            for message in map(json.loads, messages):
                self._take(message)

    def _take(self, message):
        with self.arrived:
            if "id" in message:
                self.replies[message["id"]] = message
            parameters = message.get("params", {})
            method = message.get("method")
            if method == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.console.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                self.console.append(str([a.get("value") for a in parameters["args"]]))
            elif method == "Log.entryAdded" and parameters["entry"]["source"] in ("security", "violation"):
                self.violations.append(parameters["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            self.arrived.notify_all()

    def _send(self, method, session=None, **parameters):
        with self.arrived:
            self.next_id += 1
            number = self.next_id
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        with self.arrived:
            if not self.arrived.wait_for(lambda: number in self.replies or None in self.replies, self.seconds):
                raise RuntimeError(f"{method}: no reply within {self.seconds} s")
            reply = self.replies.pop(number, {"error": {"message": "the browser has ended"}})
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def call(self, method, **parameters):
        return self._send(method, self.page, **parameters)

    def js(self, expression):
        """Value of an expression; promises are awaited."""
        reply = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True,
                          userGesture=True)
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise RuntimeError(f"{expression[:120]}: {details.get('exception', {}).get('description', details['text'])}")
        return reply["result"].get("value")

    def wait(self, expression, what=None):
        """Until an expression is true: waits for what happens, never for a time."""
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            if self.js(f"Boolean({expression})"):
                return
            time.sleep(0.03)
        raise AssertionError(f"did not happen within {self.seconds} s: {what or expression}")

    def open(self, url):
        # A blank page between: a new fragment alone would not load anything.
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url.split('#')[0])})")

    def key(self, key, shift=False):
        text, code, number = KEYS.get(key, (key, f"Key{key.upper()}" if key.isalpha() else "", 0))
        parameters = {"key": key, "code": code, "windowsVirtualKeyCode": number or (ord(key.upper()) if len(key) == 1 else 0),
                      "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **parameters, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def mouse(self, x, y, click=False):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def size(self, width, height, scale=1, touch=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def tree(self):
        """Accessibility nodes that a screen reader meets: [(role, name, properties)]."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", ""),
                 {p["name"]: p["value"].get("value") for p in node.get("properties", [])})
                for node in nodes if not node.get("ignored")]
