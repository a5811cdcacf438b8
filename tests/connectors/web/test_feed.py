"""The feed connector against a real server on this machine."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.connectors.http.answers import time_of
from ingestor.connectors.web import feed as feeds
from ingestor.connectors.web import feed_child
from ingestor.connectors.web.feed import FeedConnector, FeedOptions
from ingestor.connectors.web.feed_entries import FeedEntry, NoFeed, ParsedFeed, entries, number_keys
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from tests.connectors.laws import ConnectorLaws, broken_off, listed
from tests.connectors.sites import FeedWorld, Reply, Site, atom_of, outside, site


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feeds are read in this process; test_feed_hostile.py has the process that reads them otherwise."""

    def read(data: bytes, content_type: str | None, url: str) -> ParsedFeed:
        answer = json.loads(json.dumps(feed_child._read(data, content_type, url)))
        if "bad" in answer:
            raise NoFeed(answer["bad"])
        return ParsedFeed(tuple(FeedEntry(**entry) for entry in answer["entries"]), answer["whole"])

    monkeypatch.setattr(feeds, "read_confined", read)


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[FeedWorld]:
        with site() as server:
            yield FeedWorld(server, tmp_path)


@pytest.fixture
def server() -> Iterator[Site]:
    with site() as server:
        yield server


def feed(server: Site, state: Path, **options: object) -> FeedConnector:
    given = {"url": server.url("/feed"), "allow_private": ["127.0.0.1"], "delay": 0, "state": state}
    return FeedConnector(FeedOptions.model_validate({**given, **options}), outside())


def tell(server: Site, *names: str, text: str = "A harbour.") -> None:
    found = "".join(
        f"<entry><id>tag:{name}</id><title>{name}</title><link href='/{name}.html'/><author><name>Ada</name>"
        f"</author><updated>2026-03-01T10:00:00Z</updated><summary>{text}</summary></entry>"
        for name in names
    )
    server.say("/feed", atom_of(found), Content_Type="application/atom+xml")


# -- what stays and what goes


def test_entries_that_leave_the_feed_stay(server: Site, tmp_path: Path) -> None:
    tell(server, "a", "b")
    first = listed(feed(server, tmp_path))
    tell(server, "b", "c")
    items = listed(feed(server, tmp_path))
    assert items.keys() == {"tag:a", "tag:b", "tag:c"}
    assert {key: items[key] for key in first} == first
    assert b"A harbour." in feed(server, tmp_path).fetch(items["tag:a"]).data


def test_entries_that_leave_the_feed_go_where_that_is_wanted(server: Site, tmp_path: Path) -> None:
    connector = feed(server, tmp_path, keep=False)
    tell(server, "a", "b")
    listed(connector)
    tell(server, "b", "c")
    assert listed(connector).keys() == {"tag:b", "tag:c"}


def test_cut_feed_keeps_all_entries(server: Site, tmp_path: Path) -> None:
    connector = feed(server, tmp_path, keep=False)
    tell(server, "a", "b", "c")
    first = listed(connector)
    whole = server.replies["/feed"].body
    server.replies["/feed"] = Reply(whole[: whole.index(b"tag:c")])
    assert listed(connector) == first


def test_changed_option_processes_everything_again(server: Site, tmp_path: Path) -> None:
    tell(server, "a", "b")
    listed(feed(server, tmp_path))
    tell(server, "b")
    listed(feed(server, tmp_path))
    assert listed(feed(server, tmp_path, keep=False)).keys() == {"tag:b"}


# -- what is asked


def test_feed_that_did_not_change_is_not_sent(server: Site, tmp_path: Path) -> None:
    tell(server, "a", "b")
    server.html("/a.html")
    server.html("/b.html")
    first = listed(feed(server, tmp_path, full_article=True))
    assert sorted(server.paths()) == ["/a.html", "/b.html", "/feed"]
    sent, restarted = server.bodies, feed(server, tmp_path, full_article=True)
    assert listed(restarted) == first
    for item in first.values():
        restarted.fetch(item)
    assert (server.paths(), server.bodies) == (["/feed"], sent)


def test_articles_of_changed_entries_alone_are_read(server: Site, tmp_path: Path) -> None:
    connector = feed(server, tmp_path, full_article=True)
    server.html("/a.html")
    server.html("/b.html")
    tell(server, "a")
    first = listed(connector)
    tell(server, "a", "b")
    server.paths()
    assert listed(connector)["tag:a"] == first["tag:a"]
    assert server.paths() == ["/feed", "/b.html"]
    tell(server, "a", "b", text="A lantern.")
    assert listed(connector)["tag:a"].version != first["tag:a"].version


