"""What the benches of the server share: a server process, a client on raw sockets, numbers and tables.

The client speaks just enough HTTP/1.1 for this (asyncio, standard library only): what it costs must stay
small beside what it measures, on the same machine.
"""

import asyncio
import http.client
import json
import os
import pathlib
import platform
import random
import resource
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/golden/tiny/f32-d32.gguf"
PATIENCE_SECONDS = 600

SYSTEM_SENTENCES = [
    "You answer the customers of Harbour and Daughters, who sell lamps, ropes and small boats by post.",
    "Be brief: one or two plain sentences, and never a list.",
    "Parcels leave the shop on Monday, Wednesday and Friday before noon.",
    "A parcel takes two days inside the country and six days abroad.",
    "A lamp may come back within thirty days, a rope only when it was not cut, a boat not at all.",
    "Whoever returns a thing pays the postage, unless the thing was broken when it came.",
    "Refunds go back the way the money came and take five working days.",
    "Never promise a discount, and never give the address of another customer.",
    "When somebody asks for a person, say that Vera calls back before six in the evening.",
    "The workshop repairs lamps of every age, and asks for a picture first.",
    "Ropes are sold by the metre, from four to twenty-four millimetres, in hemp and in polyester.",
    "Boats are made to order; the smallest takes eleven weeks and the largest half a year.",
    "Prices in the catalogue hold until the next one comes, which is in the first week of March.",
    "When an order is not found, ask for the number on the bill, which begins with HD.",
]
QUESTIONS = [
    "My {thing} from order HD{number} came on {day} and the {part} is {fault}; what should I do with it now?",
    "I would like to change order HD{number} from one {thing} to {count} before it leaves; can you do that for me?",
    "How long does it take to send {count} of the {colour} {thing} abroad, and what if it does not come by {day}?",
    "Is the {colour} {thing} with the {part} that is {fault} in the picture still sold, and at what price today?",
    "I sent the {thing} of order HD{number} back on {day}; when do I get my money, and by which way does it come?",
    "A friend has your {colour} {thing} and I want {count} of the same; can they be here before {day} evening?",
]
WORDS = {
    "thing": ["lamp", "rope", "lantern", "dinghy", "anchor line", "cabin light", "mooring line", "rowing boat"],
    "part": ["glass", "hook", "wick", "handle", "knot", "screw", "cover", "oar"],
    "fault": ["cracked", "missing", "too short", "bent", "the wrong size", "loose", "wet"],
    "day": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"],
    "colour": ["red", "green", "brass", "white", "blue", "black"],
}


def system_text():
    return " ".join(SYSTEM_SENTENCES)


def question(draw):
    chosen = {name: draw.choice(words) for name, words in WORDS.items()}
    return draw.choice(QUESTIONS).format(number=draw.randrange(1000, 9999), count=draw.randrange(2, 9), **chosen)


def quantile(values, share):
    """The smallest of `values` that at least `share` of them do not exceed; None of none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))]


def milliseconds(seconds):
    return "-" if seconds is None else f"{seconds * 1e3:.1f}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def machine():
    model = platform.machine()
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "load_before": os.getloadavg()[0]}


def keep(path, report):
    if path:
        pathlib.Path(path).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def raise_file_limit(wanted):
    """Raises the soft limit of open files for this process and its children; ends with advice when it cannot."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SystemExit(f"this needs {wanted} open files in one process, and the hard limit is {hard}: raise it "
                         f"(ulimit -Hn {wanted} as root, or LimitNOFILE), or ask for fewer connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def pss_bytes(pid):
    for line in open(f"/proc/{pid}/smaps_rollup", encoding="ascii"):
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def endless_model(folder):
    """The tiny model without the token that ends a reply."""
    name = b"tokenizer.ggml.eos_token_id"
    whole = TINY.read_bytes()
    assert whole.count(name) == 1
    path = pathlib.Path(folder) / "endless.gguf"
    path.write_bytes(whole.replace(name, b"tokenizer.ggml.xxx_token_id"))
    return str(path)


# With the endless model: a template without a mark that ends a turn, and the likeliest token always.
ENDLESS_FLAGS = ["--template", "plain", "--window", "256", "--force-window", "--temperature", "0",
                 "--dry-multiplier", "0"]


