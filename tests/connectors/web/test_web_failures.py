"""Pages and sites that fail: what was there stays, unless it is known to be gone."""

import random
from pathlib import Path

import pytest

from ingestor.ports import NeedsHuman, PartialScan, Transient
from tests.connectors.laws import broken_off, listed
from tests.connectors.sites import Reply, Site, sitemap_of
from tests.connectors.web.crawling import keys, web

# -- what can't be read


def test_pages_behind_an_unread_page_stay(server: Site, cache: Path) -> None:
    server.html("/", "/a.html", "/b.html")
    server.html("/a.html", "/under-a.html")
    server.html("/b.html", "/gone.html")
    for path in ("/under-a.html", "/gone.html"):
        server.html(path)
    connector = web(server, cache)
    first = listed(connector)
    server.say("/a.html", b"sorry", 500)
    server.html("/", "/a.html")  # b and what is under it are linked no more; perhaps a.html does now
    del server.replies["/gone.html"]
    items, error = broken_off(connector)
    assert "/a.html answers HTTP 500" in str(error)
    assert [key.removeprefix(server.url("")) for key in items] == ["/", "/a.html", "/b.html", "/under-a.html"]
    assert items[server.url("/a.html")] == first[server.url("/a.html")]
    assert error.unknown == (server.url("/a.html"),), "what is certainly gone may go"
    server.html("/a.html", "/under-a.html")
    assert keys(server, connector) == ["/", "/a.html", "/under-a.html"]


def test_scan_broken_off_at_its_links_leaves_all_unknown(server: Site, cache: Path) -> None:
    server.html("/", "/a.html", "/b.html")
    server.html("/b.html")
    server.say("/a.html", b"sorry", 500)
    _, error = broken_off(web(server, cache))
    assert error.unknown == ("",)


def rebuilt(server: Site, chance: random.Random) -> set[str]:
    """Other pages with other links; those that are there."""
    names = [f"/{number}.html" for number in range(9)]
    there = ["/", *(name for name in names if chance.random() < 0.8)]
    server.replies.clear()
    for name in there:
        server.html(name, *chance.sample(names, 2))
    return {server.url(name) for name in there}


@pytest.mark.parametrize("seed", range(5))
def test_pages_linked_from_failed_pages_stay(server: Site, cache: Path, seed: int) -> None:
    chance = random.Random(seed)
    connector = web(server, cache)
    rebuilt(server, chance)
    known = set(listed(connector))
    for step in range(4):
        rebuilt(server, chance)
        sound = dict(server.replies)
        linked = set(listed(web(server, cache.with_name(f"fresh {step}"))))
        for name in chance.sample(sorted(set(sound) - {"/"}), 2):
            server.say(name, b"sorry", 500)
        try:
            items, unknown = listed(connector), None
        except PartialScan:
            items, error = broken_off(connector)
            unknown = error.unknown
        lost = known & linked - set(items)
        assert not lost or (unknown is not None and lost <= set(unknown))
        server.replies = sound
        assert set(listed(connector)) == linked, "as from scratch, once all can be read"
        known = linked


@pytest.mark.parametrize(
    "reply",
    [
        Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx"),
        Reply(status=503),
        Reply(status=418),
        Reply(status=403),
    ],
)
def test_page_refused_after_a_read_stays(server: Site, cache: Path, reply: Reply) -> None:
    server.html("/", "/a.html")
    server.html("/a.html")
    connector = web(server, cache)
    first = listed(connector)
    server.replies["/a.html"] = reply
    items, error = broken_off(connector)
    assert items == first
    assert error.unknown == (server.url("/a.html"),)


@pytest.mark.parametrize("status", [400, 401, 403, 405, 451])
def test_page_never_readable_is_not_missed(server: Site, cache: Path, status: int) -> None:
    server.html("/", "/members/")
    server.say("/members/", b"no", status)
    assert keys(server, web(server, cache)) == ["/"]


@pytest.mark.parametrize("status", [404, 410])
def test_page_gone_is_removed(server: Site, cache: Path, status: int) -> None:
    server.html("/", "/a.html")
    server.html("/a.html")
    connector = web(server, cache)
    assert keys(server, connector) == ["/", "/a.html"]
    server.say("/a.html", b"gone", status)
    assert keys(server, connector) == ["/"]


