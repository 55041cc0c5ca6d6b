#!/usr/bin/env python3
"""A stand-in for `mooring serve`: the routes that the page uses, with canned talk and no model.

Usage: mock_server.py [PORT]
The test of the page sets faults on `Mock` directly; by hand it shows the page at once.
"""
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import mock_data

WEB = pathlib.Path(__file__).resolve().parent.parent.parent / "web"
LIBRARIES = {
    "marked.umd.min.js": pathlib.Path("/usr/share/javascript/marked/marked.umd.min.js"),
    "purify.min.js": pathlib.Path("/usr/share/nodejs/dompurify/dist/purify.min.js"),
}
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
          "require-trusted-types-for 'script'; trusted-types dompurify; base-uri 'none'; form-action 'none'; "
          "frame-ancestors 'none'")
LONG = " ".join(f"word{n}" for n in range(400))


class Fault(Exception):
    def __init__(self, status, code, message, param=None, retry_after=None):
        super().__init__(message)
        self.status, self.code, self.param, self.retry_after = status, code, param, retry_after


class Answer:
    """Events of one response, kept so that a stream can be taken up again."""

    def __init__(self, response_id):
        self.id, self.events, self.done, self.cancelled = response_id, [], False, False
        self.more = threading.Condition()

    def put(self, data):
        with self.more:
            self.events.append(data if isinstance(data, str) else json.dumps(data))
            self.more.notify_all()

    def finish(self):
        with self.more:
            self.done = True
            self.more.notify_all()


