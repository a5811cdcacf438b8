"""Feeds that are made to take for ever: the process that reads them ends, and this one goes on."""

import ctypes
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ingestor.confinement import python_child
from ingestor.connectors.web import feed
from ingestor.connectors.web.feed_entries import NoFeed, entries
from ingestor.connectors.web.sitemap import sitemap
from tests.bad_parser import HARM

URL = "https://x.test/feed"
ITEM = "<rss version='2.0'><channel><item>{}</item></channel></rss>"
ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'><entry>{}"
SLOW = {  # feedparser needs more than a second for each
    "author": ITEM.format(f"<author>{'a' * 200_000}</author>"),
    "author with dots": ITEM.format(f"<author>{'a.' * 100_000}</author>"),
    "depth": ITEM.format("<a>" * 2_000_000),
    "attributes": ITEM.format("<b " + " ".join(f"a{n}='b'" for n in range(400_000)) + "/>"),
    "comments": ITEM.format(f"<description><![CDATA[{'<!--' * 1_000_000}]]></description>"),
    "bases": ATOM.format("<a xml:base='b/'>" * 200_000),
}
QUICK = {
    "empty": "",
    "deep JSON": '{"items":' + "[" * 1_000_000,
    "number": '{"items":[{"id":' + "9" * 1_000_000 + "}]}",
    "entities": "<!DOCTYPE rss [" + "<!ENTITY a 'b'>" * 50_000 + "]><rss version='2.0'><channel/></rss>",
    "marks": "<![CDATA[" * 100_000,
    "nothing": "\0" * 1_000_000,
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind == "author" else [pytest.mark.slow]) for kind in SLOW],
)
def test_feed_over_its_cpu_time_is_refused(kind: str) -> None:
    with pytest.raises(NoFeed, match="can't be read within 1 s and 2,000,000,000 bytes of memory"):
        feed.read_confined(SLOW[kind].encode(), None, URL, seconds=1)


def test_document_without_a_feed_is_refused() -> None:
    for data in QUICK.values():
        with pytest.raises(NoFeed):
            feed.read_confined(data.encode(), None, URL)


def test_process_returns_what_the_parser_finds_and_gets_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "s3cret")
    found, run = [], feed.Run

    def noted(command: list[str], environment: dict[str, str], **more: Any) -> feed.Run:
        found.append(environment)
        return run(command, environment, **more)

    monkeypatch.setattr(feed, "Run", noted)
    title = "<title>Ünï &amp; co</title><guid>1</guid><pubDate>Sun, 01 Mar 2026 10:00:00 GMT</pubDate>"
    data = ITEM.format(title).encode()
    assert feed.read_confined(data, "application/rss+xml", URL) == entries(data, None, URL)
    assert ("PATH" in found[0], "A_TOKEN" in found[0]) == (True, False)


FALSE_FEEDPARSER = """
from tests.bad_parser import HARM

class Parsed(dict):
    bozo = False
    entries = [{"id": deed, "title": act()} for deed, act in HARM.items()]

def parse(stream, response_headers):
    return Parsed(version="rss20")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
def test_hostile_code_in_the_process_can_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a parser of documents is refused."""
    (tmp_path / "feedparser.py").write_text(FALSE_FEEDPARSER)
    secret, file = ctypes.create_string_buffer(b"as it was"), tmp_path.parent / "file"
    file.write_text("private")
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = {
            "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}",
            "PYTHON_TEST_FILE": str(file),
            "PYTHON_TEST_PORT": str(server.getsockname()[1]),
            "PYTHON_TEST_ADDRESS": str(ctypes.addressof(secret)),
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(python_child, "_PASSED", python_child._PASSED | environment.keys())
        found = {entry.key: entry.title for entry in feed.read_confined(b"", None, URL).entries}
    assert found.keys() == HARM.keys()
    assert {deed: said for deed, said in found.items() if not said.startswith("refused")} == {}
    assert (file.read_text(), secret.value) == ("private", b"as it was")


def test_address_of_a_sitemap_that_has_many_lines_is_read_in_linear_time() -> None:
    begun = time.process_time()
    lines = "a\n" * 200_000
    found = sitemap(f"<urlset><url><loc>{lines}</loc></url></urlset>".encode(), URL, 10**7)
    assert found.urls == ()
    assert time.process_time() - begun < 3
