#!/usr/bin/env python3
"""Client libraries as their users run them, and the programs of docs/api.md as they stand there."""
import importlib.util
import os
import re
import subprocess
import sys
import unittest

import serving
from serving import MODEL, PATIENCE_SECONDS, ROOT, Server


def needs(*packages):
    """Skips a case where a client library is not there."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, "not installed: " + ", ".join(missing))


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.__exit__)
        self.base = f"{self.server.url}/v1"

    def turns(self, conversation):
        return self.server.ask("GET", f"/v1/conversations/{conversation}")[1]["mooring"]["turns"]

    def items(self, conversation):
        return self.server.ask("GET", f"/v1/conversations/{conversation}/items?order=asc")[1]["data"]

    @needs("openai")
    def test_official_client(self):
        import openai
        client = openai.OpenAI(base_url=self.base, api_key="none-is-needed")
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

    @needs("langchain_openai")
    def test_langchain_sends_only_what_is_new(self):
        from langchain_openai import ChatOpenAI
        chat = ChatOpenAI(base_url=self.base, api_key="none-is-needed", model=MODEL,
                          extra_body={"conversation": "harbour"})
        said = ["Hello there", "And then?", "And after that?"]
        for text in said[:2]:
            self.assertTrue(chat.invoke(text).content)
        pieces = [piece.content for piece in chat.stream(said[2])]
        self.assertTrue("".join(pieces))
        items = self.items("harbour")
        self.assertEqual([item["role"] for item in items], ["user", "assistant"] * 3)
        self.assertEqual([item["content"][0]["text"] for item in items[::2]], said)
        self.assertEqual(self.turns("harbour"), 3)

    @needs("langchain_openai")
    def test_langchain_goes_on_behind_a_response(self):
        from langchain_openai import ChatOpenAI
        chat = ChatOpenAI(base_url=self.base, api_key="none-is-needed", model=MODEL,
                          use_responses_api=True, use_previous_response_id=True)
        messages = [("user", "My boat is called Nina.")]
        messages.append(chat.invoke(messages))
        messages.append(("user", "And my boat?"))
        last = chat.invoke(messages)
        place = self.server.ask("GET", f"/v1/responses/{last.response_metadata['id']}")[1]["conversation"]["id"]
        self.assertEqual(self.turns(place), 2)
        self.assertEqual([item["role"] for item in self.items(place)], ["user", "assistant"] * 2)

    @needs("openai", "langchain_openai")
    def test_programs_of_the_documentation(self):
        programs = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/api.md").read_text(), re.S | re.M)
        self.assertEqual(len(programs), 2)
        for program in programs:
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
                env={**os.environ, "OPENAI_BASE_URL": self.base, "OPENAI_API_KEY": "none-is-needed"})
            self.assertEqual(done.returncode, 0, program + done.stderr)
            self.assertTrue(done.stdout.strip())
        self.assertEqual(self.turns("harbour"), 2)
        self.assertEqual(self.turns("order:4711"), 2)


if __name__ == "__main__":
    serving.main()