class Mock:
    """State of the server, and what it is told to do wrong."""

    def __init__(self):
        self.conversations = mock_data.copies()
        self.answers = {}
        self.key = None
        self.absent = set()  # regular expressions of paths that get `unknown_route`
        self.refused_fields = set()  # of a chat request
        self.faults = []  # raised by the next chat requests, in order
        self.away = False  # closes every connection without a word
        self.cut_after = None  # closes the next answer's connection after so many events
        self.token_seconds = 0.004
        self.requests = []  # (method, path, body) as they came
        self.closing = False

    def find(self, conversation_id):
        for one in self.conversations:
            if one.id == conversation_id:
                return one
        raise Fault(404, "conversation_not_found", "No such conversation.")

    def summary(self, one):
        return {"id": one.id, "object": "conversation", "created_at": one.at, "updated_at": one.at,
                "metadata": {"title": one.title}}

    def new(self, title):
        one = mock_data.Conversation(title, int(time.time()))
        self.conversations.insert(0, one)
        return one

    def fork(self, one, item):
        copy = self.new(f"{one.title}, fork")
        copy.nodes, copy.head = dict(one.nodes), item or one.head
        return copy

    def answer(self, body):
        if self.faults:
            raise self.faults.pop(0)
        for field in self.refused_fields & body.keys():
            raise Fault(400, "unsupported_parameter", f"`{field}` is not built yet.", field)
        one = self.find(body["conversation"])
        for message in body["messages"]:
            one.add(message["role"], message["content"])
        said = body["messages"][-1]["content"]
        answer = Answer(f"chatcmpl-{len(self.answers)}")
        self.answers[answer.id] = answer
        threading.Thread(target=self._write, args=(one, answer, said), daemon=True).start()
        return answer

    def _write(self, one, answer, said):
        recalled = []
        if "dog" in said:
            recalled = [{"from": 2, "to": 14, "score": 0.31, "turn": 1}]
            one.recalled = [{"from": 16, "to": 16 + mock_data.PAGE, "score": 0.31}]
            one.events.append(("recall", {**recalled[0], "text": said}))
        text = "Fado. You told me in the beginning." if recalled else LONG if "long" in said else mock_data.ANSWER
        begun = time.monotonic()

        def chunk(delta, finish=None, **more):
            return {"id": answer.id, "object": "chat.completion.chunk", "created": one.at, "model": "mock",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}

        answer.put(chunk({"role": "assistant", "content": ""}))
        sent = ""
        for piece in re.findall(r"\S+\s*|\s+", text):
            if answer.cancelled or self.closing:
                break
            time.sleep(self.token_seconds)
            sent += piece
            answer.put(chunk({"content": piece}))
        status = "incomplete" if answer.cancelled else "completed"
        one.add("assistant", sent, status=status, recalled=recalled)
        one.at = int(time.time())
        self.conversations.sort(key=lambda other: -other.at)
        one.events.append(("change", {"turn": one.chain()[-1]["mooring"]["turn"]}))
        count = sent.count(" ") + 1
        answer.put(chunk({}, "stop" if status == "completed" else "cancelled", mooring={
            "conversation": one.id, "recalled": recalled, "durable": True, "warnings": [],
            "timings": {"queue_ms": .4, "tokens_per_second": count / (time.monotonic() - begun)}}))
        answer.put("[DONE]")
        answer.finish()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mock = None

    def log_message(self, format, *arguments):
        pass

    def do_GET(self):
        self.handle_any("GET")

    def do_POST(self):
        self.handle_any("POST")

    def do_DELETE(self):
        self.handle_any("DELETE")

    def handle_any(self, method):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.mock.away:
            self.close_connection = True
            return None
        self.mock.requests.append((method, url.path, raw))
        try:
            if method == "GET" and (url.path == "/" or url.path.startswith("/assets/")):
                return self.send_file(url.path)
            if self.mock.key and url.path != "/health" and (
                    self.headers.get("Authorization") != f"Bearer {self.mock.key}"):
                raise Fault(401, "invalid_api_key", "This server needs an API key.")
            for pattern, call in ROUTES:
                match = re.fullmatch(pattern, f"{method} {url.path}")
                if match and not any(re.search(absent, url.path) for absent in self.mock.absent):
                    return call(self, raw, query, *match.groups())
            raise Fault(404, "unknown_route", f"{url.path} is no route of this server.")
        except Fault as fault:
            error = {"message": str(fault), "type": "invalid_request_error", "param": fault.param, "code": fault.code}
            self.send_json({"error": error}, fault.status,
                           {"Retry-After": str(fault.retry_after)} if fault.retry_after else {})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        return None

    def send_body(self, body, kind, status=200, headers=None):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, value, status=200, headers=None):
        self.send_body(json.dumps(value).encode(), "application/json", status, headers)

    def send_file(self, path):
        name = path.removeprefix("/assets/") if path != "/" else "index.html"
        file = LIBRARIES.get(name, WEB / name)
        if "/" in name or not file.is_file():
            raise Fault(404, "unknown_route", f"{path} is no file of the page.")
        self.send_body(file.read_bytes(), f"{TYPES[file.suffix]}; charset=utf-8", headers={
            "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"})

    def begin_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def send_event(self, text):
        self.wfile.write(text.encode())
        self.wfile.flush()

    def stream(self, answer, first, background):
        self.begin_events()
        self.send_event(": keep-alive\n\n")
        at = first
        try:
            while True:
                with answer.more:
                    answer.more.wait_for(lambda: len(answer.events) > at or answer.done or self.mock.closing)
                    fresh, done = answer.events[at:], answer.done
                if not fresh and (done or self.mock.closing):
                    return
                for data in fresh:
                    if self.mock.cut_after is not None and at >= self.mock.cut_after:
                        self.mock.cut_after = None
                        return
                    self.send_event(f"id: {answer.id}/{at}\ndata: {data}\n\n")
                    at += 1
        except (BrokenPipeError, ConnectionResetError):
            answer.cancelled = answer.cancelled or not background

    # -- routes: (handler, raw body, query, groups of the pattern) --

    def health(self, raw, query):
        self.send_json({"status": "ok"})

    def props(self, raw, query):
        self.send_json({"sampling": {"temperature": 0.7, "top_p": 0.95, "top_k": 40, "min_p": 0.05,
                                     "repeat_penalty": 1.0, "max_tokens": 2048}})

    def models(self, raw, query):
        self.send_json({"object": "list", "data": [
            {"id": name, "object": "model"} for name in ("smollm2-135m-instruct", "another-model")]})

    def list_all(self, raw, query):
        everything = [self.mock.summary(one) for one in self.mock.conversations]
        self.send_page(everything, query)

    def send_page(self, everything, query):
        ids = [one["id"] for one in everything]
        start = ids.index(query["after"]) + 1 if "after" in query else 0
        end = start + int(query.get("limit", 20))
        self.send_json({"object": "list", "data": everything[start:end], "has_more": end < len(everything)})

    def create(self, raw, query):
        self.send_json(self.mock.summary(self.mock.new(json.loads(raw)["metadata"]["title"])))

    def get_one(self, raw, query, one):
        self.send_json(self.mock.summary(self.mock.find(one)))

    def rename(self, raw, query, one):
        found = self.mock.find(one)
        found.title = json.loads(raw)["metadata"]["title"]
        self.send_json(self.mock.summary(found))

    def delete(self, raw, query, one):
        self.mock.conversations.remove(self.mock.find(one))
        self.send_json({"id": one, "object": "conversation.deleted", "deleted": True})

    def items(self, raw, query, one):
        chain = self.mock.find(one).chain()
        self.send_page(chain[::-1] if query.get("order", "desc") == "desc" else chain, query)

    def fork(self, raw, query, one):
        found = self.mock.find(one)
        self.send_json(self.mock.summary(self.mock.fork(found, json.loads(raw).get("item"))))

    def rewind(self, raw, query, one):
        found, body = self.mock.find(one), json.loads(raw)
        found.rewind(found.newest_under(body["branch"]) if "branch" in body else body["item"])
        self.send_json(self.mock.summary(found))

    def pin(self, raw, query, one):
        found, body = self.mock.find(one), json.loads(raw)
        span = (body["from"], body["to"])
        found.pins = [other for other in found.pins if other != span] + ([span] if body["pinned"] else [])
        self.send_json({"object": "conversation.pin"})

    def export(self, raw, query, one):
        found = self.mock.find(one)
        self.send_body(json.dumps({"title": found.title, "items": found.chain()}).encode(), "application/octet-stream")

    def import_one(self, raw, query):
        try:
            body = json.loads(raw)
        except ValueError as error:
            raise Fault(400, "invalid_value", "This is no conversation file.") from error
        made = self.mock.new(body["title"])
        for item in body["items"]:
            made.add(item["role"], item["content"][0]["text"])
        self.send_json(self.mock.summary(made))

    def memory(self, raw, query, one):
        self.send_json(self.mock.find(one).memory(int(query.get("resolution", 2048))))

    def memory_events(self, raw, query, one):
        found = self.mock.find(one)
        at = len(found.events)
        self.begin_events()
        for beat in range(10**9):
            if self.mock.closing:
                return
            if at < len(found.events):
                kind, data = found.events[at]
                at += 1
                self.send_event(f"event: {kind}\ndata: {json.dumps(data)}\n\n")
            else:
                time.sleep(0.05)
                if beat % 40 == 0:
                    self.send_event(": keep-alive\n\n")

    def chat(self, raw, query):
        body = json.loads(raw)
        self.stream(self.mock.answer(body), 0, body.get("background", False))

    def resume(self, raw, query, response):
        answer = self.mock.answers.get(response)
        if answer is None:
            raise Fault(404, "stream_gone", "This answer is no longer buffered.")
        last = self.headers.get("Last-Event-ID")
        self.stream(answer, int(last.rsplit("/", 1)[1]) + 1 if last else 0, True)

    def cancel(self, raw, query, response):
        if response in self.mock.answers:
            self.mock.answers[response].cancelled = True
        self.send_json({})


