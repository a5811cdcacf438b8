"""Pages and sites that fail: what was there stays, unless it is known to be gone."""

import random
from pathlib import Path

import pytest

from ingestor.ports import NeedsHuman, PartialScan, Transient
from tests.connectors.laws import broken_off, listed
from tests.connectors.sites import Reply, Site, keys, sitemap_of, web
from tests.examples import every


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


def rebuilt(server: Site, chance: random.Random) -> None:
    """Replace the pages by others with other links."""
    names = [f"/{number}.html" for number in range(9)]
    there = ["/", *(name for name in names if chance.random() < 0.8)]
    server.replies.clear()
    for name in there:
        server.html(name, *chance.sample(names, 2))


@pytest.mark.parametrize("seed", every(2, range(5)))
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
        found, unknown = set[str](), set[str]()
        try:
            found.update(item.key for item in connector.scan())
        except PartialScan as error:
            unknown = set(error.unknown)
        assert known & linked - found <= unknown
        server.replies = sound
        assert set(listed(connector)) == linked, "as from scratch, once all can be read"
        known = linked


CUT = Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")


@pytest.mark.parametrize("reply", [CUT, *(Reply(status=status) for status in (403, 418, 503, 404, 410))])
def test_page_refused_after_a_read_stays_and_one_that_is_gone_goes(
    server: Site, cache: Path, reply: Reply
) -> None:
    server.html("/", "/a.html")
    server.html("/a.html")
    connector = web(server, cache)
    first = listed(connector)
    server.replies["/a.html"] = reply
    if reply.status in (404, 410):
        assert keys(server, connector) == ["/"]
        return
    items, error = broken_off(connector)
    assert (items, error.unknown) == (first, (server.url("/a.html"),))


def test_page_never_readable_is_not_missed(server: Site, cache: Path) -> None:
    server.html("/", *(f"/{status}" for status in (400, 401, 403, 405, 451)))
    for status in (400, 401, 403, 405, 451):
        server.say(f"/{status}", b"no", status)
    assert keys(server, web(server, cache)) == ["/"]


def test_site_failing_repeatedly_ends_the_pass(server: Site, cache: Path) -> None:
    names = [f"/{number}.html" for number in range(40)]
    server.html("/", *names)
    for name in names:
        server.html(name)
    connector = web(server, cache)
    first = listed(connector)
    server.paths()
    for name in names:
        server.say(name, b"", 500)
    items, _ = broken_off(connector)
    assert (items, len(server.paths())) == (first, 6)


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


def test_start_redirecting_to_another_site_raises(server: Site, cache: Path) -> None:
    server.redirect("/docs/", "/new/")
    with pytest.raises(NeedsHuman, match="add it to `start` or `within`"):
        listed(web(server, cache, "/docs/"))
    server.html("/new/")
    assert keys(server, web(server, cache, "/docs/", within=[server.url("/")])) == ["/new/"]
    assert keys(server, web(server, cache, "/docs/", follow="none")) == ["/new/"]


def test_robots_txt_that_forbids_or_fails_keeps_the_start_unread(server: Site, cache: Path) -> None:
    server.html("/")
    for status in (500, 503, 429):
        server.say("/robots.txt", b"", status)
        with pytest.raises(Transient, match=r"robots\.txt"):
            listed(web(server, cache))
    server.say("/robots.txt", "User-agent: *\nDisallow: /")
    with pytest.raises(NeedsHuman, match="if the site is yours, set `robots: false`"):
        listed(web(server, cache))
    assert server.paths() == []


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
    whole = sitemap_of("/a.html", "/b.html")
    connector = web(server, cache, follow="sitemap")
    for path in ("/a.html", "/b.html"):
        server.html(path)
    server.say("/sitemap.xml", whole)
    assert len(listed(connector)) == 2
    server.say("/sitemap.xml", whole[:-60])
    with pytest.raises(Transient, match="no sitemap"):
        listed(connector)
