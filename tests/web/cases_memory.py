"""The memory strip and its equals, recall, and conversations without end."""
from cases_view import picture

MANY_ARTICLES = 40
MANY_NODES = 1500

# Colours at the middle of each span that is high enough, read from the canvas; and what the pattern
# of its state may be made of. Widths follow the share, so the column is read at the right edge.
PIXELS = """(async () => {
  const {layOut} = await import('/assets/memory.js');
  const memory = await (await fetch(`/v1/conversations/${location.hash.slice(1)}/memory?resolution=2048`)).json();
  const strip = document.getElementById('strip');
  const canvas = document.getElementById('tideline');
  const context = canvas.getContext('2d');
  const probe = document.createElement('span');
  strip.append(probe);
  const found = {};
  for (const {span, top, bottom} of layOut(memory, strip.clientHeight)) {
    if (bottom - top < 8) continue;
    probe.className = `mark-${span.state}`;
    const wanted = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).map(Number);
    const {data} = context.getImageData(0, Math.ceil(top) + 1, canvas.width, Math.floor(bottom - top) - 2);
    let inked = 0;
    let other = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] < 250) continue;
      if (wanted.every((value, i) => Math.abs(value - data[at + i]) < 12)) inked += 1;
      else other += 1;
    }
    found[span.state] ??= [];
    found[span.state].push([inked / (data.length / 4), other / (data.length / 4)]);
  }
  probe.remove();
  return found;
})()"""

# The share of a tile that the pattern of a state inks.
INKED = {"recent": (0.99, 1.0), "archived": (0.01, 0.1), "pinned": (0.6, 0.9)}


def test_table_equals_view(page):
    """The table has just the spans of the memory view, in order, in words."""
    page.show()
    page.js("document.activeElement.blur()")
    page.wait("!document.getElementById('memory').hidden")
    page.press("Table")
    rows = page.js("""[...document.querySelectorAll('dialog tbody tr')].map((row) =>
      [...row.cells].slice(0, 5).map((cell) => cell.textContent))""")
    words = {"anchor": "⚓︎ anchor", "recalled": "◆ recalled", "key": "✦ key", "recent": "● recent",
             "archived": "○ archived", "text": "· text only"}
    expected = [[f"{s['from']:,}", f"{s['to']:,}", f"{s['to'] - s['from']:,}", words[s["state"]],
                 f"{int(s['share'] * 100 + .5)} %"] for s in page.mock.conversations[0].memory(2048)["spans"]]
    assert rows == expected, (rows[:3], expected[:3])
    picture(page, "memory-table")


def test_strip_equals_view(page):
    """Where the view has a span the strip has its colour and pattern, and no other."""
    page.mock.conversations[0].pins = [(1_046_000, 1_047_500)]
    page.show("Harbour notes")
    page.wait("!document.getElementById('memory').hidden")
    page.js("document.activeElement.blur()")
    found = page.js(PIXELS)
    assert set(found) == set(INKED), found
    for state, (least, most) in INKED.items():
        for inked, other in found[state]:
            covered = state == "archived"  # thin spans in view lie on top of these
            assert least <= inked <= most and other <= (0.2 if covered else 0.0), (state, inked, other)


def test_strip_by_keyboard(page):
    """Arrows go from span to span and say what is there; Enter goes to the place."""
    page.show()
    page.wait("!document.getElementById('memory').hidden")
    spans = page.mock.conversations[0].memory(2048)["spans"]
    page.js("document.activeElement.blur()")
    page.key("m")
    value = "document.getElementById('strip').getAttribute('aria-value{}')"
    assert page.js(value.format("now")) == str(spans[-1]["from"])
    page.key("Home")
    assert page.js(value.format("now")) == "0"
    assert page.js(value.format("text")).startswith("anchor, tokens 0 to 16")
    assert not page.js("document.getElementById('lens').hidden")
    page.key("ArrowDown")
    assert page.js(value.format("now")) == str(spans[1]["from"])
    assert page.js(value.format("text")).startswith("recalled, ")
    page.key("End")
    page.key("ArrowUp")
    assert page.js(value.format("now")) == str(spans[-2]["from"])
    page.key("Home")
    page.key("Enter")
    page.wait("document.activeElement.matches('article') && document.activeElement.textContent.includes('Fado')")
    assert page.count("article") < MANY_ARTICLES
    assert not page.js("document.activeElement.getBoundingClientRect().top < 0")
    picture(page, "page-anchor")


def test_strip_by_mouse(page):
    """Hovering shows the lens with the text of that place; leaving hides it."""
    page.show()
    page.wait("!document.getElementById('memory').hidden")
    box = page.js("(({left, top, width, height}) => [left, top, width, height])"
                  "(document.getElementById('strip').getBoundingClientRect())")
    page.mouse(box[0] + box[2] / 2, box[1] + box[3] - 6)
    page.wait("!document.getElementById('lens').hidden")
    assert "recent" in page.text("#lens .lens-state")
    assert page.text("#lens .lens-text").startswith("Mooring: Three knots are enough")
    picture(page, "lens")
    page.mouse(box[0] - 400, box[1] + 100)
    page.wait("document.getElementById('lens').hidden")


