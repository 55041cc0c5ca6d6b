#!/usr/bin/env python3
"""17,500 idle connections and 2,000 live streams at once: who is dropped, how soon others are answered, what it costs.

    bench/serve/idle.py [--quick] [--json FILE]

A tiny model that never ends a reply, so that the model is nearly nothing and the server all. Each idle
connection has asked for /health once and stays; each stream asks for an answer that outlasts the bench:
as many as there are places are answered at a time, the others wait their turn and hear comments. Streams are
read by a process of their own. Asked for: none dropped; /health within 50 ms at the 99th percentile, asked on
a connection that is kept; and 64 MiB for all of it beside model, pages and buffers of the engine.
"""

import argparse
import json
import multiprocessing
import select
import socket
import statistics
import sys
import tempfile
import time

import load

HEALTH_BAR_SECONDS, MEMORY_BAR_BYTES = 0.05, 64 << 20
SPARE_FILES = 100
SOURCES = 8  # addresses of this machine that clients come from, so that ports do not run out
GET_HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(server, number):
    peer = socket.socket()
    peer.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
    peer.bind((f"127.0.0.{1 + number % SOURCES}", 0))
    peer.settimeout(load.PATIENCE_SECONDS)
    peer.connect(server)
    return peer


def open_idle(server, count):
    peers = []
    for number in range(count):
        peer = connect(server, number)
        peer.sendall(GET_HEALTH)
        if not peer.recv(4096).startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"connection {number} was not answered")
        peers.append(peer)
    return peers


def dropped(peers):
    """How many were closed by the server."""
    gone = 0
    for peer in peers:
        peer.setblocking(False)
        try:
            gone += peer.recv(1) == b""
        except BlockingIOError:
            pass
        except OSError:
            gone += 1
    return gone


def hold_streams(server, count, max_tokens, pipe):
    """Opens the streams and reads what comes, until it is told to stop."""
    poll, peers, heard, refused, gone = select.epoll(), {}, {}, 0, 0
    for number in range(count):
        body = json.dumps(load.chat("Go on.", max_tokens=max_tokens, conversation=f"stream:{number}")).encode()
        peer = connect(server, number)
        peer.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        peers[peer.fileno()] = peer
        heard[peer.fileno()] = 0
        poll.register(peer.fileno(), select.EPOLLIN)
    told, total = False, 0
    while True:
        for number, _ in poll.poll(0.2, 256):
            try:
                piece = peers[number].recv(1 << 16)
            except OSError:
                piece = b""
            if heard[number] == 0 and piece and not piece.startswith(b"HTTP/1.1 200"):
                refused += 1
            heard[number] += len(piece)
            total += len(piece)
            if not piece:
                poll.unregister(number)
                gone += 1
        if not told and all(heard.values()):
            told = True
            pipe.send("open")
        if pipe.poll():
            command = pipe.recv()
            if command == "stop":
                break
            pipe.send({"refused": refused, "gone": gone, "bytes": total,
                       "silent": sum(1 for size in heard.values() if size == 0)})
    for peer in peers.values():
        peer.close()


def ask_health(server, seconds, pause=0.01):
    """Seconds of each answer; on one connection."""
    peer, took = connect(server, 0), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        peer.sendall(GET_HEALTH)
        if not peer.recv(4096).startswith(b"HTTP/1.1 200"):
            raise SystemExit("/health was not answered")
        took.append(time.monotonic() - start)
        time.sleep(pause)
    peer.close()
    return took


