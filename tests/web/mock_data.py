"""Canned conversations for the mock server: made-up talk of any length, the same on every run."""
import copy
import functools
import itertools
import random
import time

CAPACITY = 8192
ANCHORS = 16
PAGE = 64  # tokens of a span that is called back

WORDS = (
    "the boat lay quiet at the quay while fog came in from the sea and somebody counted ropes "
    "under a lamp that swung a little whenever the water moved it was late and nobody minded "
    "because the work was done and the bread was still warm in its cloth").split()

HOSTILE = """<script>window.hacked = 1</script>

<img src=x onerror="window.hacked = 2"> and <b onclick="window.hacked = 3">bold</b>

[a link](javascript:window.hacked=4) and [another](data:text/html,<script>window.hacked=5</script>)
and [a good one](https://example.org/page "its title")

![a picture](https://tracker.example/pixel.png)

<iframe src="https://example.org"></iframe><style>body { display: none }</style>
<div style="position:fixed;inset:0" class="menu">over everything</div>

<svg><animate onbegin="window.hacked = 6" attributeName="x"/></svg>

<form action="https://tracker.example/"><input name=q></form>

<a href="https://example.org" ping="https://tracker.example/ping" onmouseover="window.hacked=7">raw</a>
"""

ANSWER = """Three knots are enough for a small boat.

1. **Bowline**: a loop that holds and still comes undone.
2. **Cleat hitch**: for the quay, two turns and a locking half.
3. **Figure eight**: keeps a rope from running out.

```python
def turns(load, friction=0.3):
    # each turn on the cleat takes a share of the load
    return max(1, round(load * (1 - friction)))
```

| Knot | Holds | Comes undone |
| --- | --- | --- |
| Bowline | very well | easily |
| Cleat hitch | well | at once |

> Tie it as if you had to untie it in the dark."""


class Node:
    """One message; `parent` makes branches."""

    def __init__(self, node_id, parent, role, text, tokens, status="completed", recalled=()):
        self.id, self.parent, self.role, self.text = node_id, parent, role, text
        self.tokens, self.status, self.recalled = tokens, status, list(recalled)


