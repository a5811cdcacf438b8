"""The web connector against a real server on this machine, and what it remembers of a crawl."""

import gzip
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from ingestor.ports import BadDocument, NeedsHuman, Transient
from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.sites import LONG_AGO, Clock, Reply, Site, SiteWorld, keys, site, sitemap_of, web


class TestLaws(ConnectorLaws):
    @pytest.fixture(params=["sitemap", "links"])
    def world(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SiteWorld]:
        with site() as server:
            yield SiteWorld(server, tmp_path, request.param)


def test_links_are_followed_within_bounds(server: Site, cache: Path) -> None:
    links = ["a.html#part", "../blog/", "b/?page=1", "secret/x.html", "http://other.test/", "a.png"]
    server.html("/docs/", *links)
    server.html("/docs/a.html", "/docs/", "deep.html")
    server.html("/docs/b/?page=1", "print.html?x=1")
    server.html("/docs/deep.html", "deeper.html")
    server.html("/docs/deeper.html")
    connector = web(server, cache, "/docs/", exclude=["secret/", "print*"], depth=2)
    found = ["/docs/", "/docs/a.html", "/docs/b/?page=1", "/docs/deep.html"]
    assert (keys(server, connector), server.paths()) == (found, found)


def test_pages_lead_to_what_is_included(server: Site, cache: Path) -> None:
    server.html("/", "/more.html", "/away.html", "/loop")
    server.html("/more.html", "/a.pdf", "/b.txt", "/old.pdf")
    server.say("/a.pdf", b"%PDF-1.4", Content_Type="application/pdf")
    server.say("/b.txt", b"text", Content_Type="text/plain")
    server.redirect("/old.pdf", "/new.pdf", 301)
    server.say("/new.pdf", b"%PDF-1.5", Content_Type="application/pdf")
    server.redirect("/away.html", "http://other.test/")
    server.redirect("/loop", "/loop2")
    server.redirect("/loop2", "/loop")
    assert keys(server, web(server, cache, include=["*.pdf"])) == ["/a.pdf", "/new.pdf"]


def test_without_following_the_configured_pages_alone_are_read(server: Site, cache: Path) -> None:
    server.html("/a.html", "/c.html")
    server.html("/b.html", head='<link rel="canonical" href="/c.html">')
    connector = web(server, cache, "/a.html", "/b.html", "/gone.html", follow="none")
    assert keys(server, connector) == ["/a.html", "/b.html"]
    assert server.paths() == ["/a.html", "/b.html", "/gone.html"]


def test_sitemap_is_found_and_its_parts_are_read(server: Site, cache: Path) -> None:
    parts = "".join(f"<sitemap><loc>{path}</loc></sitemap>" for path in ("/one.xml.gz", "/two.txt"))
    server.say("/robots.txt", "Sitemap: /maps/index.xml")
    server.say("/maps/index.xml", f"<sitemapindex>{parts}</sitemapindex>")
    server.say("/one.xml.gz", gzip.compress(sitemap_of("/docs/a.html", "/other/b.html").encode()))
    server.say("/two.txt", f"{server.url('/docs/c.html')}\nhttp://other.test/\n")
    for path in ("/docs/a.html", "/docs/c.html", "/other/b.html"):
        server.html(path, "/docs/unlisted.html")
    assert keys(server, web(server, cache, "/docs/", follow="sitemap")) == ["/docs/a.html", "/docs/c.html"]
    server.replies["/sitemap.xml"] = server.replies["/one.xml.gz"]
    del server.replies["/robots.txt"]
    assert keys(server, web(server, cache, "/", follow="sitemap")) == ["/docs/a.html", "/other/b.html"]


def test_pages_with_one_canonical_address_are_one_document(server: Site, cache: Path) -> None:
    server.html("/", "/a.html?from=menu", "/a.html?from=footer", "/b.html")
    for query in ("?from=menu", "?from=footer", ""):
        page = f'<link rel="canonical" href="/a.html"><nav>{query}</nav><p>A page on harbours.</p>'
        server.say(f"/a.html{query}", page, Content_Type="text/html")
    server.html("/b.html", head='<link rel="canonical" href="http://other.test/b.html">')
    assert keys(server, web(server, cache)) == ["/", "/a.html", "/b.html"]


