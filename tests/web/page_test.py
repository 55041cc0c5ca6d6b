#!/usr/bin/env python3
"""Drives the page in a headless Chromium against the mock server, under the content policy.

Usage: page_test.py [--only WORD] [--pictures FOLDER]
Every case has its own server and a fresh page; afterwards it must have broken no policy, logged no
error and asked no other origin. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import json
import sys
import threading
import time
import traceback

import browser
import cases_memory
import cases_talk
import cases_view
import mock_server


class Page(browser.Browser):
    """The browser with a server behind it, and the words that the cases are written in."""

    def serve(self):
        self.mock = mock_server.Mock()
        self.server = mock_server.serve(self.mock)
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        for kept in (self.console, self.requests, self.violations):
            kept.clear()
        self.size(1280, 800)
        self.media(prefers_color_scheme="light")
        self.call("Network.clearBrowserCookies")

    def end(self):
        self.mock.closing = True
        self.call("Page.navigate", url="about:blank")
        self.server.shutdown()
        self.server.server_close()

    def show(self, title=None, ready="document.querySelectorAll('article').length > 0"):
        """Opens the page at a conversation of that title, the newest if none."""
        address = self.base
        if title:
            address += "#" + next(one.id for one in self.mock.conversations if one.title == title)
        self.open(address)
        if title:
            self.wait(f"document.getElementById('title').textContent === {json.dumps(title)}", f"{title} opens")
        self.wait(ready, "the page is ready")

    def say(self, text):
        self.js("document.getElementById('composer-text').focus()")
        self.type(text)
        self.key("Enter")

    def done(self):
        """Until the answer is whole and read back from the server."""
        self.wait("document.getElementById('log').ariaBusy === 'false' && "
                  "!document.querySelector('article.in_progress') && "
                  "!document.querySelector('[data-key]:last-of-type.in_progress')", "the answer is done")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.textContent ?? null")

    def count(self, selector):
        return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")

    def press(self, label, within="body"):
        """Clicks the button that has this text or label."""
        self.js(f"""(() => {{
          const all = [...document.querySelectorAll({json.dumps(within)} + ' :is(button, a)')];
          const found = all.findLast((one) => (one.ariaLabel ?? one.textContent.trim()) === {json.dumps(label)});
          if (!found) throw new Error('no button ' + {json.dumps(label)});
          found.click();
        }})()""")

    def buttons(self, within="body"):
        return self.js(f"""[...document.querySelectorAll({json.dumps(within)} + ' button')]
          .filter((one) => one.offsetParent).map((one) => one.ariaLabel ?? one.textContent.trim())""")

    def sent(self, method, ending):
        """Bodies of the requests whose path ends so."""
        return [json.loads(raw or b"null") for verb, path, raw in self.mock.requests
                if verb == method and path.endswith(ending)]


def check_quiet(page):
    """What holds after every case."""
    assert not page.violations, f"policy: {page.violations}"
    assert not page.console, f"console: {page.console}"
    foreign = [url for url in page.requests
               if not url.startswith((page.base, "data:", "blob:", "about:"))]
    assert not foreign, f"other origins: {foreign}"


def run(page, case):
    page.serve()
    try:
        case(page)
        check_quiet(page)
    finally:
        page.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--pictures", help="folder to put screenshots in")
    options = parser.parse_args()
    cases = [case for module in (cases_view, cases_talk, cases_memory)
             for name, case in vars(module).items()
             if name.startswith("test_") and options.only in name]
    missing = [str(path) for path in mock_server.LIBRARIES.values() if not path.is_file()]
    if browser.find() is None:
        missing.append(" or ".join(browser.NAMES))
    if missing:
        print("skipped, for want of: " + ", ".join(missing))
        print(f"0 passed, 0 failed, {len(cases)} skipped")
        return 0

    passed = failed = 0
    page = Page()
    page.pictures = options.pictures
    try:
        for case in cases:
            begun = time.monotonic()
            try:
                run(page, case)
                passed += 1
                print(f"ok      {case.__name__[5:]} ({time.monotonic() - begun:.1f} s)", flush=True)
            except Exception:  # one fault must not hide the others
                failed += 1
                print(f"FAILED  {case.__name__[5:]}: {case.__doc__}", flush=True)
                traceback.print_exc(file=sys.stdout)
                print(*page.console, *page.violations, sep="\n")
    finally:
        page.close()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