def test_feed_that_moved_is_still_known(server: Site, tmp_path: Path) -> None:
    tell(server, "a")
    server.replies["/new"] = server.replies.pop("/feed")
    server.redirect("/feed", "/new", 301)
    first, sent = listed(feed(server, tmp_path)), server.bodies
    assert listed(feed(server, tmp_path)) == first
    assert server.bodies == sent


# -- articles


def test_article_replaces_the_text_of_the_feed(server: Site, tmp_path: Path) -> None:
    tell(server, "a")
    server.html("/a.html", text="The whole story.")
    item = listed(feed(server, tmp_path / "1"))["tag:a"]
    assert (item.uri, item.modified) == (server.url("/a.html"), 1772359200.0)
    assert dict(item.extra) == {"author": "Ada"}
    blob = feed(server, tmp_path / "1").fetch(item)
    assert (blob.name, blob.content_type) == ("a.html", "text/html")
    assert b"<h1>a</h1>\n<p>A harbour.</p>" in blob.data

    whole = feed(server, tmp_path / "2", full_article=True)
    item = listed(whole)["tag:a"]
    assert (item.uri, item.modified, dict(item.extra)) == (
        server.url("/a.html"),
        1772359200.0,
        {"author": "Ada"},
    )
    assert b"The whole story." in whole.fetch(item).data


@pytest.mark.parametrize("why", ["gone", "forbidden", "robots", "noindex", "inside", "endless", "an image"])
def test_feed_text_is_the_document_without_an_article(server: Site, tmp_path: Path, why: str) -> None:
    tell(server, "a")
    server.html("/a.html", head='<meta name="robots" content="noindex">' if why == "noindex" else "")
    if why == "gone":
        del server.replies["/a.html"]
    elif why == "forbidden":
        server.say("/a.html", b"", 403)
    elif why == "robots":
        server.say("/robots.txt", "User-agent: *\nDisallow: /a")
    elif why == "inside":
        server.redirect("/a.html", "http://169.254.169.254/")
    elif why == "endless":
        server.redirect("/a.html", "/a.html")
    elif why == "an image":
        server.say("/a.html", b"\x89PNG", Content_Type="image/png")
    connector = feed(server, tmp_path, full_article=True)
    assert b"A harbour." in connector.fetch(listed(connector)["tag:a"]).data


def test_article_that_cannot_be_read_now_is_read_later(server: Site, tmp_path: Path) -> None:
    connector = feed(server, tmp_path, full_article=True)
    tell(server, "a", "b")
    server.html("/b.html")
    server.say("/a.html", b"sorry", 500)
    items, error = broken_off(connector)
    assert (items.keys(), error.unknown) == ({"tag:b"}, ("tag:a",))
    server.html("/a.html")
    assert listed(connector).keys() == {"tag:a", "tag:b"}, "though the feed did not change"


def test_article_over_max_size_is_refused(server: Site, tmp_path: Path) -> None:
    tell(server, "a")
    server.say("/a.html", b"x" * 5000, Content_Type="text/html")
    connector = feed(server, tmp_path, full_article=True, max_size=1000)
    with pytest.raises(BadDocument, match="more than 1,000 bytes"):
        connector.fetch(listed(connector)["tag:a"])


def test_article_that_redirects_inside_is_refused(tmp_path: Path) -> None:
    with site("127.0.0.2") as server, site("127.0.0.1", server.port) as victim:
        tell(server, "a", "b")
        server.redirect("/a.html", victim.url("/"))
        server.html("/b.html")
        found = server.replies["/feed"].body.replace(b"/b.html", victim.url("/").encode())
        server.replies["/feed"] = Reply(found)
        connector = feed(server, tmp_path, full_article=True, allow_private=["127.0.0.2"])
        assert len(listed(connector)) == 2
        assert victim.connections == 0