@pytest.mark.parametrize("canonical", ["/", "/one.html", "/unknown.html"])
def test_pages_of_other_text_are_kept_whatever_canonical_address_they_name(
    server: Site, cache: Path, canonical: str
) -> None:
    link = f'<link rel="canonical" href="{canonical}">'
    texts = {"/one.html": "Fees for boats.", "/two.html": "Ways of the pilots.", "/list?page=2": "Z"}
    server.html("/", *texts, head=link, text="Welcome to the harbour office.")
    for path, text in texts.items():
        server.html(path, head=link, text=text)
    assert keys(server, web(server, cache)) == sorted(["/", *texts])


def test_files_that_name_the_home_page_canonical_are_kept(server: Site, cache: Path) -> None:
    server.html("/", "/a.pdf", "/b.pdf")
    for path in ("/a.pdf", "/b.pdf"):
        link = f'<{server.url("/")}>; rel="canonical"'
        server.say(path, path.encode(), Content_Type="application/pdf", Link=link)
    assert keys(server, web(server, cache)) == ["/", "/a.pdf", "/b.pdf"]


def test_robots_rules_of_a_site_are_obeyed(server: Site, cache: Path) -> None:
    server.say("/robots.txt", "User-agent: *\nDisallow: /private/\nCrawl-delay: 2\n")
    server.html("/", "/private/a.html", "/unlisted.html", "/header.txt", "/end.html")
    server.html("/unlisted.html", "/found.html", head='<meta name="robots" content="noindex">')
    server.html("/end.html", "/hidden.html", head='<meta name="ingestor" content="nofollow">')
    server.say("/header.txt", b"x", Content_Type="text/plain", X_Robots_Tag="noindex")
    for path in ("/found.html", "/hidden.html", "/private/a.html"):
        server.html(path)
    clock = Clock()
    allowed = ["/", "/end.html", "/found.html"]
    everything = [*allowed, "/header.txt", "/hidden.html", "/private/a.html", "/unlisted.html"]
    assert keys(server, web(server, cache, clock=clock)) == allowed
    assert "/private/a.html" not in server.paths()
    assert clock.slept and all(1.5 < seconds <= 2 for seconds in clock.slept)
    assert keys(server, web(server, cache, robots=False)) == everything
    assert keys(server, web(server, cache)) == allowed, "what is newly forbidden goes"


def test_types_names_and_charsets_are_sent(server: Site, cache: Path) -> None:
    server.html("/", "/manual", "/image", "/latin", "/plain")
    server.say("/manual", b"%PDF-1.4", Content_Type="application/pdf")
    server.say("/image", b"\x89PNG", Content_Type="image/png")
    server.say("/latin", b"<p>caf\xe9</p>", Content_Type="text/html; charset=utf-8")
    server.say("/plain", b"# Title", Content_Type="text/markdown")
    connector = web(server, cache)
    blobs = {key: connector.fetch(item) for key, item in listed(connector).items()}
    assert {blob.name: blob.content_type for blob in blobs.values()} == {
        "index.html": "text/html; charset=utf-8",
        "manual.pdf": "application/pdf",
        "latin.html": "text/html",
        "plain.md": "text/markdown",
    }


def test_page_too_large_is_reported(server: Site, cache: Path) -> None:
    bomb, plain = gzip.compress(b"x" * 1_000_000), {"Content_Type": "text/plain"}
    server.html("/", "/large.txt", "/bomb.txt")
    server.say("/large.txt", b"x" * 60_000, **plain)
    server.say("/bomb.txt", bomb, Content_Encoding="gzip", **plain)
    connector = web(server, cache, max_size=50_000)
    items = listed(connector)
    for path in ("/large.txt", "/bomb.txt"):
        with pytest.raises(BadDocument, match="more than 50,000 bytes"):
            connector.fetch(items[server.url(path)])
    assert listed(connector) == items


def calendar(path: str) -> Reply | None:
    """A month has a link to the next, and so on for ever."""
    month = int(path.rpartition("=")[2] or 0) if "month=" in path else 0
    page = f'<a href="/calendar?month={month + 1}">next</a> {month}'
    return Reply(page.encode(), headers={"Content-Type": "text/html"})


def test_calendar_with_endless_content_is_bounded(server: Site, cache: Path) -> None:
    server.fallback = lambda path: calendar(path) if path.startswith("/calendar") else None
    server.html("/", "/calendar")
    assert len(listed(web(server, cache))) == 1 + 20, "as deep as links are followed"
    assert len(listed(web(server, cache, depth=1000))) == 2 + 100, "so many queries of one path"


