"""How the page looks, reads and answers to keys."""
import os

import mock_server

NAMED_ROLES = {"button", "link", "textbox", "searchbox", "combobox", "spinbutton", "checkbox", "slider",
               "menuitem", "dialog", "log", "navigation", "complementary", "region", "article"}
LONGEST_PAGE_BYTES = 200 * 1024

CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const probe = document.createElement('span');
  document.body.append(probe);
  const value = (name) => {
    probe.style.color = `var(--${name})`;
    return light(getComputedStyle(probe).color);
  };
  const ratios = [];
  for (const ground of ['paper', 'side', 'raised']) {
    for (const name of ['ink', 'quiet', 'anchor', 'recent', 'key', 'recalled', 'pinned', 'archived', 'danger']) {
      const [a, b] = [value(name), value(ground)].sort((x, y) => y - x);
      ratios.push([name, ground, (a + 0.05) / (b + 0.05)]);
    }
  }
  probe.remove();
  return ratios;
})()"""

OVERFLOW = "document.scrollingElement.scrollWidth - innerWidth"


def test_opens_the_newest(page):
    """The newest conversation is there without a click, with its numbers in a sentence."""
    page.show()
    assert page.text("#title") == "Harbour notes"
    memory = page.mock.conversations[0].memory(2048)
    held = sum(memory["window"][part] for part in ("anchors", "key", "recalled", "recent", "pinned"))
    expected = (f"Remembers {held:,} of 1,048,612 tokens; "
                f"{memory['window']['recalled']:,} came back for this answer.")
    page.wait(f"document.getElementById('numbers').textContent === {expected!r}", expected)
    assert page.count("#talks a") == len(page.mock.conversations)
    picture(page, "page-light")


def test_dark(page):
    """Dark follows the system, and the switch overrules it."""
    page.media(prefers_color_scheme="dark")
    page.show()
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.js(ground)
    picture(page, "page-dark")
    page.js("document.getElementById('theme').click()")
    assert page.text("#theme") == "Light"
    light = page.js(ground)
    assert light != dark
    page.media(prefers_color_scheme="light")
    assert page.js(ground) == light
    page.js("document.getElementById('theme').click()")
    assert page.js(ground) == dark
    page.show()
    assert page.js(ground) == dark, "the choice outlives a reload"
    page.js("localStorage.clear()")


def test_contrast(page):
    """Every colour that text has is at least 4.5 to 1 on every ground, by day and by night."""
    page.show()
    for scheme in ("light", "dark"):
        page.media(prefers_color_scheme=scheme)
        ratios = page.js(CONTRAST)
        assert len(ratios) == 27
        weak = [one for one in ratios if one[2] < 4.5]
        assert not weak, f"{scheme}: {weak}"


def test_phone(page):
    """A narrow screen shows the talk and the strip, the list as a drawer; Enter breaks the line."""
    page.size(390, 800, scale=2, touch=True)
    page.show("Three knots")
    assert page.js(OVERFLOW) <= 0
    assert page.js("document.getElementById('sidebar').getBoundingClientRect().right") <= 0
    picture(page, "page-phone")
    page.press("Conversations")
    page.wait("document.getElementById('sidebar').getBoundingClientRect().left === 0")
    page.js("document.querySelector('#talks li:nth-child(3) a').click()")
    page.wait("document.getElementById('title').textContent === 'Tax letter'")
    page.wait("document.getElementById('sidebar').getBoundingClientRect().right <= 0")
    page.js("document.getElementById('composer-text').focus()")
    page.type("one")
    page.key("Enter")
    page.type("two")
    assert page.js("document.getElementById('composer-text').value") == "one\ntwo"


def test_zoomed(page):
    """Twice as large (half as many CSS pixels) and down to 320 nothing is cut off."""
    for width in (640, 320):
        page.size(width, 400)
        page.show("Three knots")
        assert page.js(OVERFLOW) <= 0, width
        assert page.js("document.getElementById('send').getBoundingClientRect().right <= innerWidth")


def test_keys(page):
    """The whole way without a mouse: list, talk, messages, strip, help."""
    page.show("Three knots")
    page.js("document.activeElement.blur()")
    page.key("/")
    assert page.js("document.activeElement.id") == "search"
    page.type("order")
    page.wait("document.querySelectorAll('#talks a').length === 1")
    page.key("ArrowDown")
    page.key("Enter")
    page.wait("document.getElementById('title').textContent === 'Order 4711'")
    page.wait("document.querySelectorAll('article').length === 3")
    page.js("document.activeElement.blur()")
    roles = []
    for key in "jkkjj":
        page.key(key)
        roles.append(page.js("document.activeElement.className.split(' ')[1]"))
    assert roles == ["assistant", "user", "system", "user", "assistant"], roles
    page.key("k")
    page.key("e")
    assert page.js("document.getElementById('composer-text').value") == "Where is my order 4711?"
    page.key("Escape")
    assert page.js("document.getElementById('composer-text').value") == ""
    page.js("document.activeElement.blur()")
    page.key("m")
    assert page.js("document.activeElement.id") == "strip"
    page.js("document.activeElement.blur()")
    page.key("?")
    page.wait("document.querySelector('dialog[open] .keys')")
    page.key("Escape")
    page.wait("!document.querySelector('dialog')")
    page.key("n")
    page.wait("document.getElementById('title').textContent === 'New conversation'")
    assert page.js("document.activeElement.id") == "composer-text"


def test_tab_order(page):
    """Tab reaches every part, and the focus can be seen."""
    page.show("Three knots")
    page.js("document.activeElement.blur()")
    reached = set()
    for _ in range(70):
        page.key("Tab")
        reached.add(page.js("document.activeElement.id || document.activeElement.className"))
        assert page.js("(() => { const style = getComputedStyle(document.activeElement);"
                       "return document.activeElement === document.body || style.outlineStyle !== 'none' ||"
                       "document.activeElement.id === 'composer-text'; })()"), "focus is seen"
    assert {"new", "search", "open-panel", "composer-text", "send", "strip", "open-table"} <= reached, reached


def test_tree(page):
    """Everything that acts has a role and a name; nothing has a role without a name."""
    page.show()
    page.wait("!document.getElementById('memory').hidden")
    nodes = page.tree()
    roles = {role for role, _, _ in nodes}
    assert {"log", "slider", "navigation", "main", "complementary", "status", "article", "heading"} <= roles, roles
    nameless = [(role, properties) for role, name, properties in nodes if role in NAMED_ROLES and not name.strip()]
    assert not nameless, nameless
    spoken = page.js("document.getElementById('strip').getAttribute('aria-valuetext')")
    assert spoken.startswith("Remembers "), spoken
    names = [name for role, name, _ in nodes if role == "article"]
    assert any(name.startswith("You, turn 812") and "recent" in name for name in names), names
    page.js("document.getElementById('open-table').click()")
    assert any(role == "table" for role, _, _ in page.tree())
    page.js("document.querySelector('dialog').close()")
    page.js("document.getElementById('open-panel').click()")
    nameless = [(role, properties) for role, name, properties in page.tree()
                if role in NAMED_ROLES and not name.strip()]
    assert not nameless, nameless


def test_hostile_text(page):
    """What a model or a person writes is shown, never run, and loads nothing."""
    page.show("Strange mail")
    page.js("document.getElementById('scroller').scrollTop = 0")
    page.wait("document.querySelector('article.assistant a')")
    assert page.js("window.hacked ?? null") is None
    log = page.js("document.getElementById('log').textContent")
    for shown in ("<script>window.hacked = 1</script>", "onerror=\"window.hacked = 2\"", "<iframe src=", "<svg>"):
        assert shown in log, shown
    assert page.count("#log :is(script, iframe, img, style, svg, form, input, object, embed, audio, video)") == 0
    attributes = page.js("""[...document.querySelectorAll('#log .body *')].flatMap((one) => [...one.attributes])
        .map((one) => one.name)""")
    assert not [name for name in attributes if name.startswith("on") or name in ("style", "id", "ping", "srcset")]
    links = page.js("[...document.querySelectorAll('#log .body a')].map((one) => [one.href, one.rel, one.target])")
    assert ["https://example.org/page", "noopener noreferrer nofollow", "_blank"] in links, links
    assert all(href.startswith(("https://", "mailto:")) for href, _, _ in links), links
    assert any(href.startswith("https://tracker.example/pixel") for href, _, _ in links), "a picture is a link"


def test_hostile_size(page):
    """A table of 2,000 rows shows some until asked; what a parser would choke on stays text."""
    page.show("Strange mail")
    for start in ("  - a", "___", "*a *a", ">>>"):
        page.js("document.activeElement.blur()")
        page.key("k") if start != "  - a" else page.key("j")
        if start != "  - a":
            page.key("k")
        page.wait("document.activeElement.matches('article.assistant')")
        shown = page.js("document.activeElement.querySelector('.body > .as-written')?.textContent ?? ''")
        assert start in shown, (start, shown[:60])
    page.js("document.getElementById('scroller').scrollTop = 0")
    page.wait("document.querySelector('article .table')")
    assert page.count("article tbody tr") == 100
    page.press("Show all 2,000 rows")
    page.wait("document.querySelectorAll('article tbody tr').length === 2000")


def test_markdown(page):
    """Lists, code with its language and a copy button, tables, quotes."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    answer = "article.assistant .body"
    assert page.count(f"{answer} ol li") == 3
    assert page.text(f"{answer} .code-bar span") == "python"
    assert "Copy code" in page.buttons(".code")
    assert page.count(f"{answer} tbody tr") == 2
    assert page.count(f"{answer} blockquote") == 1


def test_size(page):
    """All that the page loads, libraries and all, is under 200 KB, and all of it is used."""
    page.show()
    loaded = {url.removeprefix(page.base).split("#")[0] for url in page.requests if url.startswith(page.base)}
    files = [file for file in mock_server.WEB.iterdir() if file.name != "index.html"]
    unused = [file.name for file in files if f"assets/{file.name}" not in loaded]
    assert not unused, unused
    size = sum(file.stat().st_size for file in [*mock_server.WEB.iterdir(), *mock_server.LIBRARIES.values()])
    assert size < LONGEST_PAGE_BYTES, size


def picture(page, name):
    if page.pictures:
        page.js("document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))")
        page.screenshot(os.path.join(page.pictures, f"{name}.png"))
