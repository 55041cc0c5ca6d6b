#!/usr/bin/env python3
"""Answers as clients of the OpenAI API meet them: whole, streamed, raw; and the small routes."""
import json

import serving
from serving import MODEL, answer_of, events


class AnswersTest(serving.SharedServerTest):
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

    def test_page(self):
        status, text, headers = self.server.ask("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn("<!doctype html>", text)
        self.assertIn("require-trusted-types-for 'script'", headers["Content-Security-Policy"])
        self.assertEqual(self.server.ask("GET", "/assets/main.js")[0], 200)
        self.assertEqual(self.server.ask("GET", "/assets/purify.min.js")[0], 200)
        self.assertEqual(self.server.ask("GET", "/assets/none.js")[0], 404)


if __name__ == "__main__":
    serving.main()
