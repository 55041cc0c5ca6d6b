"""A `mooring serve` process to be driven over HTTP, and what its tests share.

It serves a tiny model, whose words mean nothing and whose tokens are exact. Needs the standard
library only. By hand: `tests/serve/NAME_test.py MOORING [CASE...]`.
"""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = str(ROOT / "tests/golden/tiny/f32-d32.gguf")
PATIENCE_SECONDS = 120  # a machine under sanitizers is slow; nothing is measured with it
CHAT = "/v1/chat/completions"


_arguments = []  # of the command line: the program, then cases


def mooring():
    """The program under test."""
    return _arguments[0]


class Server:
    """One server process with a state folder, which outlives it when `state` is given.

    `settings` stands before the command (a configuration file, for example); without it the server
    has a small window, so that talks outlive it soon.
    """

    SMALL = ("--window", "256", "--force-window", "--threads", "1", "--max-tokens", "16", "--temperature", "0",
             "--encoder", "none")

    def __init__(self, *flags, state=None, settings=("--quiet",), sizes=SMALL, model=MODEL, environment=None):
        self.folder = tempfile.TemporaryDirectory() if state is None else None
        self.state = state or self.folder.name
        self.process = subprocess.Popen(
            [mooring(), *settings, "serve", model, "--template", "chatml",
             "--listen", "127.0.0.1:0", "--state", self.state, *sizes, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
            raise AssertionError(f"no server: {line} {self.process.stderr.read()}")
        self.url = line.strip().removeprefix("listening on ")
        self.host, port = self.url.removeprefix("http://").split(":")
        self.port = int(port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        if self.folder:
            self.folder.cleanup()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_SECONDS)
        self.process.stdout.close()
        if not self.process.stderr.closed:
            self.said = self.process.stderr.read()
            self.process.stderr.close()
        return code

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        sent = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        raw = response.read()
        connection.close()
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return response.status, json.loads(raw) if is_json else raw.decode(), response.headers

    def chat(self, text, **fields):
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
        status, reply, headers = self.ask("POST", CHAT, {"messages": messages, **fields})
        assert status == 200, reply
        return reply, headers

    def raw(self, data, wait=True):
        """What comes back for these bytes, until the server closes."""
        with socket.create_connection((self.host, self.port), timeout=PATIENCE_SECONDS) as peer:
            peer.sendall(data)
            got = b""
            while wait:
                piece = peer.recv(65536)
                if not piece:
                    break
                got += piece
            return got.decode(errors="replace")

    def stream(self, text, headers=None, **fields):
        return Stream(self, {"messages": [{"role": "user", "content": text}], "stream": True, **fields}, headers)

    def metric(self, name):
        text = self.ask("GET", "/metrics")[1]
        for line in text.splitlines():
            if line.startswith(f"mooring_{name} "):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")


class Stream:
    """An answer on its way, over a connection of its own."""

    def __init__(self, server, body, headers=None):
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_SECONDS)
        self.connection.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def until_text(self):
        """Until the first word of the answer is here: from then on its turn runs."""
        for line in iter(self.response.readline, b""):
            event = json.loads(line[6:]) if line.startswith(b"data: {") else {}
            if event.get("choices") and event["choices"][0]["delta"].get("content"):
                return self
        raise AssertionError("the stream ended without a word")

    def rest(self):
        text = self.response.read().decode()
        self.close()
        return text

    def close(self):
        self.response.close()
        self.connection.close()


def events(text):
    found = []
    for block in text.split("\n\n"):
        data = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
        if data:
            found.append(data[0])
    return found


def answer_of(reply):
    return reply["choices"][0]["message"]["content"]


def until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def endless_model(folder):
    """The tiny model without the tokens that end a reply: how fast it is decides nothing then."""
    whole = pathlib.Path(MODEL).read_bytes()
    for name, other in ((b"tokenizer.ggml.eos_token_id", b"tokenizer.ggml.xxx_token_id"),
                        (b"\x0a\0\0\0\0\0\0\0<|im_end|>", b"\x0a\0\0\0\0\0\0\0<|im_xxx|>")):
        assert whole.count(name) == 1
        whole = whole.replace(name, other)
    path = pathlib.Path(folder) / "endless.gguf"
    path.write_bytes(whole)
    return str(path)


class SharedServerTest(unittest.TestCase):
    """Cases that can share one server; it must end well."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.server.folder.cleanup()
        assert code == 0, code

    def refused(self, status, code, path, body, param=None, **more):
        got, reply, headers = self.server.ask("POST", path, body, **more)
        self.assertEqual((got, reply["error"]["code"]), (status, code), reply)
        self.assertEqual(set(reply["error"]), {"message", "type", "param", "code"})
        if param:
            self.assertEqual(reply["error"]["param"], param)
        return headers


def main():
    clients = ROOT / "build/clients/bin/python"  # with the client libraries; .ci/run makes it
    if clients.exists() and pathlib.Path(sys.prefix) != clients.parent.parent:
        os.execv(clients, [str(clients), *sys.argv])
    _arguments[:] = [str(pathlib.Path(sys.argv[1]).resolve())]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=1)