def test_site_failing_repeatedly_ends_the_pass(server: Site, cache: Path) -> None:
    server.html("/", *(f"/{number}.html" for number in range(40)))
    for number in range(40):
        server.html(f"/{number}.html")
    connector = web(server, cache)
    first = listed(connector)
    server.paths()
    for number in range(40):
        server.say(f"/{number}.html", b"", 500)
    items, _ = broken_off(connector)
    assert items == first
    assert len(server.paths()) == 6


@pytest.mark.parametrize("follow", ["none", "sitemap", "links"])
@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [(401, NeedsHuman, "check `headers`, or `user`"), (403, NeedsHuman, "HTTP 403"),
     (404, NeedsHuman, "correct `start`"), (500, Transient, "HTTP 500"),
     (429, Transient, "asks to wait 300 s")],
)  # fmt: skip
def test_unreadable_start_raises(
    server: Site, cache: Path, follow: str, status: int, kind: type[Exception], message: str
) -> None:
    server.say("/map.xml", b"", status, Retry_After="300")
    connector = web(server, cache, "/map.xml", follow=follow)
    if (follow, status) == ("none", 404):
        assert listed(connector) == {}
        return
    with pytest.raises(kind, match=message) as caught:
        listed(connector)
    assert not isinstance(caught.value, PartialScan)


def test_refused_start_keeps_its_page_and_others(server: Site, cache: Path) -> None:
    server.html("/a.html")
    server.html("/b.html")
    connector = web(server, cache, "/a.html", "/b.html", follow="none")
    first = listed(connector)
    server.say("/b.html", b"", 403)
    items, error = broken_off(connector)
    assert items == first
    assert error.unknown == (server.url("/b.html"),)


def test_start_redirecting_to_another_site_raises(server: Site, cache: Path) -> None:
    server.redirect("/docs/", "/new/")
    with pytest.raises(NeedsHuman, match="add it to `start` or `within`"):
        listed(web(server, cache, "/docs/"))
    server.html("/new/")
    assert keys(server, web(server, cache, "/docs/", within=[server.url("/")])) == ["/new/"]
    assert keys(server, web(server, cache, "/docs/", follow="none")) == ["/new/"]


@pytest.mark.parametrize("status", [500, 503, 429])
def test_site_with_unreadable_robots_txt_is_not_requested(server: Site, cache: Path, status: int) -> None:
    server.html("/")
    server.say("/robots.txt", b"", status)
    with pytest.raises(Transient, match=r"robots\.txt"):
        listed(web(server, cache))
    assert server.paths() == []


def test_start_forbidden_to_robots_raises(server: Site, cache: Path) -> None:
    server.html("/")
    server.say("/robots.txt", "User-agent: *\nDisallow: /")
    with pytest.raises(NeedsHuman, match="if the site is yours, set `robots: false`"):
        listed(web(server, cache))


def test_sitemap_that_names_pages_of_another_host_alone_needs_a_person(server: Site, cache: Path) -> None:
    """As after a move to www: not as if all pages were gone."""
    there = "http://www.site.test/a.html"
    server.say("/sitemap.xml", sitemap_of(there))
    with pytest.raises(NeedsHuman, match=f"{there}.*`within`"):
        listed(web(server, cache, follow="sitemap"))
    server.html("/a.html")
    server.say("/sitemap.xml", sitemap_of(there, "/a.html"))
    assert keys(server, web(server, cache, follow="sitemap")) == ["/a.html"]
    server.say("/sitemap.xml", sitemap_of())
    assert keys(server, web(server, cache, follow="sitemap")) == []


def test_truncated_sitemap_is_refused(server: Site, cache: Path) -> None:
    server.say("/sitemap.xml", sitemap_of("/a.html", "/b.html"))
    for path in ("/a.html", "/b.html"):
        server.html(path)
    connector = web(server, cache, follow="sitemap")
    assert len(listed(connector)) == 2
    server.say("/sitemap.xml", sitemap_of("/a.html", "/b.html")[:-60])
    with pytest.raises(Transient, match="no sitemap"):
        listed(connector)