# -- the feed itself


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply(status=401), NeedsHuman, "check `headers`"),
        (Reply(status=404), NeedsHuman, "correct `url`"),
        (Reply(status=500), Transient, "HTTP 500"),
        (Reply(status=503, headers={"Retry-After": "900"}), Transient, "wait 900 s"),
        (Reply(b"<html><body>We are back soon.</body></html>"), Transient, "is not a feed"),
        (Reply(b""), Transient, "is not a feed"),
        (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n<rss"), Transient, "can't be read"),
    ],
)
def test_unreadable_feed_raises_and_recovers(
    server: Site, tmp_path: Path, reply: Reply, kind: type[Exception], message: str
) -> None:
    tell(server, "a")
    connector = feed(server, tmp_path)
    listed(connector)
    server.replies["/feed"] = reply
    with pytest.raises(kind, match=message):
        listed(connector)
    tell(server, "a", "b")
    assert len(listed(feed(server, tmp_path))) == 2


@pytest.mark.parametrize("data", [b"<html><body>Hello</body></html>", b"", b'{"name": "x"}'])
def test_address_without_a_feed_needs_a_human(server: Site, tmp_path: Path, data: bytes) -> None:
    server.replies["/feed"] = Reply(data)
    with pytest.raises(NeedsHuman, match=r"is not a feed: .*; check `url`"):
        listed(feed(server, tmp_path))


def test_changed_entry_is_stale(server: Site, tmp_path: Path) -> None:
    tell(server, "a")
    connector = feed(server, tmp_path)
    item = listed(connector)["tag:a"]
    tell(server, "a", text="Other.")
    listed(connector)
    with pytest.raises(Stale):
        connector.fetch(item)


# -- formats

