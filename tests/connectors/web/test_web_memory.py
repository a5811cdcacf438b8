"""What a crawl remembers: nothing is sent again that did not change."""

import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from ingestor.ports import NeedsHuman, Stale, Transient
from tests.connectors.laws import listed
from tests.connectors.sites import LONG_AGO, Reply, Site, sitemap_of
from tests.connectors.web.crawling import web

# -- what is asked, and how often


@pytest.mark.parametrize("follow", ["none", "sitemap", "links"])
def test_unchanged_page_is_requested_once_and_not_sent(server: Site, cache: Path, follow: str) -> None:
    server.html("/", "/a.html", "/b.html")
    server.html("/a.html", "/")
    server.html("/b.html")
    server.say("/map.xml", sitemap_of("/", "/a.html", "/b.html"), Content_Type="text/xml")
    starts = {"none": ["/", "/a.html", "/b.html"], "sitemap": ["/map.xml"], "links": ["/"]}[follow]
    connector = web(server, cache, *starts, follow=follow)
    first = listed(connector)
    assert len(first) == 3
    read = {item.key: connector.fetch(item).data for item in first.values()}
    asked = server.paths()
    assert sorted(asked) == sorted(set(asked)), "nothing is asked for twice, and reading asks for nothing"
    sent = server.bodies
    restarted = web(server, cache, *starts, follow=follow)
    assert listed(restarted) == first
    assert {item.key: restarted.fetch(item).data for item in first.values()} == read
    assert server.paths() == asked, "after a restart one request each"
    assert server.bodies == sent


def test_page_without_etag_is_known_by_its_time_of_change(server: Site, cache: Path) -> None:
    server.replies["/"] = Reply(
        b"<p>one</p>", headers={"Last-Modified": LONG_AGO, "Content-Type": "text/html"}, etag=False
    )
    connector = web(server, cache)
    first = listed(connector)
    assert first[server.url("/")].modified == 1738368000.0
    assert listed(connector) == first
    assert server.asked[-1][1]["if-modified-since"] == LONG_AGO


def test_without_anything_to_tell_versions_apart_the_content_does(server: Site, cache: Path) -> None:
    server.replies["/"] = Reply(b"<p>one</p>", headers={"Content-Type": "text/html"}, etag=False)
    connector = web(server, cache)
    first = listed(connector)
    assert listed(connector) == first
    server.replies["/"] = Reply(b"<p>two</p>", headers={"Content-Type": "text/html"}, etag=False)
    assert listed(connector) != first


def test_another_etag_of_the_same_content_keeps_the_version(server: Site, cache: Path) -> None:
    for etag in ('"one"', '"two"'):
        server.say("/", b"<p>x</p>", Content_Type="text/html", ETag=etag)
        items = listed(web(server, cache))
    server.say("/", b"<p>x</p>", Content_Type="text/html", ETag='"three"')
    assert listed(web(server, cache)) == items


def test_lost_cache_costs_one_reading(server: Site, cache: Path) -> None:
    server.html("/", "/a.html")
    server.html("/a.html")
    first = listed(web(server, cache))
    for file in cache.iterdir():
        file.unlink()
    again = web(server, cache)
    item = first[server.url("/a.html")]
    with pytest.raises(Stale):
        again.fetch(item)
    assert listed(again) == first
    assert again.fetch(item).data


@pytest.mark.parametrize("damage", [b"not a database, though as long as one" * 300, b""])
def test_damaged_cache_is_made_anew(server: Site, cache: Path, damage: bytes) -> None:
    server.html("/", "/a.html")
    server.html("/a.html")
    first = listed(web(server, cache))
    [file] = cache.glob("*.sqlite")
    for beside in cache.glob("*.sqlite-*"):
        beside.unlink()
    file.write_bytes(damage)
    try:
        again = listed(web(server, cache))
    except Transient:
        again = listed(web(server, cache))
    assert again == first


SCANS = """
import sys
from ingestor.connectors.web.connector import Web, WebOptions
print(len(list(Web(WebOptions.model_validate_json(sys.argv[1])).scan())))
"""


def test_page_read_before_a_kill_is_not_sent_again(server: Site, cache: Path) -> None:
    names = [f"/{number}.html" for number in range(10)]
    server.html("/", *names)
    for name in names:
        server.html(name)
    connector = web(server, cache)
    reached, go_on = Event(), Event()

    def hang(path: str) -> Reply:
        reached.set()
        go_on.wait(30)
        return Reply(status=500)

    held = server.replies.pop("/6.html")
    server.fallback = lambda path: hang(path) if path == "/6.html" else None
    program = [sys.executable, "-c", SCANS, connector._options.model_dump_json()]
    with subprocess.Popen(program, cwd=Path(__file__).parents[3]) as scanning:
        assert reached.wait(60)
        scanning.kill()
    go_on.set()
    server.replies["/6.html"], sent = held, server.bodies
    items = listed(connector)
    assert len(items) == 11
    assert server.bodies - sent == 4, "those from the one that was not answered on"
    assert items == listed(web(server, cache.with_name("fresh")))


def test_cache_that_can_not_be_written(server: Site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NeedsHuman, match="choose another folder with `cache`"):
        listed(web(server, tmp_path / "file/x"))
