"""The pages in a real browser: what runs in them, live figures, keyboards, narrow screens, dark and light."""

import re
import shutil
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.page.conftest import ATTACK
from tests.page.test_pages import PAGES
from tests.service.world import Daemon

api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


class Tab:
    """A page, with everything that its console and its requests say."""

    def __init__(self, browser: Any, client: httpx.Client, **options: Any) -> None:
        self.base = str(client.base_url).rstrip("/")
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda said: self.said.append(said.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def __enter__(self) -> "Tab":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def show(self, path: str) -> Any:
        self.page.goto(self.base + path, wait_until="load")
        return self.page


CUT = """() => [...document.querySelectorAll('main .scroll')]
    .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.ariaLabel || box.innerText)"""


@pytest.mark.slow
def test_hostile_text_runs_no_script_and_fits_the_page(browser: Any, client: httpx.Client) -> None:
    """Tables are cards on a phone."""
    with Tab(browser, client) as tab:
        for path in PAGES:
            page = tab.show(path)
            for width in (360, 390, 1280):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("[innerWidth, document.documentElement.clientWidth]") == [width] * 2
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
                assert width != 390 or page.evaluate(CUT) == [], path
            assert page.evaluate("document.querySelectorAll('img').length") == 1, path
        page.set_viewport_size({"width": 390, "height": 800})
        label = "getComputedStyle(document.querySelector('#live-sources td'), '::before').content"
        assert tab.show("/").evaluate(label) == '"Indexed"'
        assert all(url.startswith(tab.base) for url in tab.asked)
        assert [said for said in tab.said if "status of 4" not in said] == []


# test_events.py has what a listener is sent; a button is pressed in a browser by the default tests, too
@pytest.mark.slow
def test_figures_are_updated_on_the_open_page(browser: Any, client: httpx.Client, daemon: Daemon) -> None:
    with Tab(browser, client) as tab:
        page = tab.show("/")
        api.expect(page.locator("#live-state")).to_have_text("live")
        with daemon.journal.transaction() as db:
            db.execute("UPDATE documents SET reason = 'the disk <b>burns' WHERE document_id = 'late'")
        try:
            failures = page.locator("#live-failures")
            api.expect(failures).to_contain_text("the disk <b>burns", timeout=60_000)
        finally:
            with daemon.journal.transaction() as db:
                db.execute("UPDATE documents SET reason = 'the server is away' WHERE document_id = 'late'")
        page.get_by_role("button", name="Retry all").focus()
        page.wait_for_timeout(3000)
        assert page.evaluate("document.activeElement.textContent") == "Retry all", "the focus stays"
        assert tab.said == []


@pytest.mark.slow
def test_page_works_without_scripts(browser: Any, client: httpx.Client) -> None:
    with Tab(browser, client, java_script_enabled=False) as tab:
        page = tab.show("/page/documents")
        page.get_by_label("Name contains").fill("long")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="The long").click()
        assert page.get_by_role("listitem").count() == 200
        page.get_by_role("link", name="Next chunks").first.click()
        assert "Chunk number 200 of the long one" in page.content()
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Search").click()
        page.get_by_label("Question").fill("blocked card")
        page.keyboard.press("Enter")
        api.expect(page.get_by_role("heading", level=2)).to_have_count(3)
        assert page.locator("mark").count() > 0
        page.get_by_role("link", name=re.compile("alert")).first.click()
        assert page.get_by_role("heading", level=1).inner_text().startswith(ATTACK[:25])


FOCUSED = "document.activeElement.textContent.trim() || document.activeElement.name"


@pytest.mark.slow
def test_page_is_usable_by_keyboard(browser: Any, client: httpx.Client) -> None:
    with Tab(browser, client) as tab:
        page = tab.show("/page/documents")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        assert page.locator(".skip").bounding_box()["x"] >= 0, "the link is seen when it has the focus"
        seen = []
        for _ in range(11):
            page.keyboard.press("Tab")
            seen.append(page.evaluate(FOCUSED))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", seen
        assert seen[:5] == ["ingestor", "Overview", "Documents", "Search", "Changes"]
        assert {"match", "bad.pdf"} <= set(seen)
        tab.show("/page/documents").keyboard.press("/")
        assert page.evaluate("document.activeElement.name") == "match"
        page.keyboard.type("a/b")
        assert page.evaluate("document.activeElement.value") == "a/b"
        tab.show("/page/changes").keyboard.press("/")
        page.wait_for_url("**/page/search")
        assert page.evaluate("document.activeElement.name") == "q"
        assert tab.said == []


CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
      .map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const element of document.querySelectorAll("main *, header *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("title, .unseen, svg")) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const name = `${element.tagName}.${element.className}`;
    if (ratio < 4.5) found.push(`${name}: ${ratio.toFixed(2)} ${element.textContent.trim().slice(0, 30)}`);
  }
  return found;
}"""


@pytest.mark.slow
def test_every_text_stands_out_from_what_is_behind_it(browser: Any, client: httpx.Client) -> None:
    with Tab(browser, client) as tab:
        for path in ("", "documents", "documents/evil", "search?q=blocked+card", "changes"):
            page, grounds = tab.show(f"/page/{path}" if path else "/"), set()
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                assert page.evaluate(CONTRAST) == [], (path, scheme)
            assert len(grounds) == 2


def test_button_is_pressed(browser: Any, client: httpx.Client) -> None:
    with Tab(browser, client) as tab:
        page = tab.show("/page/changes")
        page.get_by_role("button", name="Pause: docs").click()
        assert page.locator(".done").inner_text() == "docs is paused."
        page.get_by_role("button", name="Resume: docs").click()
        assert page.locator(".done").inner_text() == "docs is resumed."


def test_another_site_can_press_no_button_and_show_no_page_in_a_frame(
    browser: Any, client: httpx.Client, daemon: Daemon
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused, Tab(browser, client) as tab:
        other = f"http://localhost:{unused.getsockname()[1]}/"
        html = f"""<form method=post action="{tab.base}/page/pause"><input name=source value=docs></form>
                   <iframe src="{tab.base}/"></iframe>"""
        tab.page.route(other, lambda route: route.fulfill(body=html, content_type="text/html"))
        tab.page.goto(other)
        tab.page.wait_for_timeout(500)
        assert all("Sources" not in frame.content() for frame in tab.page.frames)
        with tab.page.expect_navigation() as sent:
            tab.page.evaluate("document.forms[0].submit()")
        assert sent.value.status == 403
        assert daemon.journal.select("SELECT paused FROM sources") == [(None,)]