def test_recall(page):
    """A recall glides once and leaves a chip that leads to its source; not with reduced motion."""
    page.show("Harbour notes")
    page.wait("!document.getElementById('memory').hidden")
    count = """new MutationObserver((all) => {
      for (const {addedNodes} of all) for (const node of addedNodes) window.glides += node.className === 'glide';
    }).observe(document.getElementById('strip'), {childList: true}); window.glides = 0"""
    page.js(count)
    page.say("What was my dog called?")
    page.done()
    page.wait("document.querySelector('article:last-of-type .chip')")
    assert page.text("article:last-of-type .chip") == "◆ remembered from turn 1"
    page.wait("window.glides === 1")
    page.wait("!document.querySelector('.glide')")
    page.press(page.text("article:last-of-type .chip"))
    page.wait("document.activeElement.matches('article') && document.activeElement.textContent.includes('Fado')")
    page.js("document.getElementById('scroller').scrollTop = 1e9")
    page.wait("document.querySelector('article:last-of-type .chip')?.textContent === '◆ remembered from turn 1'")
    page.media(prefers_reduced_motion="reduce")
    page.say("And my dog again?")
    page.wait("document.querySelectorAll('.chip').length === 2")
    assert page.js("window.glides") == 1


def test_states_in_the_text(page):
    """Messages carry the state of their tokens as class and word; what is out of view stays readable."""
    page.show()
    page.wait("document.querySelector('article.state-recent')")
    page.js("document.activeElement.blur()")
    page.key("m")
    page.key("Home")
    page.key("Enter")
    page.wait("document.querySelector('article.state-anchor')")
    page.wait("document.querySelector('article.state-recalled')")
    page.wait("document.querySelector('article.state-text')")
    assert page.js("getComputedStyle(document.querySelector('.state-text .body')).textDecorationStyle") == "dotted"
    assert "text only" in page.text("article.state-text .who")


def test_pin(page):
    """Pinning a message pins its tokens; the same key lets go."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.js("document.activeElement.blur()")
    page.key("j")
    page.key("k")
    page.key("p")
    page.wait("document.querySelector('article.state-pinned')")
    [body] = [one for one in page.sent("POST", "/pin") if one]
    own = page.mock.find(page.js("location.hash.slice(1)")).chain()[2]["mooring"]
    assert (body["from"], body["to"], body["pinned"]) == (own["from"], own["to"], True)
    page.key("p")
    page.wait("!document.querySelector('article.state-pinned')")


def test_changes_elsewhere(page):
    """What another device says appears here without a reload."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    conversation = page.mock.find(page.js("location.hash.slice(1)"))
    while not any(path.endswith("/memory/events") for _, path, _ in page.mock.requests):
        page.wait("true")
    conversation.add("user", "Said from the phone.")
    conversation.add("assistant", "Heard on the desk.")
    conversation.events.append(("change", {"turn": 3}))
    conversation.events.append(("change", {"turn": 3}))
    page.wait("document.querySelectorAll('article').length === 6")
    assert page.text("article:last-of-type .body").strip() == "Heard on the desk."


def test_five_thousand(page):
    """5,000 messages: few are read, few are in the tree, wherever one goes; nothing jumps."""
    page.show("A long winter")
    page.wait("document.querySelectorAll('article').length > 3")
    assert len([1 for _, path, _ in page.mock.requests if path.endswith("/items")]) == 1
    assert page.count("article") < MANY_ARTICLES
    assert page.count("*") < MANY_NODES
    # Older pages come in above while one looks: what is looked at stays where it is.
    page.js("""(() => {
      const scroller = document.getElementById('scroller');
      scroller.scrollTop = 1500;
      scroller.dispatchEvent(new Event('scroll'));
    })()""")
    page.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    look = """(() => {
      const edge = document.getElementById('scroller').getBoundingClientRect().top;
      const one = [...document.querySelectorAll('article')].find((article) => article.getBoundingClientRect().bottom > edge);
      return [one.dataset.key, Math.round(one.getBoundingClientRect().top)];
    })()"""
    before = page.js(look)
    page.wait("document.getElementById('scroller').scrollTop > 3000")
    after = page.js(look)
    assert before[0] == after[0] and abs(before[1] - after[1]) <= 2, (before, after)
    page.js("document.activeElement.blur()")
    page.key("m")
    page.key("Home")
    page.key("Enter")
    page.wait("document.activeElement.matches('article') && document.activeElement.textContent.includes('Keep that in mind')")
    assert page.count("article") < MANY_ARTICLES
    assert page.count("*") < MANY_NODES
    assert page.js("document.activeElement.querySelector('.turn').textContent") == "1"
    page.press("↓ Newest")
    page.wait("document.querySelector('article:last-of-type .turn').textContent === '2,500'")
