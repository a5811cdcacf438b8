"""Addresses that may be asked, and URLs with their one spelling, by tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.connectors.http.address import is_public, may_connect, parse_allowed
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


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.1", "192.0.1.1",
     "198.17.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
     "2002:808:808::1"],
)  # fmt: skip
def test_public_address_may_be_requested(address: str) -> None:
    assert is_public(address)
    assert may_connect("x.test", address, parse_allowed([]))


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
    assert not may_connect("x.test", address, parse_allowed([]))
    assert not may_connect("x.test", address, parse_allowed(["y.test", "9.9.9.0/24", "2606::/16"]))


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
def test_addresses_of_the_config_are_allowed(entry: str, host: str, address: str, expected: bool) -> None:
    assert may_connect(host, address, parse_allowed([entry])) is expected


def test_allowed_entry_without_meaning_is_refused() -> None:
    for entry in ("", "10.1.0.0/8", "10.1.2", "10.0.0.256", "http://x", "x.test:80", "x.test/8"):
        with pytest.raises(ValueError, match=r"neither a host's name nor a network"):
            parse_allowed([entry])


@given(st.integers(0, 2**32 - 1))
def test_address_in_ipv6_is_judged_as_what_it_carries(number: int) -> None:
    plain = is_public(".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0)))
    high, low = number >> 16, number & 0xFFFF
    for form in (f"::ffff:{high:x}:{low:x}", f"64:ff9b::{high:x}:{low:x}", f"2002:{high:x}:{low:x}::1"):
        assert is_public(form) is plain


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


def test_relative_url_is_resolved() -> None:
    links = {
        "b": "https://x.test/a/b", "../b": "https://x.test/b", "/b": "https://x.test/b", "http://[": None,
        "//y.test/b": "https://y.test/b", "?q": "https://x.test/a/page?q", "#top": "https://x.test/a/page",
    }  # fmt: skip
    assert {link: normal(link, "https://x.test/a/page") for link in links} == links


@given(st.text())
def test_any_text_is_a_url_in_its_one_spelling_or_none(text: str) -> None:
    for url in (normal(text), normal(text, "https://x.test/a/b?c")):
        assert url is None or (normal(url) == url and url.isascii() and port_of(url) >= 0)


def test_url_is_split_into_its_parts() -> None:
    url = "https://x.test:8443/a/b%20c.html?q=1"
    assert (origin(url), port_of(url)) == ("https://x.test:8443", 8443)
    assert (folder(url), file_name(url)) == ("https://x.test:8443/a/", "b c.html")
    assert path_names(url) == ["a", "b c.html?q=1"]
    assert path_names("https://x.test/") == [""]
    assert file_name("https://x.test/a/") == ""
    assert lies_below(url, ["https://x.test:8443/a/"])
    assert lies_below("https://x.test/a", ["https://x.test/a/"])
    assert not lies_below("https://x.test/ab", ["https://x.test/a/"])


def test_repeating_url_is_judged_endless() -> None:
    paths = {
        "a/b/c": False,
        "a/a/a/b": False,
        "a/b/a/b/a/b/a/b": True,
        "x" * 2000: True,
        "1/2/3/4/5/6": False,
    }
    assert {path: looks_endless(f"https://x.test/{path}") for path in paths} == paths
