"""Talking: answers as they come, what may be done to them, and a server that is not there."""
import json

import mock_data
import mock_server
from mock_server import Fault


def test_streams(page):
    """An answer grows in the log; the status line tells, the rate is measured, nothing is lost."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.mock.token_seconds = 0.02
    page.say("Once more, please.")
    page.wait("document.getElementById('log').ariaBusy === 'true'")
    assert page.text("#send .word") == "Stop"
    assert page.text("#status") == "Answering"
    page.wait("document.querySelector('article.in_progress .body').textContent.includes('knots')")
    page.wait("/^[\\d.]+ tokens\\/s/.test(document.getElementById('rate').textContent)")
    page.done()
    assert page.text("#status") == f"Done, {len(mock_data.ANSWER.split())} words"
    assert page.text("article:last-of-type .body") == page.text("article.assistant .body")
    assert page.text("#send .word") == "Send"
    [body] = page.sent("POST", "/chat/completions")
    assert body["messages"] == [{"role": "user", "content": "Once more, please."}], "only what is new travels"
    assert page.js("[...document.querySelectorAll('article')].every((one) => one.dataset.key)")


def test_first_message(page):
    """A new conversation is made by its first message and has its words as title."""
    page.show()
    page.press("New")
    page.wait("!document.getElementById('empty').hidden")
    page.say("How long is a piece of rope?")
    page.wait("document.querySelectorAll('article').length === 2")
    page.done()
    assert page.text("#title") == "How long is a piece of rope?"
    page.wait("document.querySelector('#talks a').title === 'How long is a piece of rope?'")
    assert page.js("location.hash") == f"#{page.mock.conversations[0].id}"


def test_stop_and_continue(page):
    """Esc ends the answer where it is; Continue goes on."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.mock.token_seconds = 0.02
    page.say("Something long.")
    page.wait("document.querySelector('article.in_progress .body').textContent.includes('word3')")
    page.key("Escape")
    page.done()
    page.wait("document.querySelector('article:last-of-type.incomplete')")
    assert page.sent("POST", "/v1/cancel/chatcmpl-0")
    assert "word399" not in page.text("article:last-of-type .body")
    page.press("Continue", "article:last-of-type")
    page.wait("document.querySelectorAll('article').length === 8")
    page.done()


def test_stop_without_cancel(page):
    """Where the server cannot cancel, closing the line does."""
    page.mock.absent.add("/v1/cancel")
    page.mock.refused_fields.add("background")
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.mock.token_seconds = 0.02
    page.say("Something long.")
    page.wait("document.querySelector('article.in_progress .body').textContent.includes('word3')")
    page.js("document.getElementById('send').click()")
    page.wait("document.getElementById('log').ariaBusy === 'false'")
    page.wait("document.querySelector('article:last-of-type.incomplete')")
    assert "background" not in page.sent("POST", "/chat/completions")[-1]


def test_edit_and_branches(page):
    """An edited message is a branch beside the old one; arrows lead to and fro."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.press("Edit", "article.user:last-of-type, article:nth-of-type(3)")
    page.js("document.getElementById('composer-text').select()")
    page.type("And for a dinghy?")
    page.key("Enter")
    page.wait("document.querySelector('article:nth-of-type(3) .body').textContent === 'And for a dinghy?'")
    page.done()
    page.wait("document.querySelector('.branches span')?.textContent === '2 of 2'")
    page.press("Earlier version")
    page.wait("document.querySelector('article:nth-of-type(3) .body').textContent === 'And for a heavier boat?'")
    assert "second line ashore" in page.text("article:last-of-type .body")
    page.press("Later version")
    page.wait("document.querySelector('article:nth-of-type(3) .body').textContent === 'And for a dinghy?'")


def test_regenerate(page):
    """Another answer to the same message, the old one kept as a branch."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.js("document.activeElement.blur()")
    page.key("r")
    page.wait("document.getElementById('log').ariaBusy === 'true' || document.querySelector('.branches')")
    page.done()
    page.wait("document.querySelector('.branches span')?.textContent === '2 of 2'")
    assert page.count("article") == 4
    assert page.text("article:last-of-type .body").startswith("Three knots are enough")