def test_endless_folders_are_cut_short(server: Site, cache: Path) -> None:
    page = Reply(b'<a href="down/">x</a>', headers={"Content-Type": "text/html"})
    server.fallback = lambda path: None if path == "/robots.txt" else page
    assert keys(server, web(server, cache, depth=1000)) == ["/", "/down/", "/down/down/", "/down/down/down/"]


def test_pages_over_max_pages_are_not_read(
    server: Site, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"/{number}.html" for number in range(50)]
    server.html("/", *names)
    for name in names:
        server.html(name)
    assert len(listed(web(server, cache, max_pages=10))) == len(server.paths()) == 10
    assert "more than 10 pages" in caplog.text
    caplog.clear()
    assert len(listed(web(server, cache, max_pages=51))) == 51
    assert not caplog.text


@pytest.mark.parametrize("follow", ["none", "links", "sitemap"])
def test_site_that_is_not_public_needs_to_be_allowed(server: Site, cache: Path, follow: str) -> None:
    message = r"127\.0\.0\.1 is not a public address.*`allow_private`"
    for start in ("/", "/x.xml"):
        with pytest.raises(NeedsHuman, match=message):
            listed(web(server, cache, start, follow=follow, allow_private=[]))
    assert server.connections == 0


@pytest.mark.parametrize("follow", ["none", "links", "sitemap"])
def test_site_that_redirects_inside_is_refused(cache: Path, follow: str) -> None:
    with site("127.0.0.2") as server, site("127.0.0.1", server.port) as victim:
        place = {"none": "/", "links": "/a/", "sitemap": "/sitemap.xml"}[follow]
        server.redirect(place, victim.url("/"))
        options = {"allow_private": ["127.0.0.2"], "within": [server.url("/"), victim.url("/")]}
        with pytest.raises(NeedsHuman, match="not a public address"):
            listed(web(server, cache, place, follow=follow, **options))
        assert victim.connections == 0


def test_secrets_are_sent_and_never_shown(server: Site, cache: Path) -> None:
    server.html("/")
    connector = web(server, cache, headers={"Authorization": "Bearer s3cret"})
    items = listed(connector)
    assert server.asked[-1][1]["authorization"] == "Bearer s3cret"
    kept = b"".join(path.read_bytes() for path in cache.iterdir())
    assert b"s3cret" not in kept + repr((items, connector._options)).encode()


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


def test_version_depends_on_the_validators_or_else_on_the_content(server: Site, cache: Path) -> None:
    html = {"Content-Type": "text/html"}
    server.replies["/"] = Reply(b"<p>one</p>", headers={"Last-Modified": LONG_AGO, **html}, etag=False)
    connector = web(server, cache)
    first = listed(connector)
    assert first[server.url("/")].modified == 1738368000.0
    assert listed(connector) == first
    assert server.asked[-1][1]["if-modified-since"] == LONG_AGO
    server.replies["/"] = Reply(b"<p>two</p>", headers=html, etag=False)
    second = listed(connector)
    assert second != first
    assert listed(connector) == second


def test_another_etag_of_the_same_content_keeps_the_version(server: Site, cache: Path) -> None:
    found = []
    for etag in ('"one"', '"two"', '"three"'):
        server.say("/", b"<p>x</p>", Content_Type="text/html", ETag=etag)
        found.append(listed(web(server, cache)))
    assert found[1] == found[2]


@pytest.mark.parametrize("damage", [None, b"not a database, though as long as one" * 300, b""])
def test_lost_or_damaged_cache_is_refilled(server: Site, cache: Path, damage: bytes | None) -> None:
    server.html("/", "/a.html")
    server.html("/a.html")
    first = listed(web(server, cache))
    for file in cache.iterdir():
        if damage is None or file.suffix != ".sqlite":
            file.unlink()
        else:
            file.write_bytes(damage)
    again, item = web(server, cache), first[server.url("/a.html")]
    with pytest.raises(Transient):
        again.fetch(item)
    try:
        found = listed(again)
    except Transient:
        found = listed(again)
    assert found == first
    assert again.fetch(item).data


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


def test_unwritable_cache_needs_a_person(server: Site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NeedsHuman, match="choose another folder with `cache`"):
        listed(web(server, tmp_path / "file/x"))