class Process:
    """A server process in a folder of its own, which ends with the `with` block."""

    def __init__(self, command, environment=None):
        self.folder = tempfile.TemporaryDirectory(prefix="serve-bench-")
        self.log = open(os.path.join(self.folder.name, "log"), "w+", encoding="utf-8")
        command = [part.replace("{folder}", self.folder.name) for part in map(str, command)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env={**os.environ, **(environment or {})})
        self.host, self.port = "127.0.0.1", 0

    @property
    def pid(self):
        return self.process.pid

    def log_text(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGTERM)  # the second cuts the turns short
                try:
                    self.process.wait(20)
                except subprocess.TimeoutExpired:
                    self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()

    def ask(self, method, path, body=None):
        """One request on a connection of its own: (status, JSON or text)."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        raw = response.read()
        connection.close()
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return response.status, json.loads(raw) if is_json else raw.decode()

    def metrics(self):
        return read_metrics(self.ask("GET", "/metrics")[1])


class Mooring(Process):
    """`mooring serve`. `settings` are keys of the configuration file, with dots."""

    def __init__(self, mooring, model, flags=(), settings=None, state="{folder}/state"):
        environment = {"MOORING_" + key.replace(".", "__").upper(): str(value)
                       for key, value in (settings or {}).items()}
        super().__init__([mooring, "--quiet", "serve", model, "--listen", "127.0.0.1:0", "--state", state, *flags],
                         environment)
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
            self.process.wait(10)
            raise SystemExit(f"the server did not start: {line}{self.log_text()}")
        self.host, port = line.strip().removeprefix("listening on http://").split(":")
        self.port = int(port)


def read_metrics(text):
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name.removeprefix("mooring_")] = float(value)
    return values


class Gone(Exception):
    """The server closed the connection where it should not."""


class Client:
    """One connection that is kept: requests one after the other."""

    def __init__(self, host, port, source=None):
        self.host, self.port, self.source = host, port, source
        self.reader = self.writer = None

    async def open(self):
        if self.writer is None or self.writer.is_closing() or self.reader.at_eof():
            local = (self.source, 0) if self.source else None
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, local_addr=local)

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.reader = self.writer = None

    async def send(self, method, path, body=None):
        """Sends a request and reads the head of its reply: (status, headers)."""
        await self.open()
        data = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        self.writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n".encode() + data)
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.close()
            raise Gone(f"no reply: {error}") from error
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        return int(lines[0].split(" ")[1]), headers

    async def pieces(self, headers):
        """The body of the reply, as it comes."""
        try:
            if headers.get("transfer-encoding") == "chunked":
                while True:
                    size = int(await self.reader.readline(), 16)
                    piece = await self.reader.readexactly(size + 2)
                    if size == 0:
                        break
                    yield piece[:-2]
            elif "content-length" in headers:
                yield await self.reader.readexactly(int(headers["content-length"]))
            else:
                while piece := await self.reader.read(65536):
                    yield piece
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            self.close()
            raise Gone(f"the body broke off: {error}") from error
        if headers.get("connection") == "close":
            self.close()

    async def ask(self, method, path, body=None):
        """(status, JSON or text, headers)"""
        status, headers = await self.send(method, path, body)
        raw = b"".join([piece async for piece in self.pieces(headers)])
        is_json = headers.get("content-type", "").startswith("application/json")
        return status, json.loads(raw) if is_json else raw.decode(), headers

    async def stream(self, path, body):
        """Asks for a stream and reads it to its end."""
        answer = Answer()
        status, headers = await self.send("POST", path, body)
        answer.status = status
        if not headers.get("content-type", "").startswith("text/event-stream"):
            raw = b"".join([piece async for piece in self.pieces(headers)])
            answer.error = raw.decode(errors="replace")
            answer.last = time.monotonic() - answer.started
            return answer
        rest = b""
        async for piece in self.pieces(headers):
            answer.pieces += 1
            rest += piece
            *blocks, rest = rest.split(b"\n\n")
            for block in blocks:
                answer.take(block)
        answer.last = time.monotonic() - answer.started
        return answer


class Answer:
    """A streamed answer and when its parts came, in seconds from the request."""

    def __init__(self):
        self.started = time.monotonic()
        self.status, self.error = 0, None
        self.first = self.last = None  # the first text, the end
        self.text, self.tokens, self.pieces = "", 0, 0
        self.done = False      # the stream said that it was whole
        self.finish = None     # why it ended
        self.mooring = None    # our part of the last chunk

    def take(self, block):
        for line in block.split(b"\n"):
            if not line.startswith(b"data: "):
                continue
            if line == b"data: [DONE]":
                self.done = True
                continue
            event = json.loads(line[6:])
            if "error" in event:
                self.error = json.dumps(event["error"])
            for choice in event.get("choices", ()):
                content = choice.get("delta", {}).get("content")
                if content:
                    if self.first is None:
                        self.first = time.monotonic() - self.started
                    self.text += content
                    self.tokens += 1
                self.finish = choice.get("finish_reason") or self.finish
            self.mooring = event.get("mooring") or self.mooring

    @property
    def good(self):
        return self.status == 200 and self.done and self.error is None


def chat(text_or_messages, **fields):
    """The body of a streamed chat request."""
    messages = text_or_messages
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return {"messages": messages, "stream": True, **fields}


def drawer(*seed):
    return random.Random("/".join(map(str, seed)))


def add_arguments(parser, model):
    parser.add_argument("--mooring", default=str(ROOT / "build/release/mooring"))
    parser.add_argument("--model", default=model, help="name or file")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE", help="all numbers, for later")
    parser.add_argument("--quick", action="store_true", help="small and short: whether it works at all")
