#!/usr/bin/env python3
"""Conversations: by name, recognised, forked, longer than the window, more than there are places."""
import serving
from serving import answer_of


class ConversationsTest(serving.SharedServerTest):
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
            self.assertLessEqual(window["anchors"] + window["recalled"] + window["recent"], window["capacity"])
        self.assertGreater(reply["mooring"]["forgotten_tokens"], 0)
        self.assertLessEqual(reply["usage"]["prompt_tokens"], 256)
        memory = self.server.ask("GET", f"/v1/conversations/{reply['mooring']['conversation']}/memory")[1]
        self.assertEqual(memory["log_tokens"], reply["mooring"]["log_tokens"])
        self.assertEqual([span["state"] for span in memory["spans"]], ["anchor", "archived", "text", "recent"])
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


if __name__ == "__main__":
    serving.main()