def test_list(page):
    """Rename, fork, export, delete and import, by the menu and the keyboard."""
    page.show("Three knots")
    page.press("More for Three knots")
    assert page.js("document.activeElement.textContent") == "Rename"
    page.key("Enter")
    page.wait("document.querySelector('dialog input')")
    page.type("Four knots")
    page.key("Enter")
    page.wait("document.getElementById('title').textContent === 'Four knots'")
    assert page.mock.find(page.js("location.hash.slice(1)")).title == "Four knots"
    page.press("More for Four knots")
    page.key("ArrowDown")
    page.key("Enter")
    page.wait("document.getElementById('title').textContent === 'Four knots, fork'")
    page.wait("document.querySelectorAll('article').length === 4")
    before = len(page.mock.conversations)
    page.press("More for Four knots, fork")
    page.press("Delete", ".menu")
    page.wait("document.querySelector('dialog')")
    page.press("Keep", "dialog")
    page.wait("!document.querySelector('dialog')")
    assert len(page.mock.conversations) == before
    page.press("More for Four knots, fork")
    page.press("Delete", ".menu")
    page.wait("document.querySelector('dialog')")
    page.press("Delete", "dialog")
    page.wait("document.getElementById('title').textContent === 'New conversation'")
    assert len(page.mock.conversations) == before - 1
    page.js("""window.saved = null;
      HTMLAnchorElement.prototype.click = function () { saved = this.download; }""")
    page.press("More for Four knots")
    page.press("Export", ".menu")
    page.wait("window.saved === 'Four-knots.moor'")
    give_file(page, "import-file", {"title": "Brought along", "items": []})
    page.wait("document.getElementById('title').textContent === 'Brought along'")
    give_file(page, "import-file", None)
    page.wait("document.getElementById('banner').textContent.includes('no conversation file')")


def give_file(page, field, value):
    page.js(f"""(() => {{
      const files = new DataTransfer();
      files.items.add(new File([{json.dumps(json.dumps(value)[:-1] + ('}' if value else ''))}], 'talk.moor'));
      const field = document.getElementById({json.dumps(field)});
      field.files = files.files;
      field.dispatchEvent(new Event('change'));
    }})()""")


def test_drafts_and_files(page):
    """What is written stays with its conversation over a reload; a dropped text file is read in."""
    page.show("Three knots")
    page.js("document.getElementById('composer-text').focus()")
    page.type("half a thought")
    page.show("Tax letter")
    assert page.js("document.getElementById('composer-text').value") == ""
    drop(page, "letter.txt", "'Dear office, '")
    page.wait("document.getElementById('composer-text').value === 'letter.txt:\\n\\nDear office, '")
    drop(page, "picture.png", "new Uint8Array([0x89, 0x50, 0xff, 0])")
    page.wait("document.getElementById('banner').textContent.includes('picture.png is not a text file')")
    page.show("Three knots")
    assert page.js("document.getElementById('composer-text').value") == "half a thought"
    page.js("localStorage.clear()")


def drop(page, name, content):
    page.js(f"""(() => {{
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([{content}], {json.dumps(name)}));
      document.body.dispatchEvent(new DragEvent('drop', {{dataTransfer, bubbles: true, cancelable: true}}));
    }})()""")


def test_reload_in_mid_answer(page):
    """A reload takes the answer up again from the buffer; the whole text is there once."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.mock.token_seconds = 0.02
    page.say("Something long.")
    page.wait("document.querySelector('article.in_progress .body').textContent.includes('word20')")
    page.call("Page.reload")
    page.wait("document.querySelector('article.in_progress .body')?.textContent.includes('word60')")
    page.mock.token_seconds = 0
    page.wait("document.querySelector('article:last-of-type .body').textContent.includes('word399')")
    page.done()
    assert page.text("article:last-of-type .body").strip() == mock_server.LONG


def test_broken_line(page):
    """A connection that breaks in the middle is taken up where it broke."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.mock.cut_after = 40
    page.say("Something long.")
    page.wait("document.querySelector('article:last-of-type .body').textContent.includes('word399')")
    page.done()
    assert page.text("article:last-of-type .body").strip() == mock_server.LONG
    assert page.sent("GET", "/v1/streams/chatcmpl-0")


