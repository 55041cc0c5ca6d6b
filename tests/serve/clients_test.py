#!/usr/bin/env python3
"""Client libraries as their users run them, and the words of docs/api.md."""
import unittest

import serving
from serving import MODEL, Server


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
    serving.main()
