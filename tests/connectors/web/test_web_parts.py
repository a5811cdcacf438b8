"""The pure parts of the web connector, by tables."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.connectors.http.address import allowed, is_public, may_ask
from ingestor.connectors.http.answers import Page
from ingestor.connectors.http.body import Body, Broken, TooLarge
from ingestor.connectors.http.headers import (
    Validators,
    canonical_link,
    day_of_change,
    honest_type,
    retry_after,
    robots_words,
    validators,
)
from ingestor.connectors.http.robots import rules
from ingestor.connectors.http.url import (
    file_name,
    folder,
    lies_below,
    looks_endless,
    normal,
    origin,
    path_names,
    port_of,
)
from ingestor.connectors.web.content import blob_name, documents
from ingestor.connectors.web.page import said_by
from ingestor.connectors.web.sitemap import Sitemap, sitemap

# -- addresses


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.1", "192.0.1.1",
     "198.17.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
     "2002:808:808::1"],
)  # fmt: skip
def test_public_addresses(address: str) -> None:
    assert is_public(address)
    assert may_ask("x.test", address, allowed([]))


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1",
     "127.255.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1",
     "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
     "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1",
     "::ffff:0:7f00:1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
     "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1",
     "2002:a9fe:a9fe::", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1",
     "fe80::1%eth0", "fec0::1", "ff02::1"],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert not may_ask("x.test", address, allowed([]))
    assert not may_ask("x.test", address, allowed(["y.test", "9.9.9.0/24", "2606::/16"]))


@pytest.mark.parametrize(
    ("entry", "host", "address", "expected"),
    [
        ("intranet.test", "intranet.test", "10.1.2.3", True),
        ("Intranet.TEST.", "intranet.test", "fd12::1", True),
        ("intranet.test", "intranet.test", "127.0.0.1", True),
        ("intranet.test", "sub.intranet.test", "10.1.2.3", False),
        ("intranet.test", "intranet.test", "169.254.169.254", False),
        ("intranet.test", "intranet.test", "::ffff:169.254.169.254", False),
        ("10.1.0.0/16", "any.test", "10.1.2.3", True),
        ("10.1.0.0/16", "any.test", "::ffff:10.1.2.3", True),
        ("10.1.0.0/16", "any.test", "10.2.0.1", False),
        ("127.0.0.1", "any.test", "127.0.0.1", True),
        ("127.0.0.1", "any.test", "127.0.0.2", False),
        ("fd00::/8", "any.test", "fd12::1", True),
        ("::1", "any.test", "::1", True),
    ],
)
def test_what_the_config_allows(entry: str, host: str, address: str, expected: bool) -> None:
    assert may_ask(host, address, allowed([entry])) is expected


@pytest.mark.parametrize(
    "entry", ["", "10.1.0.0/8", "10.1.2", "10.0.0.256", "http://x", "x.test:80", "x.test/8"]
)
def test_what_it_can_not_mean(entry: str) -> None:
    with pytest.raises(ValueError, match=r"neither a host's name nor a network"):
        allowed([entry])


@given(st.integers(0, 2**32 - 1))
def test_an_address_in_ipv6_is_judged_as_what_it_carries(number: int) -> None:
    plain = is_public(".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0)))
    high, low = number >> 16, number & 0xFFFF
    for form in (f"::ffff:{high:x}:{low:x}", f"64:ff9b::{high:x}:{low:x}", f"2002:{high:x}:{low:x}::1"):
        assert is_public(form) is plain


# -- URLs


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://Example.ORG", "https://example.org/"),
        ("https://example.org:443/a", "https://example.org/a"),
        ("http://example.org:80", "http://example.org/"),
        ("http://example.org:8080/", "http://example.org:8080/"),
        ("https://example.org./a", "https://example.org/a"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("https://example.org/a?#part", "https://example.org/a"),
        ("https://example.org?q=1", "https://example.org/?q=1"),
        ("https://example.org/a/./b/../c", "https://example.org/a/c"),
        ("https://example.org/../..", "https://example.org/"),
        ("https://example.org/a/..", "https://example.org/"),
        ("https://example.org/a/b/.", "https://example.org/a/b/"),
        ("https://example.org/%7Eada/%e4%b8%ad", "https://example.org/~ada/%E4%B8%AD"),
        ("https://example.org/中 x", "https://example.org/%E4%B8%AD%20x"),
        ("https://example.org/100%", "https://example.org/100%25"),
        ("https://example.org/a%2Fb", "https://example.org/a%2Fb"),
        ("https://example.org/?b=2&a=1", "https://example.org/?b=2&a=1"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("  https://example.org/a\n", "https://example.org/a"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("https://example.org/a\\b", "https://example.org/a%5Cb"),
        *((url, None) for url in (
            "", "ftp://example.org/", "mailto:a@b", "javascript:x()", "file:///etc/passwd", "http:///x", "http://",
            "https://ada:secret@example.org/", "https://good.test@evil.test/", "https://evil.test\\@good.test/",
            "http://example.org:99999/", "http://exa mple.org/", "http://a..b/", "http://[::1/", "http://[x]/",
            "http://" + "a" * 64 + "/", "http://exa%6dple.org/",
        )),
    ],
)  # fmt: skip
def test_urls_have_one_spelling(url: str, expected: str | None) -> None:
    assert normal(url) == expected
    if expected:
        assert normal(expected) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("b", "https://x.test/a/b"),
        ("../b", "https://x.test/b"),
        ("/b", "https://x.test/b"),
        ("//y.test/b", "https://y.test/b"),
        ("?q", "https://x.test/a/page?q"),
        ("#top", "https://x.test/a/page"),
        ("http://[", None),
    ],
)
def test_relative_urls(url: str, expected: str | None) -> None:
    assert normal(url, "https://x.test/a/page") == expected


@given(st.text())
def test_any_text_is_a_url_in_its_one_spelling_or_none(text: str) -> None:
    for url in (normal(text), normal(text, "https://x.test/a/b?c")):
        assert url is None or (normal(url) == url and url.isascii() and port_of(url) >= 0)


def test_parts_of_urls() -> None:
    url = "https://x.test:8443/a/b%20c.html?q=1"
    assert (origin(url), port_of(url)) == ("https://x.test:8443", 8443)
    assert (folder(url), file_name(url)) == ("https://x.test:8443/a/", "b c.html")
    assert path_names(url) == ["a", "b c.html?q=1"]
    assert path_names("https://x.test/") == [""]
    assert file_name("https://x.test/a/") == ""
    assert lies_below(url, ["https://x.test:8443/a/"])
    assert lies_below("https://x.test/a", ["https://x.test/a/"])
    assert not lies_below("https://x.test/ab", ["https://x.test/a/"])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b/c", False),
        ("a/a/a/b", False),
        ("a/b/a/b/a/b/a/b", True),
        ("x" * 2000, True),
        ("1/2/3/4/5/6/7/8", False),
    ],
)
def test_urls_that_look_endless(path: str, expected: bool) -> None:
    assert looks_endless(f"https://x.test/{path}") is expected


# -- headers

NOW = "Sat, 01 Feb 2025 10:00:00 GMT"
AT = 1738404000.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("120", 120.0), (" 5 ", 5.0), ("0", 0.0), ("Sat, 01 Feb 2025 10:01:00 GMT", 60.0), (NOW, 0.0),
     (None, None), ("Sat, 01 Feb 2020 10:01:00 GMT", 0.0), ("soon", None), ("-5", None),
     ("9" * 400, None), ("", None)],
)  # fmt: skip
def test_how_long_to_wait(text: str | None, expected: float | None) -> None:
    assert retry_after(text, AT) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, Validators()),
        ({"etag": 'W/"1"', "last-modified": NOW, "date": NOW}, Validators('W/"1"', NOW)),
        ({"last-modified": NOW, "date": "Sat, 01 Feb 2025 10:00:03 GMT"}, Validators(None, NOW)),
        ({"last-modified": NOW, "date": "Sat, 01 Feb 2025 10:00:02 GMT"}, Validators()),
        ({"last-modified": NOW, "date": "Sat, 01 Feb 2025 09:00:00 GMT"}, Validators()),
        ({"last-modified": NOW}, Validators()),
        ({"last-modified": "lately", "date": NOW}, Validators()),
    ],
)
def test_what_tells_versions_apart(headers: dict[str, str], expected: Validators) -> None:
    assert validators(headers) == expected


def test_the_day_of_a_change() -> None:
    assert day_of_change({"last-modified": NOW}) == AT - 36_000
    assert day_of_change({"last-modified": "x"}) is None
    assert day_of_change({}) is None


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("noindex", {"noindex"}),
        ("noindex, nofollow", {"noindex", "nofollow"}),
        ("otherbot: noindex", set()),
        ("ingestor: noindex, nofollow", {"noindex", "nofollow"}),
        ("otherbot: noindex, ingestor: nofollow", {"nofollow"}),
        ("max-snippet: 20, NOINDEX", {"max-snippet: 20", "noindex"}),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST", {"unavailable_after: 25 jun 2030 15:00:00 pst"}),
    ],
)
def test_what_a_server_asks_of_robots(tag: str, expected: set[str]) -> None:
    assert robots_words({"x-robots-tag": tag}, "ingestor") == expected


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ('</a.pdf>; rel="canonical"', "/a.pdf"),
        ("</next>; rel=next, </a>; rel=canonical", "/a"),
        ('</a>; rel="next"', None),
        ("nothing", None),
    ],
)
def test_a_canonical_link_in_a_header(link: str, expected: str | None) -> None:
    assert canonical_link({"link": link}) == expected


@pytest.mark.parametrize(
    ("declared", "data", "expected"),
    [
        (None, b"x", None),
        ("text/html", b"\xe9", "text/html"),
        ("text/html; charset=utf-8", "é".encode(), "text/html; charset=utf-8"),
        ("text/html; charset=utf-8", b"\xe9", "text/html"),
        ("text/html; charset=iso-8859-1", b"\xe9", "text/html; charset=iso-8859-1"),
        ("text/html; charset=nonsense", b"x", "text/html"),
        ("text/html; charset=zlib", b"x", "text/html"),
        ('text/html; charset="utf-8"; x=y', b"\xff", "text/html; x=y"),
    ],
)
def test_a_charset_is_believed_if_it_can_be(declared: str | None, data: bytes, expected: str | None) -> None:
    assert honest_type(declared, data) == expected


# -- bodies


@given(st.binary(max_size=2000), st.integers(1, 50))
def test_a_packed_body_comes_in_any_pieces(data: bytes, step: int) -> None:
    packed = gzip.compress(data, mtime=0)
    body = Body("gzip", 100_000)
    for at in range(0, len(packed), step):
        body.add(packed[at : at + step])
    assert body.done() == data


@given(st.binary(max_size=2000), st.integers(0, 2000))
def test_a_body_is_never_more_than_its_limit(data: bytes, limit: int) -> None:
    packed = gzip.compress(data, mtime=0)
    body = Body("gzip", limit)
    try:
        body.add(packed)
        assert body.done() == data
    except TooLarge:
        assert max(len(data), len(packed)) > limit


# -- robots.txt

ROBOTS = b"""\xef\xbb\xbfUser-agent: *
Disallow: /private/
Allow: /private/open
Disallow: /*.php$
Crawl-delay: 3

User-agent: badbot
Disallow: /
Sitemap: https://x.test/map.xml
"""


def test_a_robots_txt() -> None:
    found = rules(ROBOTS)
    allowed_paths = [
        path
        for path in ("/", "/private/a", "/private/open", "/a.php", "/a.php?x")
        if found.allow(f"https://x.test{path}")
    ]
    assert allowed_paths == ["/", "/private/open", "/a.php?x"]
    assert (found.delay, found.sitemaps) == (3.0, ("https://x.test/map.xml",))


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (b"", "/", True),
        (b"<html>not found</html>", "/", True),
        (b"User-agent: ingestor\nDisallow: /", "/a", False),
        (b"User-agent: ingestor\nDisallow: /\n\nUser-agent: *\nAllow: /", "/a", False),
        (b"User-agent: *\nDisallow: /\n\nUser-agent: ingestor\nDisallow:", "/a", True),
        (b"User-agent: *\nDisallow: /%C3%A9", "/%C3%A9t%C3%A9", False),
    ],
)
def test_whom_a_robots_txt_means(text: bytes, path: str, expected: bool) -> None:
    assert rules(text).allow(f"https://x.test{path}") is expected


def test_delays_are_bounded() -> None:
    assert rules(b"User-agent: *\nCrawl-delay: 86400").delay == 60.0
    assert rules(b"User-agent: *\nRequest-rate: 1/5").delay == 5.0


# -- pages

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


def test_what_a_page_says() -> None:
    said = said_by(PAGE.encode(), "text/html", "https://x.test/a/b", "ingestor")
    assert said.links == (
        "https://x.test/later",
        "https://x.test/base/plain",
        "https://x.test/base/single",
        "https://x.test/base/amp?a=1&b=2",
        "https://other.test/x",
        "https://x.test/area",
    )
    assert said.canonical == "https://x.test/base/c"
    assert said.robots == {"noindex", "nofollow"}


@pytest.mark.parametrize(
    "page",
    ["<a" * 300_000, '<a href="' * 100_000, "<a " + "x" * 500_000, "<a " + "x=" * 200_000, "<!--" * 100_000,
     "<script>" * 50_000, "<a" + " " * 500_000, "<a x" + " " * 300_000 + "=", "<a ='\"" * 60_000,
     "<meta content='" + "a" * 300_000, "<meta http-equiv=refresh content='" + " " * 300_000 + "'>"],
)  # fmt: skip
@pytest.mark.timeout(20)
def test_a_tangled_page_is_read_in_no_time(page: str) -> None:
    said_by(page.encode(), None, "https://x.test/", "ingestor")


@given(st.text(alphabet="<>a =\"'/hrefmt!-s", max_size=60))
def test_any_page_can_be_read(page: str) -> None:
    said_by(page.encode(), "text/html; charset=nonsense", "https://x.test/", "ingestor")


# -- sitemaps


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
        (b"<urlset/>", Sitemap()),
        (b"<urlset><url><loc></loc></url></urlset>", Sitemap()),
        (b'\r\n <?xml version="1.0"?><urlset><url><loc>/a</loc></url></urlset>', Sitemap(("https://x.test/a",))),
        (b"<rss><channel><link>/</link><item><title>/no</title><link>/a</link></item></channel></rss>",
         Sitemap(("https://x.test/a",))),
        (b'<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><entry><link href="/a"/>'
         b'<link rel="edit" href="/no"/></entry></feed>', Sitemap(("https://x.test/a",))),
    ],
)  # fmt: skip
def test_sitemaps(data: bytes, expected: Sitemap) -> None:
    assert sitemap(data, "https://x.test/map/s.xml", 10_000) == expected


BOMB = b'<!DOCTYPE u [<!ENTITY a "aaaaa"><!ENTITY b "&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"<html></html>", "root is <html>"), (b"<urlset><url>", "no element found"),
     (b"maintenance", "neither XML"), (b"", "is empty"), (b"\r\n", "is empty"),
     (BOMB, "declares entities"), (BOMB.decode().encode("utf-16"), "declares entities"),
     (b"\x1f\x8bnonsense", "can't be unpacked")],
)  # fmt: skip
def test_what_is_no_sitemap(data: bytes, message: str) -> None:
    with pytest.raises(Broken, match=message):
        sitemap(data, "https://x.test/s.xml", 10_000)


def test_a_sitemap_that_unpacks_to_too_much() -> None:
    with pytest.raises(TooLarge):
        sitemap(gzip.compress(b"<urlset>" + b" " * 100_000, mtime=0), "https://x.test/s.xml", 10_000)


# -- documents


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
        (_pages(a="", b=""), "ab"),
        (_pages(a="", b=None), "a"),
        (_pages(a="", b="a", c="a"), "a"),
        (_pages(b="a", c="a"), "b"),
        (_pages(a=None, b="a", c="a"), "b"),
        (_pages(a="b", b="a"), "ab"),
        (_pages(a="b", b="c", c=""), "ac"),
        ({}, ""),
    ],
)
def test_pages_of_one_canonical_address_are_one_document(pages: dict[str, Page], expected: str) -> None:
    assert [page.url[-1] for page in documents(pages)] == list(expected)


@pytest.mark.parametrize(
    ("path", "content_type", "expected"),
    [
        ("a/b.html", "text/html; charset=utf-8", "b.html"),
        ("a/b.HTM", "text/html", "b.HTM"),
        ("a/b", "text/html", "b.html"),
        ("a/", "text/html", "index.html"),
        ("", "application/pdf", "index.pdf"),
        ("b.php", "text/html", "b.php.html"),
        ("download?id=1", "application/pdf", "download.pdf"),
        ("v1.2", "text/markdown", "v1.2.md"),
        ("b.py", "text/plain", "b.py"),
        ("b.md", "text/plain", "b.md"),
        ("b.dat", "application/octet-stream", "b.dat"),
        ("b", None, "b"),
        ("b%2Fc", "text/html", "b_c.html"),
    ],
)
def test_the_name_of_a_file(path: str, content_type: str | None, expected: str) -> None:
    assert blob_name(Page(f"https://x.test/{path}", content_type=content_type)) == expected