def measure(server, options):
    address = (server.host, server.port)
    memory = {"start": load.pss_bytes(server.pid)}
    pipe, other = multiprocessing.Pipe()
    reader = multiprocessing.Process(target=hold_streams, args=(address, options.streams, options.max_tokens, other),
                                     daemon=True)
    start = time.monotonic()
    peers = open_idle(address, options.idle)
    opened = time.monotonic() - start
    memory["idle"] = load.pss_bytes(server.pid)
    print(f"{options.idle} idle connections in {opened:.1f} s", file=sys.stderr)
    reader.start()
    if not pipe.poll(load.PATIENCE_SECONDS) or pipe.recv() != "open":
        raise SystemExit("not every stream was opened")
    print(f"{options.streams} streams", file=sys.stderr)
    took = ask_health(address, options.seconds)
    pipe.send("tell")
    streams = pipe.recv()
    memory["all"] = load.pss_bytes(server.pid)
    metrics = server.metrics()
    result = {"health": took, "dropped_idle": dropped(peers), "streams": streams, "memory": memory,
              "opened_seconds": opened, "connections": metrics["connections"],
              "generated": metrics['tokens_total{kind="generated"}'], "running": metrics["requests_running"]}
    pipe.send("stop")
    for peer in peers:
        peer.close()
    reader.join(30)
    start = time.monotonic()
    while server.metrics()["requests_running"] + server.metrics()["requests_waiting"] > 0:
        if time.monotonic() - start > 120:
            break
        time.sleep(0.1)
    result["cleared_seconds"] = time.monotonic() - start
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    load.add_arguments(parser, "")
    parser.add_argument("--idle", type=int, default=17500)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--places", type=int, default=64, help="streams that are answered at a time")
    parser.add_argument("--seconds", type=float, default=20, help="for which all are held")
    parser.add_argument("--max-tokens", type=int, default=1000000)
    options = parser.parse_args()
    if options.quick:
        options.idle, options.streams, options.seconds = 1500, 300, 5
    load.raise_file_limit(options.idle + options.streams + SPARE_FILES)
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or load.endless_model(folder)
        flags = ["--threads", "1", "--policy", "sinks"] + load.ENDLESS_FLAGS
        settings = {"max_batch_size": options.places, "server.queue": options.streams + SPARE_FILES,
                    "server.max_connections": options.idle + options.streams + SPARE_FILES}
        with load.Mooring(options.mooring, model, flags, settings) as server:
            result = measure(server, options)
    took, memory, streams = result["health"], result["memory"], result["streams"]
    late = load.quantile(took, 0.99)
    grown = memory["all"] - memory["start"]
    lost = result["dropped_idle"] + streams["gone"] + streams["refused"]
    verdict = lambda good: "reached" if good else "MISSED"
    mib = lambda count: f"{count / (1 << 20):.1f} MiB"
    rows = [
        ["connections held", f"{options.idle} idle, {options.streams} streams ({result['running']:.0f} answered at a "
         f"time); dropped: {result['dropped_idle']} and {streams['gone']}, refused: {streams['refused']}",
         "none", verdict(lost == 0)],
        ["/health", f"p50 {load.milliseconds(statistics.median(took))} ms, p99 {load.milliseconds(late)} ms, "
         f"most {load.milliseconds(max(took))} ms", f"<= {HEALTH_BAR_SECONDS * 1e3:.0f} ms",
         verdict(late <= HEALTH_BAR_SECONDS)],
        ["memory (Pss) beside model, pages and buffers", f"{mib(grown)}: idle {mib(memory['idle'] - memory['start'])}, "
         f"streams {mib(memory['all'] - memory['idle'])}; the process before: {mib(memory['start'])}",
         f"<= {mib(MEMORY_BAR_BYTES)}", verdict(grown <= MEMORY_BAR_BYTES)],
        ["a connection, a stream", f"{(memory['idle'] - memory['start']) / max(1, options.idle) / 1024:.1f} KiB, "
         f"{(memory['all'] - memory['idle']) / max(1, options.streams) / 1024:.1f} KiB", "", ""],
        ["sent", f"{streams['bytes'] / 1e6:.1f} MB", "", ""],
        ["all turns ended after the clients went", f"{result['cleared_seconds']:.1f} s", "", ""],
    ]
    print(load.table(["", "", "asked for", ""], rows))
    load.keep(options.json, {"machine": load.machine(), **result})
    return 1 if any(row[-1] == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