class Conversation:
    counter = itertools.count(1)
    nodes_made = itertools.count(1)

    def __init__(self, title, at, conversation_id=None):
        self.id = conversation_id or f"conv_{next(self.counter):026d}"
        self.title, self.at = title, at
        self.nodes = {}
        self.head = None
        self.pins, self.recalled = [], []
        self.events = []  # of memory, ever growing; streams read from where they began
        self._chain = None

    def add(self, role, text, tokens=None, **more):
        node = Node(f"msg_{next(self.nodes_made):026d}", self.head, role, text,
                    tokens or max(2, len(text) // 4), **more)
        self.nodes[node.id] = node
        self.head = node.id
        self._chain = None
        return node

    def rewind(self, node_id):
        self.head, self._chain = node_id, None

    def newest_under(self, node_id):
        """The last made end of the branch that `node_id` stands in."""
        tip = node_id
        while True:
            children = [node.id for node in self.nodes.values() if node.parent == tip]
            if not children:
                return tip
            tip = children[-1]

    def chain(self):
        """Items as the API gives them, oldest first."""
        if self._chain is None:
            path, at = [], self.head
            while at is not None:
                path.append(self.nodes[at])
                at = self.nodes[at].parent
            siblings = {}
            for node in self.nodes.values():
                siblings.setdefault((node.parent, node.role), []).append(node.id)
            self._chain, start, turn = [], 0, 0
            for node in reversed(path):
                turn += node.role == "user"
                kind = "output_text" if node.role == "assistant" else "input_text"
                self._chain.append({
                    "id": node.id, "type": "message", "role": node.role, "status": node.status,
                    "content": [{"type": kind, "text": node.text}],
                    "mooring": {"turn": turn, "from": start, "to": start + node.tokens,
                                "recalled": node.recalled,
                                "branches": siblings[node.parent, node.role]}})
                start += node.tokens
        return self._chain

    def log_tokens(self):
        chain = self.chain()
        return chain[-1]["mooring"]["to"] if chain else 0

    def memory(self, resolution):
        total = self.log_tokens()
        spans = self.spans(total)
        held = {state: sum(s["to"] - s["from"] for s in spans if s["state"] == state)
                for state in ("anchor", "key", "recalled", "recent", "pinned")}
        return {
            "object": "conversation.memory", "conversation": self.id,
            "turn": self.chain()[-1]["mooring"]["turn"] if total else 0, "log_tokens": total,
            "window": {"capacity": CAPACITY, "anchors": held["anchor"], "key": held["key"],
                       "recalled": held["recalled"], "recent": held["recent"], "pinned": held["pinned"]},
            "archive": {"ram_pages": 9120, "disk_pages": 88210, "bytes": 1288490188},
            "spans": spans[-resolution:],
            "counts": {"evicted": max(0, total - CAPACITY), "recalled": 41210, "rerotated": 0}}

    def spans(self, total):
        """Covers [0, total) in order: what is laid on later covers what was there."""
        laid = [(0, total, "archived", 0.0)]
        if total > 64 * CAPACITY:
            laid.append((ANCHORS, total // 16, "text", 0.0))
        recent = total - (CAPACITY * 3 // 4 if total > CAPACITY else total)
        if total > CAPACITY:
            chance = random.Random(total)
            for at in (int(total - CAPACITY * 1.6 ** i) for i in range(1, 13)):
                if ANCHORS < at < recent:
                    laid.append((at, at + chance.choice((48, 96, 160)), "key", round(chance.uniform(.3, 1), 2)))
        laid.append((recent, total, "recent", 1.0))
        laid += [(r["from"], r["to"], "recalled", 1.0) for r in self.recalled]
        laid += [(start, end, "pinned", 1.0) for start, end in self.pins]
        laid.append((0, min(ANCHORS, total), "anchor", 1.0))
        cuts = sorted({edge for start, end, *_ in laid for edge in (start, min(end, total))})
        spans = []
        for start, end in zip(cuts, cuts[1:]):
            _, _, state, share = next(one for one in reversed(laid) if one[0] <= start and end <= one[1])
            if spans and (spans[-1]["state"], spans[-1]["share"]) == (state, share):
                spans[-1]["to"] = end
            else:
                spans.append({"from": start, "to": end, "state": state, "share": share})
        return spans


def talk(chance, words):
    return (" ".join(chance.choice(WORDS) for _ in range(words)) + ".").capitalize()


def long_talk(title, at, turns, total):
    """A talk of `turns` turns and just `total` tokens."""
    made, chance = Conversation(title, at), random.Random(title)
    made.add("user", "My dog is called Fado. Keep that in mind for me.", 14)
    made.add("assistant", "I will. Fado: a good name for a dog by the harbour.", 15)
    per, spent = total // (2 * turns), 29
    for turn in range(2, turns + 1):
        last = turn == turns
        made.add("user", talk(chance, chance.randint(5, 22)) if not last else
                 "Which knots should I learn first?", per)
        spent += per
        tokens = total - spent if last else per
        made.add("assistant", ANSWER if last else talk(chance, chance.randint(20, 90)), tokens)
        spent += tokens
    return made


@functools.cache
def canned():
    """All conversations, newest first; made once, to be copied."""
    now = int(time.time())
    harbour = long_talk("Harbour notes", now, 812, 1_048_612)
    source = harbour.chain()[0]["mooring"]
    harbour.recalled = [{"from": source["from"] + ANCHORS, "to": source["from"] + ANCHORS + PAGE, "score": 0.31}]
    knots = Conversation("Three knots", now - 4000)
    knots.add("user", "Which knots should I learn first?", 9)
    knots.add("assistant", ANSWER, 190)
    knots.add("user", "And for a heavier boat?", 7)
    knots.add("assistant", "The same three, with thicker rope and a second line ashore.", 16)
    tax = Conversation("Tax letter", now - 90_000)
    tax.add("user", "Help me answer this letter.", 8)
    tax.add("assistant", "Gladly. Paste it here, and say what you want", 12, status="incomplete")
    order = Conversation("Order 4711", now - 200_000)
    order.add("system", "You answer for a ship chandler. Be brief.", 12)
    order.add("user", "Where is my order 4711?", 9)
    order.add("assistant", "It left on Tuesday and is due tomorrow.", 11)
    winter = long_talk("A long winter", now - 400_000, 2500, 390_000)
    hostile = Conversation("Strange mail", now - 900_000)
    hostile.add("user", "<img src=x onerror='window.hacked = 8'> What does this mail say?", 20)
    hostile.add("assistant", HOSTILE, 300)
    table = "| n | square |\n| --- | --- |\n" + "\n".join(f"| {n} | {n * n} |" for n in range(2000))
    hostile.add("user", "Make a huge table, and nest deeply.", 9)
    hostile.add("assistant", table, 9000)
    hostile.add("user", "Deeper.", 4)
    hostile.add("assistant", ">" * 20_000 + " deep", 5000)
    for text in ("*a " * 20_000, "_" * 20_000, "\n".join(" " * depth + "- a" for depth in range(1500))):
        hostile.add("user", "Slower.", 4)
        hostile.add("assistant", text, 5000)
    return [harbour, knots, tax, order, winter, hostile]


def copies():
    """Conversations that a test may change; messages never change and are shared."""
    made = []
    for one in canned():
        one.chain()
        twin = copy.copy(one)
        twin.nodes = dict(one.nodes)
        twin.pins, twin.recalled, twin.events = list(one.pins), list(one.recalled), []
        made.append(twin)
    return made
