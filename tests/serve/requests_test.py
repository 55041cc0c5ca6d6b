#!/usr/bin/env python3
"""What the server refuses: wrong values, hostile bodies, heads that are no clean HTTP."""
import socket

import serving


class RequestsTest(serving.SharedServerTest):
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


if __name__ == "__main__":
    serving.main()
