#!/usr/bin/env python3
"""What has left the window comes back: in replies, in the memory view, after a restart, on a branch."""
import tempfile
import time
import unittest

import serving
from serving import ROOT, Server, answer_of, until

ENCODER = ("--encoder", str(ROOT / "tests/golden/tiny/encoder"))

GREETING = "Hello there, how are you today? 0123456789"
FACT = "My gate code is QXZ."
QUESTION = "gate code?"
FILLER = [f"{'wvuw' * 6} {digit}{digit}" for digit in range(9)]


def talk(server, name, said):
    return [server.chat(text, conversation=name)[0] for text in said]


class MemoryTest(unittest.TestCase):
    def test_a_question_brings_back_what_was_said(self):
        with Server() as server:
            *before, reply = talk(server, "gate", [GREETING, FACT, *FILLER, QUESTION])
            for earlier in before:
                self.assertEqual(earlier["mooring"]["recalled"], [])
            mine = reply["mooring"]
            self.assertEqual(len(mine["recalled"]), 1)
            span = mine["recalled"][0]
            self.assertEqual(span["turn"], 2)
            self.assertGreater(span["score"], 0)
            self.assertEqual(mine["window"]["recalled"], span["to"] - span["from"])
            self.assertEqual(server.metric("recalled_tokens_total"), span["to"] - span["from"])
            held = sum(mine["window"][state] for state in ("anchors", "recalled", "recent"))
            self.assertLessEqual(held, mine["window"]["capacity"])
            path = f"/v1/conversations/{mine['conversation']}"
            items = server.ask("GET", f"{path}/items?order=asc&limit=100")[1]["data"]
            source = next(item for item in items if item["id"] == span["item"])
            self.assertIn(source["content"][0]["text"], (FACT, answer_of(before[1])))
            self.assertEqual(items[-1]["mooring"]["recalled"], mine["recalled"])
            self.assertEqual([item["mooring"]["recalled"] for item in items[:-1]], [[]] * (len(items) - 1))
            memory = server.ask("GET", f"{path}/memory")[1]
            states = [one["state"] for one in memory["spans"]]
            self.assertEqual((states[0], states[-1]), ("anchor", "recent"))
            self.assertIn("recalled", states)
            self.assertIn("archived", states)
            ends = [0] + [one["to"] for one in memory["spans"]]
            self.assertEqual([one["from"] for one in memory["spans"]], ends[:-1])
            self.assertEqual(ends[-1], memory["log_tokens"])
            # Another conversation of the same owner knows nothing of it.
            other = talk(server, "other", [*FILLER, QUESTION])[-1]
            self.assertEqual(other["mooring"]["recalled"], [])

    def test_a_restart_has_the_same_memory(self):
        for flags in ((), ENCODER):
            with self.subTest(flags=flags):
                self.restart(*flags)

    def test_what_was_said_without_an_encoder_is_found_by_its_words(self):
        with tempfile.TemporaryDirectory() as state:
            with Server(state=state) as server:
                talk(server, "gate", [GREETING, FACT, *FILLER])
            with Server(*ENCODER, state=state) as server:
                reply = talk(server, "gate", [QUESTION])[0]
                self.assertIn(2, [span["turn"] for span in reply["mooring"]["recalled"]])
            with Server("--encoder", "/nowhere/at/all", state=state) as server:
                self.assertTrue(answer_of(talk(server, "gate", ["And now?"])[0]))
            self.assertIn("found by its words only", server.said)

    def restart(self, *flags):
        said = [GREETING, FACT, *FILLER, QUESTION]
        more = ["And now?", *FILLER[:6], QUESTION, "Thanks."]
        with tempfile.TemporaryDirectory() as state:
            with Server(*flags, state=state) as server:
                for name in ("stopped", "twin"):
                    talk(server, name, said)
                twin = talk(server, "twin", more)
            with Server(*flags, state=state) as server:
                again = talk(server, "stopped", more)
            self.assertEqual([answer_of(reply) for reply in again], [answer_of(reply) for reply in twin])
            for field in ("recalled", "window", "log_tokens"):
                self.assertEqual([self.bare(reply, field) for reply in again],
                                 [self.bare(reply, field) for reply in twin], field)
            self.assertTrue(any(reply["mooring"]["recalled"] for reply in again))

    def test_asked_again_it_comes_back_again(self):
        with Server() as server:
            first = talk(server, "again", [GREETING, FACT, *FILLER, QUESTION])[-1]
            path = f"/v1/conversations/{first['mooring']['conversation']}"
            items = server.ask("GET", f"{path}/items?order=asc&limit=100")[1]["data"]
            history = [{"role": item["role"], "content": item["content"][0]["text"]} for item in items[:-1]]
            second = server.chat(history, conversation="again")[0]
            self.assertEqual(second["mooring"]["matched"], "fork")
            self.assertEqual(answer_of(second), answer_of(first))
            self.assertEqual(second["mooring"]["window"], first["mooring"]["window"])
            self.assertGreater(second["mooring"]["window"]["recalled"], 0)

    def test_it_is_there_before_it_is_asked_for(self):
        """While nobody asks, what left the window is read again and kept; a message does not wait for it."""
        said = [GREETING, FACT, *FILLER]
        for settings, ahead in (("", True), ("memory: {archive: {ram_bytes: 0}}\n", False)):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
                config.write(settings)
                config.flush()
                with Server(settings=("--quiet", "--config", config.name)) as server:
                    talk(server, "gate", said)
                    if ahead:
                        until(lambda: server.metric("ahead_tokens_total") > 0 and self.quiet(server))
                    reply = talk(server, "gate", [QUESTION])[0]
                    back = reply["mooring"]["window"]["recalled"]
                    self.assertGreater(back, 0)
                    for how, tokens in (("kept", back if ahead else 0), ("read", 0 if ahead else back)):
                        self.assertEqual(server.metric(f'called_back_tokens_total{{how="{how}"}}'), tokens)
                    self.assertEqual(server.metric("span_bytes") > 0, ahead)
                    server.ask("DELETE", f"/v1/conversations/{reply['mooring']['conversation']}")
                    until(lambda: server.metric("span_bytes") == 0)

    @staticmethod
    def quiet(server):
        steps = server.metric("steps_total")
        time.sleep(0.1)
        return server.metric("steps_total") == steps

    def test_switched_off_nothing_comes_back(self):
        for flags in (["--policy", "sinks"], ["--recall", "0"]):
            with Server(*flags) as server:
                reply = talk(server, "gate", [GREETING, FACT, *FILLER, QUESTION])[-1]
                self.assertEqual(reply["mooring"]["recalled"], [])
                path = f"/v1/conversations/{reply['mooring']['conversation']}/memory"
                states = [one["state"] for one in server.ask("GET", path)[1]["spans"]]
                self.assertEqual(states, ["anchor", "text", "recent"])

    @staticmethod
    def bare(reply, field):
        value = reply["mooring"][field]
        if field != "recalled":
            return value
        return [{key: span[key] for key in ("from", "to", "score", "turn")} for span in value]


if __name__ == "__main__":
    serving.main()
