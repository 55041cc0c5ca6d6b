#!/usr/bin/env python3
"""Drives a running `mooring serve` over HTTP: serve_test.py MOORING [CASE...]

Serves a tiny model, whose words mean nothing and whose tokens are exact. Needs the standard library
only; the case with the official client runs where the package `openai` can be imported, and says so
where it cannot.
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
MOORING = None
PATIENCE_SECONDS = 120  # a machine under sanitizers is slow; nothing is measured with it


class Server:
    """One server process with a state folder, which outlives it when `state` is given."""

    def __init__(self, *flags, state=None, window=256, model=MODEL):
        self.folder = tempfile.TemporaryDirectory() if state is None else None
        self.state = state or self.folder.name
        self.process = subprocess.Popen(
            [MOORING, "--quiet", "serve", model, "--template", "chatml", "--listen", "127.0.0.1:0",
             "--state", self.state, "--window", str(window), "--force-window", "--threads", "1",
             "--max-tokens", "16", "--temperature", "0", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
            raise AssertionError(f"no server: {line} {self.process.stderr.read()}")
        self.host, port = line.strip().removeprefix("listening on http://").split(":")
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
        status, reply, headers = self.ask("POST", "/v1/chat/completions", {"messages": messages, **fields})
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

    def metric(self, name):
        text = self.ask("GET", "/metrics")[1]
        for line in text.splitlines():
            if line.startswith(f"mooring_{name} "):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")


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
    """The tiny model without the token that ends a reply: how fast it is decides nothing then."""
    name = b"tokenizer.ggml.eos_token_id"
    whole = pathlib.Path(MODEL).read_bytes()
    assert whole.count(name) == 1
    path = pathlib.Path(folder) / "endless.gguf"
    path.write_bytes(whole.replace(name, b"tokenizer.ggml.xxx_token_id"))
    return str(path)


class ServeTest(unittest.TestCase):
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

    def test_status(self):
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        self.assertEqual(self.server.ask("GET", "/ready")[0], 200)
        self.assertEqual(self.server.ask("GET", "/v1/models")[1]["data"][0]["id"], MODEL)
        self.assertIn("sampling", self.server.ask("GET", "/props")[1])
        status, text, headers = self.server.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertIn("mooring_requests_total", text)
        self.assertTrue(headers["X-Request-Id"])

    def test_chat_whole(self):
        reply, headers = self.server.chat("Hello there", store=False)
        self.assertEqual(reply["object"], "chat.completion")
        self.assertEqual(reply["choices"][0]["message"]["role"], "assistant")
        usage = reply["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertIsNone(reply["mooring"]["conversation"])
        self.assertFalse(reply["mooring"]["durable"])

    def test_stream_is_the_whole_answer(self):
        whole, _ = self.server.chat("Tell me of ships", store=False)
        for usage in (False, True):
            options = {"stream_options": {"include_usage": True}} if usage else {}
            status, text, headers = self.server.ask("POST", "/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Tell me of ships"}], "stream": True,
                "store": False, **options})
            self.assertEqual(status, 200)
            self.assertEqual(headers["Content-Type"], "text/event-stream")
            got = events(text)
            self.assertEqual(got[-1], "[DONE]")
            chunks = [json.loads(one) for one in got[:-1]]
            self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
            if usage:
                last = chunks.pop()
                self.assertEqual(last["choices"], [])
                self.assertEqual(last["usage"], whole["usage"])
            self.assertTrue(all(("usage" in chunk) == usage for chunk in chunks))
            self.assertEqual(chunks[-1]["choices"][0]["delta"], {})
            self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"])
            self.assertIn("mooring", chunks[-1])
            said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
            self.assertEqual(said, answer_of(whole))

    def test_conversation_by_name(self):
        first, headers = self.server.chat("My dog is called Fado", conversation="dog:1")
        mine = first["mooring"]
        self.assertEqual((mine["matched"], mine["turn"], mine["durable"]), ("new", 1, True))
        self.assertEqual(headers["Mooring-Conversation"], mine["conversation"])
        second, _ = self.server.chat("And my cat?", conversation="dog:1")
        self.assertEqual((second["mooring"]["matched"], second["mooring"]["turn"]), ("id", 2))
        self.assertEqual(second["mooring"]["conversation"], mine["conversation"])
        self.assertGreater(second["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        # The header names it as well, and both must agree.
        status, reply, _ = self.server.ask(
            "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]},
            {"Mooring-Conversation": mine["conversation"]})
        self.assertEqual((status, reply["mooring"]["turn"]), (200, 3))
        self.refused(400, "conversation_conflict", "/v1/chat/completions",
                     {"messages": [{"role": "user", "content": "Hi"}], "conversation": "a"},
                     headers={"Mooring-Conversation": "b"})
        self.refused(404, "conversation_not_found", "/v1/chat/completions",
                     {"messages": [{"role": "user", "content": "Hi"}], "conversation": "conv_" + "a" * 26})

    def test_resent_history_is_recognised(self):
        messages = [{"role": "user", "content": "Where do the boats lie in winter?"}]
        matched = []
        for turn in range(4):
            reply, _ = self.server.chat(messages, max_tokens=40)
            self.assertGreaterEqual(len(answer_of(reply).strip()), 16)
            matched.append(reply["mooring"]["matched"])
            messages.append({"role": "assistant", "content": answer_of(reply)})
            messages.append({"role": "user", "content": f"And then, {turn}?"})
        self.assertEqual(matched, ["new", "exact", "exact", "exact"])
        # An edit in the middle is a fork.
        messages[2]["content"] = "Something else"
        reply, _ = self.server.chat(messages[:3])
        self.assertEqual(reply["mooring"]["matched"], "fork")

    def test_the_same_question_again(self):
        question = [{"role": "user", "content": "Which way does the tide run?"}]
        first, _ = self.server.chat(question, conversation="again", max_tokens=40)
        longer = question + [{"role": "assistant", "content": answer_of(first)},
                             {"role": "user", "content": "Why?"}]
        second, _ = self.server.chat(longer, conversation="again")
        again, _ = self.server.chat(longer, conversation="again")
        self.assertEqual(again["mooring"]["matched"], "fork")
        self.assertEqual(answer_of(again), answer_of(second))
        # Messages that nobody answered yet, asked for by resending them.
        made = self.server.ask("POST", "/v1/conversations", {"items": longer})[1]
        reply, _ = self.server.chat(longer, conversation=made["id"])
        fresh, _ = self.server.chat(longer, store=False)
        self.assertEqual(answer_of(reply), answer_of(fresh))
        after, _ = self.server.chat("And then?", conversation=made["id"])
        self.assertEqual(after["mooring"]["matched"], "id")
        self.assertGreater(after["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_window_never_ends(self):
        for turn in range(12):
            reply, _ = self.server.chat("word " * 40, conversation="long")
            window = reply["mooring"]["window"]
            self.assertLessEqual(window["anchors"] + window["recent"], window["capacity"])
        self.assertGreater(reply["mooring"]["forgotten_tokens"], 0)
        self.assertLessEqual(reply["usage"]["prompt_tokens"], 256)
        memory = self.server.ask("GET", f"/v1/conversations/{reply['mooring']['conversation']}/memory")[1]
        self.assertEqual(memory["log_tokens"], reply["mooring"]["log_tokens"])
        self.assertEqual([span["state"] for span in memory["spans"]], ["anchor", "text", "recent"])
        self.assertEqual(memory["spans"][-1]["to"], memory["log_tokens"])

    def test_more_conversations_than_places(self):
        answers = {}
        for turn in range(2):
            for i in range(11):
                reply, _ = self.server.chat(f"I am number {i}", conversation=f"many:{i}")
                answers.setdefault(i, []).append(answer_of(reply))
                self.assertEqual(reply["mooring"]["turn"], turn + 1)
        self.assertGreater(int(self.server.metric('conversations{state="ram"}')), 0)
        alone, _ = self.server.chat("I am number 3", conversation="many:alone")
        self.assertEqual(answer_of(alone), answers[3][0])
        alone, _ = self.server.chat("I am number 3", conversation="many:alone")
        self.assertEqual(answer_of(alone), answers[3][1])

    def test_conversations(self):
        ask = self.server.ask
        made = ask("POST", "/v1/conversations", {"metadata": {"title": "Tea"}, "items": [
            {"type": "message", "role": "user", "content": "One"}]})[1]
        path = f"/v1/conversations/{made['id']}"
        self.assertEqual(made["metadata"], {"title": "Tea"})
        self.assertIn(made["id"], [one["id"] for one in ask("GET", "/v1/conversations?limit=100")[1]["data"]])
        reply, _ = self.server.chat("Two", conversation=made["id"])
        said = [{"role": "user", "content": text} for text in ("One", "Two")]
        count = ask("POST", "/v1/chat/completions/input_tokens", {"messages": said})[1]
        self.assertEqual(reply["usage"]["prompt_tokens"], count["input_tokens"])
        items = ask("GET", f"{path}/items?order=asc")[1]["data"]
        self.assertEqual([item["role"] for item in items], ["user", "user", "assistant"])
        self.assertEqual(items[2]["status"], "completed")
        fork = ask("POST", f"{path}/fork", {"item": items[2]["id"]})[1]
        reply, _ = self.server.chat("Three", conversation=fork["id"])
        self.assertEqual(reply["mooring"]["turn"], 3)
        status, back, _ = ask("POST", f"{path}/rewind", {"item": items[0]["id"]})
        self.assertEqual((status, back["mooring"]["turns"]), (200, 1))
        self.assertEqual(ask("POST", f"{path}/rewind", {"branch": items[2]["id"]})[1]["mooring"]["turns"], 2)
        export = ask("GET", f"{path}/export")[1]
        self.assertEqual([one["content"] for one in export["messages"]][:2], ["One", "Two"])
        again = ask("POST", "/v1/conversations/import", export, {"Content-Type": "application/octet-stream"})[1]
        self.assertEqual(ask("GET", f"/v1/conversations/{again['id']}/export")[1]["messages"], export["messages"])
        self.assertTrue(ask("DELETE", path)[1]["deleted"])
        self.assertEqual(ask("GET", path)[0], 404)

    def test_responses(self):
        first = self.server.ask("POST", "/v1/responses", {"input": "Hello", "instructions": "Be kind."})[1]
        self.assertEqual(first["object"], "response")
        second = self.server.ask("POST", "/v1/responses", {
            "input": "Go on", "previous_response_id": first["id"]})[1]
        self.assertEqual(second["mooring"]["turn"], 2)
        self.assertEqual(self.server.ask("GET", f"/v1/responses/{first['id']}")[1]["id"], first["id"])
        text = self.server.ask("POST", "/v1/responses", {"input": "Hello", "stream": True})[1]
        typed = [json.loads(one) for one in events(text)]
        self.assertEqual([one["sequence_number"] for one in typed], list(range(len(typed))))
        self.assertEqual(typed[0]["type"], "response.created")
        self.assertIn(typed[-1]["type"], ("response.completed", "response.incomplete"))
        self.refused(404, "previous_response_not_found", "/v1/responses",
                     {"input": "x", "previous_response_id": "resp_" + "a" * 26})

    def test_text_routes(self):
        tokens = self.server.ask("POST", "/tokenize", {"content": "Hello world"})[1]["tokens"]
        self.assertEqual(self.server.ask("POST", "/detokenize", {"tokens": tokens})[1]["content"], "Hello world")
        self.refused(400, "invalid_value", "/detokenize", {"tokens": [2**40]}, "tokens")
        messages = [{"role": "user", "content": "Hi"}]
        prompt = self.server.ask("POST", "/apply-template", {"messages": messages})[1]["prompt"]
        self.assertIn("<|im_start|>user\nHi<|im_end|>", prompt)
        count = self.server.ask("POST", "/v1/chat/completions/input_tokens", {"messages": messages})[1]
        reply, _ = self.server.chat(messages, store=False)
        self.assertEqual(count["input_tokens"], reply["usage"]["prompt_tokens"])
        done = self.server.ask("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 3})[1]
        self.assertEqual(done["object"], "text_completion")

    def test_wrong_values(self):
        chat = "/v1/chat/completions"
        good = {"messages": [{"role": "user", "content": "Hi"}]}
        for field, value in [("temperature", "hot"), ("temperature", -1), ("top_p", 0), ("max_tokens", 0),
                             ("max_tokens", 2**63), ("seed", 1e308), ("stop", 4), ("stop", [""]),
                             ("stream", 1), ("messages", "x"), ("top_k", -1), ("min_p", 1),
                             ("conversation", 7), ("conversation", {"id": 4})]:
            with self.subTest(field=field, value=value):
                self.refused(400, "invalid_value", chat, {**good, field: value}, field)
        for field, value in [("tools", []), ("n", 2), ("logprobs", True), ("response_format", {}),
                             ("nonsense", 1), ("background", True)]:
            with self.subTest(field=field):
                self.refused(400, "unsupported_parameter", chat, {**good, field: value}, field)
        self.refused(404, "model_not_found", chat, {**good, "model": "gpt-x"}, "model")
        for messages in [[], [{"role": "user"}], [{"role": "bard", "content": "x"}], [4],
                         [{"role": "assistant", "content": "x"}]]:
            self.refused(400, "invalid_value", chat, {"messages": messages})
        self.server.chat("Hi", user="me", metadata={"a": "b"}, store=False, temperature=None)

    def test_hostile_bodies(self):
        chat = "/v1/chat/completions"
        self.refused(400, "json_too_deep", chat, b"[" * 100000)
        self.refused(400, "json_too_deep", chat, b'{"a":' * 5000)
        self.refused(400, "invalid_json", chat, b'{"messages":[],"messages":[]}')
        self.refused(400, "invalid_json", chat, b'{"seed":1e999999}')
        self.refused(400, "invalid_json", chat, b'{"a":"\xff"}')
        self.refused(400, "invalid_json", chat, b"")
        self.refused(400, "invalid_json", chat, b"{} {}")
        self.refused(415, "content_type", chat, b"{}", headers={"Content-Type": "text/plain"})
        self.assertEqual(self.server.ask("GET", "/nowhere")[1]["error"]["code"], "unknown_route")
        self.assertEqual(self.server.ask("GET", chat)[0], 405)
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)

    def test_hostile_heads(self):
        def status(head, body=""):
            return self.server.raw((head + "\r\n" + body).encode()).split(" ")[1]

        start = "POST /v1/chat/completions HTTP/1.1\r\n"
        host = "Host: localhost\r\n"
        kind = "Content-Type: application/json\r\n"
        self.assertEqual(status(start + host + kind + "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), "400")
        self.assertEqual(status(start + host + kind + "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), "400")
        self.assertEqual(status(start + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n"), "400")
        self.assertEqual(status(start + host + "Content-Length: 2\r\nContent-Length: 2\r\n", "{}"), "400")
        self.assertEqual(status(start + host + "Content-Length: -1\r\n"), "400")
        self.assertEqual(status(start + host + "X-A: b\r\n folded\r\n"), "400")
        self.assertEqual(status(start), "400")
        self.assertEqual(status(start + host + host), "400")
        self.assertEqual(status("GET //health HTTP/1.1\r\n" + host), "400")
        self.assertEqual(status("GET /assets/../health HTTP/1.1\r\n" + host), "400")
        self.assertEqual(status("GET /assets/%2e%2e/x HTTP/1.1\r\n" + host), "400")
        self.assertEqual(status("GET http://localhost/health HTTP/1.1\r\n" + host), "400")
        self.assertEqual(status(start + host + "X: " + "a" * 20000 + "\r\n"), "431")
        self.assertEqual(status(start + host + "X: a\r\n" * 200), "431")
        self.assertEqual(status(start + host + kind + "Content-Length: 99999999\r\n"), "413")
        self.assertEqual(status(start + host + kind + "Transfer-Encoding: chunked\r\n", "fffffffff\r\n"), "413")
        self.assertEqual(status(start + host + kind + "Transfer-Encoding: chunked\r\n", "-2\r\n"), "400")
        close = "Connection: close\r\n"
        self.assertEqual(status("GET /health HTTP/1.1\r\nHost: evil.example\r\n" + close), "421")
        self.assertEqual(status("GET /health HTTP/1.1\r\n" + host + "Origin: http://evil.example\r\n" + close), "403")
        self.assertEqual(status("GET /health HTTP/1.1\r\n" + host + "Origin: http://localhost\r\n" + close), "200")
        self.assertIn("400", self.server.raw(b"GET /health HTTP/1.1\nHost: localhost\n\n"))

    def test_pipelined_and_byte_by_byte(self):
        one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        self.assertEqual(self.server.raw(one + one + last).count("200 OK"), 3)
        with socket.create_connection((self.server.host, self.server.port)) as peer:
            for byte in last:
                peer.sendall(bytes([byte]))
            self.assertTrue(peer.recv(4096).startswith(b"HTTP/1.1 200 OK"))

    def test_page(self):
        status, text, headers = self.server.ask("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn("<!doctype html>", text)
        self.assertIn("require-trusted-types-for 'script'", headers["Content-Security-Policy"])
        self.assertEqual(self.server.ask("GET", "/assets/main.js")[0], 200)
        self.assertEqual(self.server.ask("GET", "/assets/purify.min.js")[0], 200)
        self.assertEqual(self.server.ask("GET", "/assets/none.js")[0], 404)


class LifeTest(unittest.TestCase):
    def test_goes_on_after_a_restart(self):
        with tempfile.TemporaryDirectory() as state:
            with Server(state=state) as server:
                kind = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "One is here"}]
                for said in (kind, "Two is here"):
                    server.chat(said, conversation="twice")
                    server.chat(said, conversation="twin")
                twin, _ = server.chat("Three is here", conversation="twin")
            with Server(state=state) as server:
                reply, _ = server.chat("Three is here", conversation="twice")
                self.assertEqual(reply["mooring"]["turn"], 3)
                self.assertEqual(answer_of(reply), answer_of(twin))
                self.assertEqual(reply["mooring"]["log_tokens"], twin["mooring"]["log_tokens"])

    def test_killed_server_keeps_what_it_accepted(self):
        with tempfile.TemporaryDirectory() as state:
            server = Server(state=state)
            server.chat("Kept", conversation="k")
            server.process.kill()
            server.stop()
            with Server(state=state) as again:
                reply, _ = again.chat("More", conversation="k")
                self.assertEqual(reply["mooring"]["turn"], 2)

    def test_closed_socket_frees_the_turn(self):
        body = json.dumps({"messages": [{"role": "user", "content": "Go on"}], "stream": True,
                           "max_tokens": 10000000, "conversation": "gone"}).encode()
        with tempfile.TemporaryDirectory() as folder, Server(model=endless_model(folder)) as server:
            peer = socket.create_connection((server.host, server.port), timeout=PATIENCE_SECONDS)
            peer.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(body) + body)
            got = b""
            while b'"content":"' not in got.partition(b'"content":""')[2]:
                got += peer.recv(4096)
            status, reply, headers = server.ask("POST", "/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Me too"}], "conversation": "gone"})
            self.assertEqual((status, reply["error"]["code"]), (409, "conversation_busy"))
            self.assertEqual(headers["Retry-After"], "1")
            peer.close()
            until(lambda: server.metric("requests_running") == 0)
            reply, _ = server.chat("Back again", conversation="gone")
            self.assertEqual(reply["mooring"]["turn"], 2)
            items = server.ask("GET", f"/v1/conversations/{reply['mooring']['conversation']}/items?order=asc")
            self.assertEqual(items[1]["data"][1]["status"], "incomplete")

    def test_drain(self):
        folder = tempfile.TemporaryDirectory()
        server = Server(model=endless_model(folder.name))
        body = json.dumps({"messages": [{"role": "user", "content": "Go on"}], "stream": True,
                           "store": False, "max_tokens": 10000})
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE_SECONDS)
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.readline()
        server.process.send_signal(signal.SIGTERM)
        until(lambda: server.ask("GET", "/ready")[0] == 503)
        status, reply, headers = server.ask("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hi"}]})
        self.assertEqual((status, reply["error"]["code"]), (503, "draining"))
        self.assertTrue(headers["Retry-After"])
        self.assertTrue(response.read().decode().endswith("data: [DONE]\n\n"))
        self.assertEqual(server.process.wait(PATIENCE_SECONDS), 0)
        server.stop()
        server.folder.cleanup()
        folder.cleanup()

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = os.path.join(folder, "keys")
            pathlib.Path(keys).write_text("# two\nalpha-key-of-alice-00\nbeta-key-of-bob-000000\n")
            with Server("--api-key-file", keys) as server:
                alice = {"Authorization": "Bearer alpha-key-of-alice-00"}
                bob = {"Authorization": "Bearer beta-key-of-bob-000000"}
                for path in ("/v1/models", "/metrics", "/props", "/v1/conversations", "/nowhere"):
                    self.assertEqual(server.ask("GET", path)[0], 401, path)
                self.assertEqual(server.ask("GET", "/health")[0], 200)
                self.assertEqual(server.ask("GET", "/v1/models", None, {
                    "Authorization": "Bearer alpha-key-of-alice-00x"})[0], 401)
                made = server.ask("POST", "/v1/conversations", {}, alice)[1]
                self.assertEqual(server.ask("GET", f"/v1/conversations/{made['id']}", None, alice)[0], 200)
                self.assertEqual(server.ask("GET", f"/v1/conversations/{made['id']}", None, bob)[0], 404)

    def test_refuses_to_be_open(self):
        for flags, code, text in ((["--listen", "0.0.0.0:0"], 2, "api-key-file"),
                                  (["--listen", "nonsense"], 2, "ADDRESS:PORT")):
            with tempfile.TemporaryDirectory() as state:
                done = subprocess.run([MOORING, "serve", MODEL, "--template", "chatml", "--state", state, *flags],
                                      capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)

    def test_second_server_is_refused(self):
        with tempfile.TemporaryDirectory() as state, Server(state=state) as server:
            done = subprocess.run([MOORING, "serve", MODEL, "--template", "chatml", "--state", state],
                                  capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
            self.assertEqual(done.returncode, 8, done.stderr)
            self.assertIn(str(server.process.pid), done.stderr)


class ClientTest(unittest.TestCase):
    def test_official_client(self):
        try:
            import openai
        except ImportError:
            self.skipTest("the package openai is not there")
        with Server() as server:
            client = openai.OpenAI(base_url=f"http://{server.host}:{server.port}/v1", api_key="none-is-needed")
            messages = [{"role": "user", "content": "Hello"}]
            whole = client.chat.completions.create(model=MODEL, messages=messages, seed=1)
            self.assertTrue(whole.usage.total_tokens)
            chunks = list(client.chat.completions.create(
                model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}))
            said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            self.assertEqual(said, whole.choices[0].message.content)
            self.assertEqual(chunks[-1].usage.total_tokens, whole.usage.total_tokens)
            one = client.responses.create(model=MODEL, input="Hello")
            two = client.responses.create(model=MODEL, input="More", previous_response_id=one.id)
            self.assertNotEqual(one.id, two.id)
            kinds = [event.type for event in client.responses.create(model=MODEL, input="Hi", stream=True)]
            self.assertEqual(kinds[0], "response.created")
            talk = client.conversations.create(metadata={"title": "x"})
            client.conversations.items.create(talk.id, items=[
                {"type": "message", "role": "user", "content": "An item"}])
            client.responses.create(model=MODEL, input="Go", conversation=talk.id)
            self.assertEqual(len(list(client.conversations.items.list(talk.id))), 3)
            client.conversations.delete(talk.id)
            with self.assertRaises(openai.NotFoundError):
                client.conversations.retrieve(talk.id)


if __name__ == "__main__":
    clients = ROOT / "build/clients/bin/python"  # with the official client; .ci/run makes it
    if clients.exists() and sys.executable != str(clients):
        os.execv(clients, [str(clients), *sys.argv])
    MOORING = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=1)
