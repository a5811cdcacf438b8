"""Headers, bodies and robots.txt, by tables."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.connectors.http.answers import (
    Validators,
    canonical_link,
    day_of_change,
    honest_type,
    robots_rules,
    robots_words,
    validators,
)
from ingestor.connectors.http.body import Body, TooLarge

NOW = "Sat, 01 Feb 2025 10:00:00 GMT"
AT = 1738404000.0


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
def test_version_changes_with_content_or_validators(headers: dict[str, str], expected: Validators) -> None:
    assert validators(headers) == expected


def test_day_of_change_is_read_from_last_modified() -> None:
    days = [day_of_change(headers) for headers in ({"last-modified": NOW}, {"last-modified": "x"}, {})]
    assert days == [AT - 36_000, None, None]


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
def test_robots_headers_are_read(tag: str, expected: set[str]) -> None:
    assert robots_words({"x-robots-tag": tag}, "ingestor") == expected


def test_canonical_link_is_read_from_its_header() -> None:
    links = {'</a.pdf>; rel="canonical"': "/a.pdf", "</n>; rel=next, </a>; rel=canonical": "/a"}
    links |= dict.fromkeys(('</a>; rel="next"', "nothing"))
    assert {link: canonical_link({"link": link}) for link in links} == links


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
def test_charset_is_believed_if_it_can_be(declared: str | None, data: bytes, expected: str | None) -> None:
    assert honest_type(declared, data) == expected


@given(st.binary(max_size=2000), st.integers(1, 50), st.integers(0, 2000))
def test_packed_body_comes_in_any_pieces_and_is_never_more_than_its_limit(
    data: bytes, step: int, limit: int
) -> None:
    packed = gzip.compress(data, mtime=0)
    for most in (100_000, limit):
        body = Body("gzip", most)
        try:
            for at in range(0, len(packed), step):
                body.add(packed[at : at + step])
            assert body.finish() == data
        except TooLarge:
            assert max(len(data), len(packed)) > most


ROBOTS = b"""\xef\xbb\xbfUser-agent: *
Disallow: /private/
Allow: /private/open
Disallow: /*.php$
Crawl-delay: 3

User-agent: badbot
Disallow: /
Sitemap: https://x.test/map.xml
"""


def test_robots_txt_gives_rules_delay_and_sitemaps() -> None:
    found = robots_rules(ROBOTS)
    paths = {"/": True, "/private/a": False, "/private/open": True, "/a.php": False, "/a.php?x": True}
    assert {path: found.allow(f"https://x.test{path}") for path in paths} == paths
    assert (found.delay, found.sitemaps) == (3.0, ("https://x.test/map.xml",))
    assert robots_rules(b"User-agent: *\nCrawl-delay: 86400").delay == 60.0
    assert robots_rules(b"User-agent: *\nRequest-rate: 1/5").delay == 5.0


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
def test_robots_txt_group_applies_to_the_agents_it_names(text: bytes, path: str, expected: bool) -> None:
    assert robots_rules(text).allow(f"https://x.test{path}") is expected
