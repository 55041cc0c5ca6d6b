#!/usr/bin/env python3
"""What an operator sees and sets: metrics, limits for each key, word to the service manager."""
import json
import os
import pathlib
import re
import socket
import tempfile
import unittest

import serving
from serving import CHAT, PATIENCE_SECONDS, Server, endless_model, until

ALICE = {"Authorization": "Bearer alpha-key-of-alice-00"}
BOB = {"Authorization": "Bearer beta-key-of-bob-000000"}


def metrics(server, headers=None):
    """Name and labels to value."""
    text = server.ask("GET", "/metrics", None, headers)[1]
    return {line.rpartition(" ")[0].removeprefix("mooring_"): float(line.rpartition(" ")[2])
            for line in text.splitlines() if not line.startswith("#")}


class MetricsTest(unittest.TestCase):
    def test_the_format(self):
        """Every line belongs to a metric that is declared before it, once."""
        with Server() as server:
            server.chat("Hello")
            declared = set()
            for line in server.ask("GET", "/metrics")[1].splitlines():
                if line.startswith("# TYPE "):
                    name = line.split()[2]
                    self.assertNotIn(name, declared)
                    declared.add(name)
                elif not line.startswith("#"):
                    self.assertRegex(line, r'^mooring_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+.e0-9]+$')
                    name = re.split(r"[{ ]", line)[0]
                    self.assertIn(re.sub(r"_(bucket|sum|count)$", "", name), declared | {name})

    def test_they_count_what_happens(self):
        with Server() as server:
            before = metrics(server)
            for turn in range(8):
                reply, _ = server.chat(f"{turn} " + "word " * 40, conversation="long")
            after = metrics(server)
            pages = [found['pages{state="free"}'] + found['pages{state="used"}'] for found in (before, after)]
            self.assertEqual(*pages)
            self.assertGreater(after['pages{state="used"}'], 0)
            self.assertAlmostEqual(after["kv_cache_usage_ratio"], after['pages{state="used"}'] / pages[1], places=4)
            self.assertEqual(after["memory_bytes" '{part="pages"}'], before["memory_bytes" '{part="pages"}'])
            self.assertEqual(after["windows"], 1)
            self.assertEqual(after["windows_without_anchors"], 0)
            seen = reply["mooring"]["window"]
            self.assertEqual(after['window_tokens{state="anchor"}'], seen["anchors"])
            self.assertGreater(after["evicted_tokens_total"], 0)
            self.assertEqual(after["out_of_pages_total"] + after["numeric_errors_total"], 0)
            self.assertEqual(after['matched_total{how="id"}'], 7)
            self.assertGreater(after["steps_total"], before["steps_total"])
            self.assertGreaterEqual(after["step_rows_total"], after["steps_total"])
            self.assertEqual(after["step_conversations_total"], after["steps_total"])
            self.assertGreater(after['step_seconds_total{phase="forward"}'], 0)
            self.assertEqual(after["queue_seconds_count"], 8)
            self.assertEqual(after['queue_seconds_bucket{le="+Inf"}'], 8)
            self.assertGreater(after["resident_bytes"], 0)
            self.assertEqual(after["stream_connections"], 0)

    def test_boards_and_alarms_read_what_is_there(self):
        with Server() as server:
            server.chat("Hello")
            there = set(re.findall(r"^mooring_\w+", server.ask("GET", "/metrics")[1], re.M))
        for name in ("grafana.json", "alerts.yaml"):
            read = set(re.findall(r"mooring_\w+", (serving.ROOT / "deploy" / name).read_text()))
            self.assertGreater(len(read), 5)
            self.assertEqual(read - there, set(), name)

    def test_streams_are_counted(self):
        with tempfile.TemporaryDirectory() as folder, Server(model=endless_model(folder)) as server:
            stream = server.stream("Go on", store=False, max_tokens=10000000).until_text()
            self.assertEqual(server.metric("stream_connections"), 1)
            stream.close()
            until(lambda: server.metric("stream_connections") == 0)


class LimitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "keys").write_text("alpha-key-of-alice-00\nbeta-key-of-bob-000000\n")
        self.model = endless_model(folder.name)

    def serve(self, settings, **more):
        (self.folder / "config.yaml").write_text(settings)
        return Server("--api-key-file", str(self.folder / "keys"), model=self.model,
                      settings=("--quiet", "--config", str(self.folder / "config.yaml")), **more)

    def test_a_key_has_its_share(self):
        with self.serve("server: {key_queue: 2}\n") as server:
            streams = [server.stream("Go on", ALICE, store=False, max_tokens=10000000).until_text() for _ in range(2)]
            for path, body in ((CHAT, {"messages": [{"role": "user", "content": "Hi"}]}),
                               ("/v1/completions", {"prompt": "Hi"}), ("/v1/responses", {"input": "Hi"})):
                status, reply, headers = server.ask("POST", path, body, ALICE)
                self.assertEqual((status, reply["error"]["code"], reply["error"]["type"]),
                                 (429, "key_over_share", "rate_limit_error"))
                self.assertGreaterEqual(int(headers["Retry-After"]), 1)
            # Not by the body, which is not read; and others are served.
            self.assertEqual(server.ask("POST", CHAT, b"{", ALICE)[0], 429)
            self.assertEqual(server.ask("POST", CHAT, {"messages": [{"role": "user", "content": "Hi"}],
                                                       "max_tokens": 3}, BOB)[0], 200)
            self.assertEqual(server.ask("GET", "/v1/conversations", None, ALICE)[0], 200)
            for stream in streams:
                stream.close()
            until(lambda: server.ask("POST", CHAT, {"messages": [{"role": "user", "content": "Hi"}],
                                                    "max_tokens": 3}, ALICE)[0] == 200)

    def test_requests_a_minute(self):
        with self.serve("server: {requests_per_minute: 3}\n") as server:
            got = [server.ask("GET", "/v1/conversations", None, ALICE) for _ in range(5)]
            self.assertEqual([one[0] for one in got], [200, 200, 200, 429, 429])
            self.assertEqual(got[4][1]["error"]["code"], "rate_limit_exceeded")
            self.assertIn(int(got[4][2]["Retry-After"]), range(1, 21))
            self.assertEqual(server.ask("GET", "/v1/conversations", None, BOB)[0], 200)
            self.assertEqual(server.ask("GET", "/metrics", None, ALICE)[0], 200)  # never held up

    def test_size_of_a_body(self):
        with self.serve("server: {body_bytes: 1024}\n") as server:
            body = json.dumps({"prompt": "a" * 2000})
            status, reply, _ = server.ask("POST", "/v1/completions", body, ALICE)
            self.assertEqual((status, reply["error"]["code"]), (413, "body_too_large"))

    def test_owners_come_in_turn(self):
        """One place, three of Alice's wait, then Bob asks: he comes after one of hers."""
        with self.serve("max_batch_size: 1\nserver: {key_queue: 10}\n") as server:
            def waiting(count):
                until(lambda: metrics(server, ALICE)["requests_waiting"] == count)
            first = server.stream("Go on", ALICE, store=False, max_tokens=10000000).until_text()
            later = []
            for who in (ALICE, ALICE, ALICE, BOB):
                later.append(server.stream("Go on", who, store=False, max_tokens=10000000))
                waiting(len(later))
            order = []
            first.close()
            rest = dict(enumerate(later))
            for expected in (0, 3, 1, 2):
                order.append(expected)
                rest.pop(expected).until_text().close()  # it runs; the others cannot
            self.assertEqual(order, [0, 3, 1, 2])


class ServiceManagerTest(unittest.TestCase):
    def listen(self, path):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(path)
        manager.settimeout(PATIENCE_SECONDS)
        return manager

    def test_it_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in (os.path.join(folder, "notify"), f"\0mooring-test-{os.getpid()}"):
                manager = self.listen(path)
                with Server(environment={"NOTIFY_SOCKET": path.replace("\0", "@"), "WATCHDOG_USEC": "300000"}) as server:
                    self.assertEqual(manager.recv(4096), b"READY=1")
                    for _ in range(3):
                        self.assertEqual(manager.recv(4096), b"WATCHDOG=1")
                    server.chat("Hello")
                    self.assertEqual(server.stop(), 0)
                    said = manager.recv(4096)
                    while said == b"WATCHDOG=1":
                        said = manager.recv(4096)
                    self.assertTrue(said.startswith(b"STOPPING=1"), said)

    def test_no_watchdog_unless_it_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "notify")
            manager = self.listen(path)
            # Of another process: this one is not watched.
            with Server(environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "300000", "WATCHDOG_PID": "1"}) as server:
                server.chat("Hello")
                server.stop()
                self.assertEqual([manager.recv(4096)[:8] for _ in range(2)], [b"READY=1", b"STOPPING"])

    def test_nobody_listens(self):
        with Server(environment={"NOTIFY_SOCKET": "/nowhere/at/all", "WATCHDOG_USEC": "x"}) as server:
            server.chat("Hello")


if __name__ == "__main__":
    serving.main()
