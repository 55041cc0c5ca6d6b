#!/usr/bin/env python3
"""A server from start to end: restarts, a crash, clients that go, draining, keys, addresses."""
import os
import pathlib
import resource
import signal
import socket
import subprocess
import tempfile
import unittest

import serving
from serving import CHAT, MODEL, PATIENCE_SECONDS, Server, answer_of, endless_model, until


class LifeTest(unittest.TestCase):
    def test_goes_on_after_a_restart(self):
        with tempfile.TemporaryDirectory() as state:
            with Server(state=state) as server:
                kind = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "One is here"}]
                for said in (kind, "Two is here"):
                    server.chat(said, conversation="twice")
                    server.chat(said, conversation="twin")
                    server.chat(said, conversation="hurt")
                twin, _ = server.chat("Three is here", conversation="twin")
                hurt = server.ask("GET", "/v1/conversations/hurt")[1]["id"]
            pages = pathlib.Path(state) / "snapshots" / f"{hurt}.pages"
            whole = bytearray(pages.read_bytes())
            whole[len(whole) // 2] ^= 4
            pages.write_bytes(whole)
            with Server(state=state) as server:
                # Keys and values were kept; where they are damaged, the log is read again.
                hurt, _ = server.chat("Three is here", conversation="hurt")
                self.assertEqual(hurt["mooring"]["warnings"], ["memory_rebuilt"])
                self.assertEqual(answer_of(hurt), answer_of(twin))
                reply, _ = server.chat("Three is here", conversation="twice")
                self.assertEqual(reply["mooring"]["warnings"], [])
                self.assertGreater(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
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

    def test_killed_server_reads_little_again(self):
        """Keys and values are kept now and then; what was said behind them is read again, and nothing else."""
        long, more = "Once upon a time there was a lamp. " * 70, ["And then?", "0123 4567", "Go on"]
        with tempfile.TemporaryDirectory() as state:
            server = Server(state=state)
            for name in ("twin", "killed"):
                for text in (long, "Hello", "And so on"):
                    said = server.chat(text, conversation=name)[0]["mooring"]
            twin = [server.chat(text, conversation="twin")[0] for text in more]
            kept = pathlib.Path(state) / "snapshots" / f"{said['conversation']}.pages"
            until(kept.exists)
            server.process.kill()
            server.stop()
            with Server(state=state) as again:
                replies = [again.chat(text, conversation="killed")[0] for text in more]
                self.assertEqual(again.metric("memory_rebuilt_total"), 0)
        self.assertNotIn("memory_rebuilt", replies[0]["mooring"]["warnings"])
        self.assertGreater(replies[0]["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual([answer_of(reply) for reply in replies], [answer_of(reply) for reply in twin])
        for field in ("window", "log_tokens"):
            self.assertEqual([reply["mooring"][field] for reply in replies], [reply["mooring"][field] for reply in twin])

    def test_closed_socket_frees_the_turn(self):
        with tempfile.TemporaryDirectory() as folder, Server(model=endless_model(folder)) as server:
            stream = server.stream("Go on", max_tokens=10000000, conversation="gone").until_text()
            status, reply, headers = server.ask("POST", CHAT, {
                "messages": [{"role": "user", "content": "Me too"}], "conversation": "gone"})
            self.assertEqual((status, reply["error"]["code"]), (409, "conversation_busy"))
            self.assertEqual(headers["Retry-After"], "1")
            stream.close()
            until(lambda: server.metric("requests_running") == 0)
            reply, _ = server.chat("Back again", conversation="gone")
            self.assertEqual(reply["mooring"]["turn"], 2)
            items = server.ask("GET", f"/v1/conversations/{reply['mooring']['conversation']}/items?order=asc")
            self.assertEqual(items[1]["data"][1]["status"], "incomplete")

    def test_closed_socket_frees_the_pages(self):
        with tempfile.TemporaryDirectory() as folder, Server(model=endless_model(folder)) as server:
            self.assertEqual(server.metric('pages{state="used"}'), 0)
            stream = server.stream("Go on", max_tokens=10000000, store=False).until_text()
            until(lambda: server.metric('pages{state="used"}') > 0)
            stream.close()
            until(lambda: server.metric('pages{state="used"}') == 0)

    def test_more_connections_than_the_shell_allows(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, hard), hard))
        try:
            server = Server()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with server:
            peers = [socket.create_connection((server.host, server.port)) for _ in range(min(100, hard - 64))]
            server.chat("Is there room?", conversation="room")
            self.assertGreater(server.metric("connections"), len(peers))
            for peer in peers:
                peer.close()

    def test_drain(self):
        with tempfile.TemporaryDirectory() as folder, Server(model=endless_model(folder)) as server:
            stream = server.stream("Go on", store=False, max_tokens=10000).until_text()
            server.process.send_signal(signal.SIGTERM)
            until(lambda: server.ask("GET", "/ready")[0] == 503)
            status, reply, headers = server.ask("POST", CHAT, {"messages": [{"role": "user", "content": "Hi"}]})
            self.assertEqual((status, reply["error"]["code"]), (503, "draining"))
            self.assertTrue(headers["Retry-After"])
            self.assertTrue(stream.rest().endswith("data: [DONE]\n\n"))
            self.assertEqual(server.process.wait(PATIENCE_SECONDS), 0)

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

    def test_the_same_system_text_is_read_once_for_each_owner(self):
        messages = [{"role": "system", "content": "You sell lamps and ropes by post. " * 3},
                    {"role": "user", "content": "Is mine there?"}]
        with tempfile.TemporaryDirectory() as folder:
            keys = os.path.join(folder, "keys")
            pathlib.Path(keys).write_text("alpha-key-of-alice-00\nbeta-key-of-bob-000000\n")
            with Server("--api-key-file", keys) as server:
                def begin(owner, name):
                    reply = server.ask("POST", CHAT, {"messages": messages, "conversation": name},
                                       {"Authorization": f"Bearer {owner}"})[1]
                    return reply["usage"]["prompt_tokens_details"]["cached_tokens"], answer_of(reply)

                first, second, third = (begin("alpha-key-of-alice-00", name) for name in ("a", "b", "c"))
                foreign = begin("beta-key-of-bob-000000", "a")
                self.assertEqual((first[0], foreign[0]), (0, 0))
                self.assertGreater(second[0], 64)
                self.assertEqual(second[0], third[0])
                self.assertEqual(len({answer for _, answer in (first, second, third, foreign)}), 1)
                # What is deleted leaves no trace in what is shared.
                alice = {"Authorization": "Bearer alpha-key-of-alice-00"}
                found = server.ask("GET", "/v1/conversations/a", None, alice)[1]["id"]
                server.ask("DELETE", f"/v1/conversations/{found}", None, alice)
                self.assertEqual(begin("alpha-key-of-alice-00", "d")[0], 0)

    def test_refuses_to_be_open(self):
        for flags, code, text in ((["--listen", "0.0.0.0:0"], 2, "api-key-file"),
                                  (["--listen", "nonsense"], 2, "ADDRESS:PORT")):
            with tempfile.TemporaryDirectory() as state:
                done = subprocess.run([serving.mooring(), "serve", MODEL, "--template", "chatml", "--state", state, *flags],
                                      capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)

    def test_second_server_is_refused(self):
        with tempfile.TemporaryDirectory() as state, Server(state=state) as server:
            done = subprocess.run([serving.mooring(), "serve", MODEL, "--template", "chatml", "--state", state],
                                  capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
            self.assertEqual(done.returncode, 8, done.stderr)
            self.assertIn(str(server.process.pid), done.stderr)


if __name__ == "__main__":
    serving.main()