def test_offline(page):
    """No server: a banner, nothing lost, and all well when it is back."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.mock.away = True
    page.say("Are you there?")
    page.wait("!document.getElementById('banner').hidden")
    assert "does not answer" in page.text("#banner")
    page.wait("document.getElementById('composer-text').value === 'Are you there?'")
    page.mock.away = False
    page.press("Try now")
    page.wait("document.getElementById('banner').hidden")
    page.wait("document.querySelectorAll('article').length === 4")
    page.js("document.getElementById('composer-text').focus()")
    page.key("Enter")
    page.wait("document.querySelectorAll('article').length === 6")
    page.done()


def test_busy_and_refused(page):
    """A full server is waited for; a refusal is said in its own words, and the message comes back."""
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.mock.faults.append(Fault(503, "queue_full", "The queue is full.", retry_after=1))
    page.say("Later will do.")
    page.wait("document.getElementById('rate').textContent === 'waiting for a place'")
    page.wait("document.querySelectorAll('article').length === 6")
    page.done()
    page.mock.faults.append(Fault(400, "template_error", "The template refused this message."))
    page.say("Not like this.")
    page.wait("document.getElementById('banner').textContent.includes('The template refused this message.')")
    page.wait("document.getElementById('composer-text').value === 'Not like this.'")
    page.wait("document.querySelectorAll('article').length === 6")
    page.js("localStorage.clear()")


def test_key(page):
    """A server with a key asks for it once, and says when it is wrong; none is left in the page."""
    page.mock.key = "deep-water"
    page.show(ready="document.querySelector('dialog input[type=password]')")
    page.type("shallow")
    page.key("Enter")
    page.wait("document.querySelector('dialog')?.textContent.includes('did not take this key')")
    page.type("deep-water")
    page.key("Enter")
    page.wait("document.querySelectorAll('article').length > 0")
    assert page.count("dialog") == 0
    assert page.js("JSON.stringify({...sessionStorage, ...localStorage})").find("deep-water") < 0
    assert "deep-water" not in page.js("location.href")


def test_panel(page):
    """Model, instructions and sampling reach the next request; empty fields are not sent."""
    page.show("Order 4711", ready="document.querySelectorAll('article').length === 3")
    page.press("smollm2-135m-instruct")
    page.wait("document.querySelector('dialog textarea')")
    assert page.js("document.querySelector('dialog textarea').value") == "You answer for a ship chandler. Be brief."
    assert page.js("document.querySelector('dialog input').placeholder") == "0.7"
    page.js("""(() => {
      document.querySelector('dialog select').value = 'another-model';
      document.querySelector('dialog textarea').value = 'Be long.';
      document.querySelector('dialog input').value = '0.2';
    })()""")
    page.press("Use", "dialog")
    page.say("And now?")
    page.wait("document.querySelectorAll('article').length === 6")
    page.done()
    body = page.sent("POST", "/chat/completions")[-1]
    assert body["model"] == "another-model" and body["temperature"] == 0.2 and "top_p" not in body
    assert body["messages"][0] == {"role": "system", "content": "Be long."}
    page.say("And then?")
    page.wait("document.querySelectorAll('article').length === 8")
    page.done()
    assert [one["role"] for one in page.sent("POST", "/chat/completions")[-1]["messages"]] == ["user"]
    page.js("localStorage.clear()")


def test_absent_routes(page):
    """What the server does not have yet is not offered, and the rest works."""
    page.mock.absent.update(("/fork", "/rewind", "/pin", "/export", "/memory", "/v1/streams", "/v1/cancel", "/props"))
    page.mock.refused_fields.add("background")
    page.show("Three knots", ready="document.querySelectorAll('article').length === 4")
    page.wait("!document.querySelector('.actions').textContent.includes('Fork')")
    offered = set(page.buttons("article"))
    assert "Copy" in offered and not offered & {"Edit", "Again", "Fork here", "Pin"}, offered
    page.press("More for Three knots")
    assert page.js("[...document.querySelectorAll('.menu button')].map((one) => one.textContent)") == ["Rename", "Delete"]
    assert page.js("document.getElementById('memory').hidden")
    assert page.text("#numbers") == ""
    page.say("Still here?")
    page.wait("document.querySelectorAll('article').length === 6")
    page.done()
    assert page.js("document.getElementById('banner').hidden")