ONE = r"/v1/conversations/(conv_[^/]+)"
ROUTES = [
    (r"GET /health", Handler.health),
    (r"GET /props", Handler.props),
    (r"GET /v1/models", Handler.models),
    (r"GET /v1/conversations", Handler.list_all),
    (r"POST /v1/conversations", Handler.create),
    (r"POST /v1/conversations/import", Handler.import_one),
    (rf"GET {ONE}", Handler.get_one),
    (rf"POST {ONE}", Handler.rename),
    (rf"DELETE {ONE}", Handler.delete),
    (rf"GET {ONE}/items", Handler.items),
    (rf"POST {ONE}/fork", Handler.fork),
    (rf"POST {ONE}/rewind", Handler.rewind),
    (rf"POST {ONE}/pin", Handler.pin),
    (rf"GET {ONE}/export", Handler.export),
    (rf"GET {ONE}/memory", Handler.memory),
    (rf"GET {ONE}/memory/events", Handler.memory_events),
    (r"POST /v1/chat/completions", Handler.chat),
    (r"GET /v1/streams/([^/]+)", Handler.resume),
    (r"POST /v1/cancel/([^/]+)", Handler.cancel),
]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # A page that goes away in the middle of a reply is no fault of the server.
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(request, client_address)


def serve(mock, port=0):
    handler = type("MockHandler", (Handler,), {"mock": mock})
    return Server(("127.0.0.1", port), handler)


def main():
    server = serve(Mock(), int(sys.argv[1]) if len(sys.argv) > 1 else 7437)
    print(f"http://127.0.0.1:{server.server_address[1]}/")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
