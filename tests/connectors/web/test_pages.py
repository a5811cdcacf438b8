"""Pages, sitemaps and the documents made of them, by tables."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.connectors.http.answers import Page
from ingestor.connectors.http.body import Broken, TooLarge
from ingestor.connectors.web.content import are_copies, blob_name, documents, shingles
from ingestor.connectors.web.page import links_of
from ingestor.connectors.web.sitemap import Sitemap, sitemap

PAGE = """
<html><head><base href="/base/"><link rel="canonical" href="c"><link rel=stylesheet href=/s.css>
<meta name=robots content="NoIndex, nofollow"><meta name="otherbot" content="noarchive">
<meta http-equiv="refresh" content="5; URL='/later'"></head>
<body><!-- <a href="/comment"> --><script>"<a href='/script'>"</script>
<a href=plain>x</a> <A HREF='single' class="a>b">x</A> <a title="<b>" href="amp?a=1&amp;b=2">x</a>
<a href="https://other.test/x#top">x</a><a rel="nofollow noopener" href="/nofollow">x</a>
<a href="mailto:a@b">x</a><a name=anchor>x</a><map><area href="/area"></map><a href="plain">again</a>
<article href="/no">x</article><a href="unclosed
"""


def test_links_of_a_page_are_read() -> None:
    said = links_of(PAGE.encode(), "text/html", "https://x.test/a/b", "ingestor")
    assert said.links == (
        "https://x.test/later", "https://x.test/base/plain", "https://x.test/base/single",
        "https://x.test/base/amp?a=1&b=2", "https://other.test/x", "https://x.test/area",
    )  # fmt: skip
    assert said.canonical == "https://x.test/base/c"
    assert said.robots == {"noindex", "nofollow"}


def test_links_are_those_that_browsers_follow() -> None:
    for page, link in [
        ('<base href="/a/"><base href="/b/"><a href="c">', "/a/c"),
        ('<a href="..\\c\\d.html?x=\\">', "/c/d.html?x=%5C"),
        ("<frameset><frame src=c.html></frameset>", "/p/c.html"), ("<iframe src=c.html></iframe>", None),
    ]:  # fmt: skip
        links = links_of(page.encode(), "text/html", "https://x.test/p/q", "ingestor").links
        assert links == ((f"https://x.test{link}",) if link else ()), page


@pytest.mark.parametrize(
    "page",
    ["<a" * 300_000, '<a href="' * 100_000, "<a " + "x" * 500_000, "<a " + "x=" * 200_000, "<!--" * 100_000,
     "<script>" * 50_000, "<a" + " " * 500_000, "<a x" + " " * 300_000 + "=", "<a ='\"" * 60_000,
     "<meta content='" + "a" * 300_000, "<meta http-equiv=refresh content='" + " " * 300_000 + "'>"],
)  # fmt: skip
@pytest.mark.timeout(20)
def test_tangled_page_is_read_fast(page: str) -> None:
    links_of(page.encode(), None, "https://x.test/", "ingestor")
    shingles(page.encode())


@given(st.text(alphabet="<>a =\"'/hrefmt!-s", max_size=60))
def test_page_of_any_content_is_parsed(page: str) -> None:
    links_of(page.encode(), "text/html; charset=nonsense", "https://x.test/", "ingestor")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            b'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
            b'xmlns:i="http://i"><url><loc>\n /a?x=1&amp;y=2 </loc><i:image><i:loc>/no.png</i:loc></i:image>'
            b"</url><url><loc>https://x.test/b</loc></url><url><loc>ftp://no</loc></url></urlset>",
            Sitemap(("https://x.test/a?x=1&y=2", "https://x.test/b")),
        ),
        (b"<sitemapindex><sitemap><loc>/s.xml</loc></sitemap></sitemapindex>",
         Sitemap(("https://x.test/s.xml",), True)),
        (gzip.compress(b"<urlset><url><loc>/a</loc></url></urlset>", mtime=0), Sitemap(("https://x.test/a",))),
        (b"\xef\xbb\xbfhttps://x.test/a\r\nhttps://x.test/b\n", Sitemap(("https://x.test/a", "https://x.test/b"))),
        *((f'<?xml version="1.0" encoding="{named}"?><urlset><url><loc>/ä</loc></url></urlset>'.encode(),
           Sitemap(("https://x.test/%C3%A4",))) for named in ("utf8", "UTF-16", "ascii")),
        ("<?xml version='1.0' encoding='latin1'?><urlset><url><loc>/ä</loc></url></urlset>".encode("cp1252"),
         Sitemap(("https://x.test/%C3%A4",))),
        (b"<urlset><url><loc>/?a=1&b=2&amp;c=3&#38;d&;</loc></url></urlset>",
         Sitemap(("https://x.test/?a=1&b=2&c=3&d&;",))),
        (b"<urlset/>", Sitemap()),
        (b"<urlset><url><loc></loc></url></urlset>", Sitemap()),
        (b'\r\n <?xml version="1.0"?><urlset><url><loc>/a</loc></url></urlset>', Sitemap(("https://x.test/a",))),
        (b"<rss><channel><link>/</link><item><title>/no</title><link>/a</link></item></channel></rss>",
         Sitemap(("https://x.test/a",))),
        (b'<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><entry><link href="/a"/>'
         b'<link rel="edit" href="/no"/></entry></feed>', Sitemap(("https://x.test/a",))),
    ],
)  # fmt: skip
def test_sitemap_is_read(data: bytes, expected: Sitemap) -> None:
    assert sitemap(data, "https://x.test/map/s.xml", 10_000) == expected


BOMB = b'<!DOCTYPE u [<!ENTITY a "aaaaa"><!ENTITY b "&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"<html></html>", "root is <html>"), (b"<urlset><url>", "no element found"),
     (b"maintenance", "neither XML"), (b"", "not a sitemap: empty"), (b"\r\n", "not a sitemap: empty"),
     (BOMB, "declares entities"), (BOMB.decode().encode("utf-16"), "declares entities"),
     (b"\x1f\x8bnonsense", "can't be decompressed")],
)  # fmt: skip
def test_content_without_a_sitemap_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(Broken, match=message):
        sitemap(data, "https://x.test/s.xml", 10_000)
    with pytest.raises(TooLarge):
        sitemap(gzip.compress(b"<urlset>" + b" " * 100_000, mtime=0), "https://x.test/s.xml", 10_000)


def _pages(**canonical: str | None) -> dict[str, Page]:
    """By path; None: no document."""
    urls = {name: f"https://x.test/{name}" for name in canonical}
    return {
        urls[name]: Page(
            urls[name], "v" if to is not None else "", canonical=f"https://x.test/{to}" if to else None
        )
        for name, to in canonical.items()
    }


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        (_pages(a="", b=""), "ab"), (_pages(a="", b=None), "a"), (_pages(a="", b="a", c="a"), "a"),
        (_pages(b="a", c="a"), "b"), (_pages(a=None, b="a", c="a"), "b"), (_pages(a="b", b="a"), "ab"),
        (_pages(a="b", b="c", c=""), "ac"), ({}, ""),
    ],
)  # fmt: skip
def test_pages_of_one_canonical_address_are_one_document(pages: dict[str, Page], expected: str) -> None:
    assert [page.url[-1] for page in documents(pages, lambda page, other: True)] == list(expected)


def test_pages_that_differ_from_their_canonical_page_stay_documents() -> None:
    for pages in (_pages(a="", b="a", c="a"), _pages(a="b", b="c", c=""), _pages(b="a", c="a")):
        assert [page.url for page in documents(pages, lambda page, other: False)] == list(pages)


@pytest.mark.parametrize(
    ("path", "content_type", "expected"),
    [
        ("a/b.html", "text/html; charset=utf-8", "b.html"), ("a/b.HTM", "text/html", "b.HTM"),
        ("a/b", "text/html", "b.html"), ("a/", "text/html", "index.html"),
        ("", "application/pdf", "index.pdf"), ("b.php", "text/html", "b.php.html"),
        ("download?id=1", "application/pdf", "download.pdf"), ("v1.2", "text/markdown", "v1.2.md"),
        ("b.py", "text/plain", "b.py"), ("b.md", "text/plain", "b.md"),
        ("b.dat", "application/octet-stream", "b.dat"), ("b", None, "b"),
        ("b%2Fc", "text/html", "b_c.html"),
    ],
)  # fmt: skip
def test_name_of_a_file_is_the_last_path_segment(path: str, content_type: str | None, expected: str) -> None:
    assert blob_name(Page(f"https://x.test/{path}", content_type=content_type)) == expected


def test_words_outside_navigation_are_compared() -> None:
    text = "<p>Boats pay a f&eacute;e of ten crowns for each night in the harbour.</p>"
    plain = shingles(text.encode())
    framed = (
        f"<head><title>x</title></head><nav>Home <nav>News</nav> About</nav><SCRIPT>a</SCRIPT>{text}<footer>!"
    )
    assert shingles(framed.encode()) == plain
    assert are_copies(plain, shingles(f"{text}<p>Print</p>".encode()))
    assert not are_copies(plain, shingles(b"<p>Pilots come aboard off the northern cape at dawn.</p>"))