RSS = b"""<?xml version="1.0" encoding="iso-8859-1"?><rss version="2.0"
 xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
<item><title>Caf\xe9 &amp; more</title><link>/a?x=1&amp;y=2</link><guid isPermaLink="false">77</guid>
<pubDate>Sun, 01 Mar 2026 10:00:00 GMT</pubDate><dc:creator>Ada</dc:creator><description>Short.</description>
<content:encoded><![CDATA[<p>The long text.</p><script>alert(1)</script>]]></content:encoded></item>
<item><title>Only a link</title><link>https://x.test/b</link></item>
<item><title>Twice</title><guid isPermaLink="false">77</guid></item>
<item></item></channel></rss>"""
RDF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel rdf:about="x"/><item rdf:about="https://x.test/c"><title>C</title><link>https://x.test/c</link>
<description>Text.</description></item></rdf:RDF>"""
JSON = {
    "version": "https://jsonfeed.org/version/1.1",
    "authors": [{"name": "Ada"}],
    "items": [
        {"id": 5, "url": "/a", "content_html": "<p>A</p>", "date_published": "2026-03-01T11:00:00+01:00"},
        {"id": "6", "title": "B", "content_text": "1 < 2", "authors": [{"name": "Eve"}]},
        {"url": "https://x.test/c", "date_modified": "soon"},
        "nonsense",
        {},
    ],
}
WHEN = 1772359200.0


def test_rss_entries_are_read() -> None:
    first, second, third = entries(RSS, "application/rss+xml", "https://x.test/feed").entries
    assert (first.key, first.link, first.title) == ("77", "https://x.test/a?x=1&y=2", "Café & more")
    assert (first.author, first.changed) == ("Ada", WHEN)
    assert "The long text." in first.html
    assert "script" not in first.html
    assert (second.key, second.link) == ("https://x.test/b", "https://x.test/b")
    assert (third.key, third.title) == ("77", "Twice")


def test_rdf_entries_are_read() -> None:
    [entry] = entries(RDF, None, "https://x.test/feed").entries
    assert (entry.key, entry.title, entry.html) == ("https://x.test/c", "C", "Text.")


def test_json_feed_entries_are_read() -> None:
    found = entries(json.dumps(JSON).encode(), "application/feed+json", "https://x.test/feed").entries
    assert found == (
        FeedEntry("5", "https://x.test/a", "", "<p>A</p>", "Ada", WHEN),
        FeedEntry("6", None, "B", "<p>1 &lt; 2</p>", "Eve", None),
        FeedEntry("https://x.test/c", "https://x.test/c", "", "", "Ada", None),
    )


WITHOUT_IDS = b"""<rss version="2.0"><channel>
<item><title>One</title><link>/changes</link><pubDate>0000-00-00</pubDate></item>
<item><title>Two</title><link>/changes</link><pubDate>Wed, 30 Nov -0001 00:00:00 +0000</pubDate></item>
<item><title>Same</title><description>first</description></item>
<item><title>Same</title><description>second</description></item>
<item><title>Alone</title></item>
<item><description>Nothing but text.</description></item>
<item><title>Three</title><link>/3</link></item></channel></rss>"""


def test_entries_without_an_id_are_distinguished_by_all_they_have() -> None:
    found = entries(WITHOUT_IDS, None, "https://x.test/feed").entries
    assert [entry.title for entry in found] == ["One", "Two", "Same", "Same", "Alone", "", "Three"]
    keys = [entry.key for entry in found]
    assert len(set(keys)) == len(keys)
    assert (keys[4], keys[6]) == ("Alone", "https://x.test/3")
    assert all(entry.changed is None for entry in found)
    moved = WITHOUT_IDS.replace(b"0000-00-00", b"Sun, 01 Mar 2026 10:00:00 GMT")
    assert [entry.key for entry in entries(moved, None, "https://x.test/feed").entries] == keys


def test_time_without_a_zone_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = {"items": [{"id": 1, "date_published": "2026-03-01T10:00:00"}]}
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        [entry] = entries(json.dumps(feed).encode(), None, "https://x.test/feed").entries
        assert entry.changed == time_of("Sun, 01 Mar 2026 10:00:00") == WHEN
    finally:
        monkeypatch.undo()
        time.tzset()


def test_truncated_feed_is_reported() -> None:
    found = entries(RSS[:-100], None, "https://x.test/feed")
    assert found.entries[0].key == "77"
    assert not found.whole
    assert entries(RSS, None, "https://x.test/feed").whole


def test_entities_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    declared = f'<!DOCTYPE r [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>'
    data = (
        f'{declared}<rss version="2.0"><channel><item><title>&x;</title><guid>1</guid></item></channel></rss>'
    )
    [entry] = entries(data.encode(), None, "https://x.test/feed").entries
    assert "s3cret" not in repr(entry)


def test_page_of_an_entry_is_escaped() -> None:
    page = FeedEntry("1", None, "<b> & co", "<p>x</p>", 'Ada "L"', None).page().decode()
    assert "<title>&lt;b&gt; &amp; co</title>" in page
    assert 'content="Ada &quot;L&quot;"' in page


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3),
    )
)
def test_any_json_is_read_or_refused(value: object) -> None:
    shapes = (
        {"items": value},
        {"items": [{"id": value, "url": value, "authors": value, "date_published": value}]},
    )
    for shape in shapes:
        with suppress(NoFeed):
            entries(json.dumps(shape).encode(), None, "https://x.test/feed")


# -- entries that share an id


def _say_shared(server: Site, *names: str, link: str = "/{name}.html") -> None:
    found = "".join(
        f"<item><guid isPermaLink='false'>N/A</guid><title>{name}</title>"
        f"{f'<link>{link.format(name=name)}</link>' if link else ''}"
        f"<description>On {name}.</description></item>"
        for name in names
    )
    server.say("/feed", f"<rss version='2.0'><channel><title>t</title>{found}</channel></rss>")


def _titles(connector: FeedConnector) -> dict[str, str]:
    found = {key: connector.fetch(item).data.decode() for key, item in listed(connector).items()}
    return {key: text.partition("<h1>")[2].partition("</h1>")[0] for key, text in found.items()}


@pytest.mark.parametrize("link", ["/{name}.html", "/all.html", ""])
def test_entries_of_one_id_are_all_kept_under_stable_keys(server: Site, tmp_path: Path, link: str) -> None:
    connector = feed(server, tmp_path)
    _say_shared(server, "a", link=link)
    assert _titles(connector) == {"N/A": "a"}
    _say_shared(server, "c", "b", "a", "a", link=link)
    first = {"N/A": "a", "N/A#2": "c", "N/A#3": "b"}
    assert _titles(connector) == first
    _say_shared(server, "d", "c", link=link)
    assert _titles(connector) == {**first, "N/A#4": "d"}
    _say_shared(server, "d", link=link)
    assert _titles(feed(server, tmp_path)) == {**first, "N/A#4": "d"}
    assert set(_titles(feed(server, tmp_path, keep=False)).values()) == {"d"}


def test_entry_with_an_id_like_a_number_of_another_is_kept() -> None:
    rss = "".join(
        f"<item><guid>{key}</guid><title>{n}</title></item>" for n, key in enumerate(["x", "x", "x#2", "x#2"])
    )
    found = entries(f"<rss version='2.0'><channel>{rss}</channel></rss>".encode(), None, "https://x.test/")
    keys = number_keys(found.entries, (), lambda entry: entry.version)
    assert sorted(entry.title for entry in keys.values()) == ["0", "1", "2", "3"]
