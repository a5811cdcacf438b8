"""The feed connector against a real server on this machine."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.connectors.web import feed as feeds
from ingestor.connectors.web import feed_child
from ingestor.connectors.web.feed import FeedConnector, FeedOptions
from ingestor.connectors.web.feed_entries import FeedEntry, NoFeed, ParsedFeed, entries, number_keys
from ingestor.ports import BadDocument, NeedsHuman, Stale, Transient
from ingestor.units import http_date
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


def test_entries_that_leave_the_feed_stay_unless_configured(server: Site, tmp_path: Path) -> None:
    tell(server, "a", "b")
    first = listed(feed(server, tmp_path))
    tell(server, "b", "c")
    items = listed(feed(server, tmp_path))
    assert items.keys() == {"tag:a", "tag:b", "tag:c"}
    assert {key: items[key] for key in first} == first
    assert b"A harbour." in feed(server, tmp_path).fetch(items["tag:a"]).data
    assert listed(feed(server, tmp_path, keep=False)).keys() == {"tag:b", "tag:c"}, "another option"
    connector = feed(server, tmp_path, keep=False)
    tell(server, "c", "d", "e")
    first = listed(connector)
    assert first.keys() == {"tag:c", "tag:d", "tag:e"}
    whole = server.replies["/feed"].body
    server.replies["/feed"] = Reply(whole[: whole.index(b"tag:e")])
    assert listed(connector) == first, "a feed that is cut off keeps all entries"


def test_feed_that_did_not_change_is_not_sent(server: Site, tmp_path: Path) -> None:
    tell(server, "a", "b")
    server.html("/a.html")
    server.html("/b.html")
    server.replies["/new"] = server.replies.pop("/feed")
    server.redirect("/feed", "/new", 301)
    first = listed(feed(server, tmp_path, full_article=True))
    assert sorted(server.paths()) == ["/a.html", "/b.html", "/feed", "/new"]
    sent, restarted = server.bodies, feed(server, tmp_path, full_article=True)
    assert listed(restarted) == first
    for item in first.values():
        restarted.fetch(item)
    assert (server.paths()[:1], server.bodies) == (["/feed"], sent)


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


@pytest.mark.parametrize(
    ("full", "text"), [(False, b"<h1>a</h1>\n<p>A harbour.</p>"), (True, b"The whole story.")]
)
def test_article_replaces_the_text_of_the_feed(server: Site, tmp_path: Path, full: bool, text: bytes) -> None:
    tell(server, "a")
    server.html("/a.html", text="The whole story.")
    connector = feed(server, tmp_path, full_article=full)
    item = listed(connector)["tag:a"]
    assert (item.uri, item.modified) == (server.url("/a.html"), WHEN)
    assert dict(item.extra) == {"author": "Ada"}
    blob = connector.fetch(item)
    assert (blob.name, (blob.content_type or "").partition(";")[0]) == ("a.html", "text/html")
    assert text in blob.data


NO_ARTICLE = {
    "gone": Reply(status=404),
    "forbidden": Reply(status=403),
    "robots": Reply(b"A page."),
    "noindex": Reply(b'<meta name="robots" content="noindex">', headers={"Content-Type": "text/html"}),
    "inside": Reply(status=302, headers={"Location": "http://169.254.169.254/"}),
    "endless": Reply(status=302, headers={"Location": "/a.html"}),
    "an image": Reply(b"\x89PNG", headers={"Content-Type": "image/png"}),
}


@pytest.mark.parametrize("why", NO_ARTICLE)
def test_feed_text_is_the_document_without_an_article(server: Site, tmp_path: Path, why: str) -> None:
    tell(server, "a")
    server.replies["/a.html"] = NO_ARTICLE[why]
    if why == "robots":
        server.say("/robots.txt", "User-agent: *\nDisallow: /a")
    connector = feed(server, tmp_path, full_article=True)
    assert b"A harbour." in connector.fetch(listed(connector)["tag:a"]).data


def test_article_that_cannot_be_read_now_is_read_later(server: Site, tmp_path: Path) -> None:
    connector = feed(server, tmp_path, full_article=True, max_size=1000)
    tell(server, "a", "b")
    server.html("/b.html")
    server.say("/a.html", b"sorry", 500)
    items, error = broken_off(connector)
    assert (items.keys(), error.unknown) == ({"tag:b"}, ("tag:a",))
    server.say("/a.html", b"x" * 5000, Content_Type="text/html")
    items = listed(connector)
    assert items.keys() == {"tag:a", "tag:b"}, "though the feed did not change"
    with pytest.raises(BadDocument, match="more than 1,000 bytes"):
        connector.fetch(items["tag:a"])


NO_FEED = b"<html><body>We are back soon.</body></html>"


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply(status=401), NeedsHuman, "check `headers`"),
        (Reply(status=404), NeedsHuman, "correct `url`"),
        (Reply(status=500), Transient, "HTTP 500"),
        (Reply(status=503, headers={"Retry-After": "900"}), Transient, "wait 900 s"),
        (Reply(NO_FEED), Transient, "is not a feed"),
        (Reply(b""), Transient, "is not a feed"),
        (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n<rss"), Transient, "can't be read"),
    ],
)
def test_unreadable_feed_raises_and_recovers(
    server: Site, tmp_path: Path, reply: Reply, kind: type[Exception], message: str
) -> None:
    tell(server, "a")
    connector = feed(server, tmp_path)
    first = listed(connector)
    server.replies["/feed"] = reply
    with pytest.raises(kind, match=message):
        listed(connector)
    tell(server, "a", "b", text="Other.")
    recovered = feed(server, tmp_path)
    assert len(listed(recovered)) == 2
    with pytest.raises(Stale):
        recovered.fetch(first["tag:a"])


def test_address_without_a_feed_needs_a_human(server: Site, tmp_path: Path) -> None:
    for data in (NO_FEED, b"", b'{"name": "x"}'):
        server.replies["/feed"] = Reply(data)
        with pytest.raises(NeedsHuman, match=r"is not a feed: .*; check `url`"):
            listed(feed(server, tmp_path))


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
WHEN, URL = 1772359200.0, "https://x.test/feed"


def read(data: bytes | str, content_type: str | None = None) -> tuple[FeedEntry, ...]:
    return entries(data.encode() if isinstance(data, str) else data, content_type, URL).entries


def test_rss_entries_are_read() -> None:
    first, second, third = read(RSS, "application/rss+xml")
    assert (first.key, first.link, first.title) == ("77", "https://x.test/a?x=1&y=2", "Café & more")
    assert (first.author, first.changed) == ("Ada", WHEN)
    assert "The long text." in first.html
    assert "script" not in first.html
    assert (second.key, second.link) == ("https://x.test/b", "https://x.test/b")
    assert (third.key, third.title) == ("77", "Twice")
    cut = entries(RSS[:-100], None, URL)
    assert (cut.entries[0].key, cut.whole, entries(RSS, None, URL).whole) == ("77", False, True)
    page = FeedEntry("1", None, "<b> & co", "<p>x</p>", 'Ada "L"', None).page().decode()
    assert "<title>&lt;b&gt; &amp; co</title>" in page
    assert 'content="Ada &quot;L&quot;"' in page


def test_title_of_an_entry_is_plain_text() -> None:
    for written, title in [
        ("AT&amp;amp;T &lt;b&gt;x&lt;/b&gt;", "AT&T x"), ("a &lt; b &amp; c", "a < b & c"),
        ("1 &amp;lt; 2", "1 < 2"),
        ("<![CDATA[Tom & <i>Jerry</i>]]>", "Tom & Jerry"),
    ]:  # fmt: skip
        [entry] = read(f'<rss version="2.0"><channel><item><title>{written}</title></item></channel></rss>')
        assert entry.title == title


def test_rdf_and_json_feed_entries_are_read() -> None:
    [entry] = read(RDF)
    assert (entry.key, entry.title, entry.html) == ("https://x.test/c", "C", "Text.")
    assert read(json.dumps(JSON), "application/feed+json") == (
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
    found = read(WITHOUT_IDS)
    assert [entry.title for entry in found] == ["One", "Two", "Same", "Same", "Alone", "", "Three"]
    keys = [entry.key for entry in found]
    assert len(set(keys)) == len(keys)
    assert (keys[4], keys[6]) == ("Alone", "https://x.test/3")
    assert all(entry.changed is None for entry in found)
    moved = WITHOUT_IDS.replace(b"0000-00-00", b"Sun, 01 Mar 2026 10:00:00 GMT")
    assert [entry.key for entry in read(moved)] == keys


def test_time_without_a_zone_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        [entry] = read('{"items": [{"id": 1, "date_published": "2026-03-01T10:00:00"}]}')
        assert entry.changed == http_date("Sun, 01 Mar 2026 10:00:00") == WHEN
    finally:
        monkeypatch.undo()
        time.tzset()


def test_entities_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    declared = f'<!DOCTYPE r [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>'
    item = "<item><title>&x;</title><guid>1</guid></item>"
    [entry] = read(f'{declared}<rss version="2.0"><channel>{item}</channel></rss>')
    assert "s3cret" not in repr(entry)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@given(st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3)))
def test_any_json_is_read_or_refused(value: object) -> None:
    entry = dict.fromkeys(("id", "url", "authors", "date_published"), value)
    for items in (value, [entry]):
        with suppress(NoFeed):
            read(json.dumps({"items": items}))


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
    ids = enumerate(["x", "x", "x#2", "x#2"])
    rss = "".join(f"<item><guid>{key}</guid><title>{n}</title></item>" for n, key in ids)
    found = read(f"<rss version='2.0'><channel>{rss}</channel></rss>")
    keys = number_keys(found, (), lambda entry: entry.version)
    assert sorted(entry.title for entry in keys.values()) == ["0", "1", "2", "3"]
