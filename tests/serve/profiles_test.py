#!/usr/bin/env python3
"""The published profiles of the seed system, unchanged: what they ask for is given, or said."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import serving
from serving import PATIENCE_SECONDS, Server, answer_of, endless_model, until

PROFILES = pathlib.Path(__file__).parent / "profiles"
FLAGS = ("--threads", "1", "--max-tokens", "16", "--temperature", "0")
TRAINED = 512  # tokens, of the tiny model
ANCHORS, PAGE = 4, 16  # tokens


def profile(name):
    return ("--config", str(PROFILES / f"{name}.yaml"))


def shown(name):
    """What `config show` says: key to value and origin."""
    done = subprocess.run([serving.mooring(), *profile(name), "config", "show"], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS, check=True)
    rows = (line.split(None, 2) for line in done.stdout.splitlines()[1:])
    return {row[0]: (row[1], row[2]) for row in rows}


class ProfilesTest(unittest.TestCase):
    def serve(self, name, model=serving.MODEL):
        """A server with that profile; its warnings are in `said` once it has ended."""
        # The policy of the published system: with recall fewer tokens of a window are recent ones.
        return Server(*FLAGS, "--policy", "sinks", settings=profile(name), sizes=(), model=model)

    def windows(self, server):
        """Where the recent part of the window begins, of a talk that grows beyond it."""
        found = []
        for turn in range(8):
            reply, _ = server.chat(f"{turn} " + "word " * 40, conversation="long", max_tokens=5 + turn)
            mine = reply["mooring"]
            self.assertLessEqual(mine["window"]["anchors"] + mine["window"]["recent"], TRAINED)
            if mine["forgotten_tokens"]:
                found.append((mine["log_tokens"] - mine["window"]["recent"], mine["window"]["recent"]))
        self.assertGreater(len(found), 2)
        return found

    def test_t4_v100(self):
        server = self.serve("t4-v100")
        with server:
            self.assertTrue(answer_of(server.chat("Hello")[0]))
            props = server.ask("GET", "/props")[1]
            self.assertEqual((props["window"]["capacity"], props["total_slots"]), (TRAINED, 2))
            # dynamic: tokens leave one by one, so that the window is full from then on.
            for _, recent in self.windows(server):
                self.assertEqual(recent + ANCHORS, TRAINED)
        self.assertIn("engine tensorrt", server.said)
        self.assertIn(f"window_size 8192 is more than the {TRAINED} tokens", server.said)
        self.assertNotIn("use_cuda_graph", server.said)
        settings = shown("t4-v100")
        self.assertEqual(settings["engine"][0], "cpu")
        self.assertIn("tensorrt without a GPU", settings["engine"][1])
        for key, value in (("precision", "fp16"), ("window_size", "8192"), ("max_batch_size", "2"),
                           ("kv_cache_policy", "dynamic")):
            self.assertEqual(settings[key][0], value)
            self.assertIn("t4-v100.yaml:", settings[key][1])

    def test_a100_h100(self):
        server = self.serve("a100-h100")
        with server:
            self.assertTrue(answer_of(server.chat("Hello")[0]))
            props = server.ask("GET", "/props")[1]
            self.assertEqual((props["window"]["capacity"], props["total_slots"]), (TRAINED, 8))
            # block: whole pages leave, so that what is seen begins where a page does.
            windows = self.windows(server)
            self.assertEqual([(first - ANCHORS) % PAGE for first, _ in windows], [0] * len(windows))
            self.assertGreater(len({recent for _, recent in windows}), 1)
        self.assertIn("engine tensorrt", server.said)
        self.assertIn("use_cuda_graph true", server.said)
        self.assertIn("precision int8: no weight of this model is quantised", server.said)
        self.assertIn(f"window_size 32768 is more than the {TRAINED} tokens", server.said)
        settings = shown("a100-h100")
        self.assertEqual(settings["use_cuda_graph"][0], "false")
        self.assertIn("true without a GPU", settings["use_cuda_graph"][1])
        self.assertEqual(settings["kv_cache_policy"][0], "block")

    def test_the_batch_is_as_large_as_it_says(self):
        with tempfile.TemporaryDirectory() as folder, self.serve("t4-v100", endless_model(folder)) as server:
            streams = [server.stream("Go on", store=False, max_tokens=10000000).until_text() for _ in range(2)]
            third = server.stream("Me too", store=False, max_tokens=10000000)
            until(lambda: server.metric("requests_waiting") == 1)
            self.assertEqual(server.metric("requests_running"), 2)
            streams[0].close()
            third.until_text()
            for stream in (streams[1], third):
                stream.close()
            until(lambda: server.metric("requests_running") == 0)

    def test_the_same_by_name(self):
        """`profile: NAME` sets what the file of that name does, but for the engine."""
        for name in ("t4-v100", "a100-h100"):
            done = subprocess.run([serving.mooring(), "config", "show"], capture_output=True, text=True, check=True,
                                  env={**os.environ, "MOORING_PROFILE": name}, timeout=PATIENCE_SECONDS)
            named = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()[1:]}
            for key, (value, origin) in shown(name).items():
                if "yaml" in origin and key != "engine":
                    self.assertEqual(named[key], value, key)


if __name__ == "__main__":
    serving.main()
