"""Listings and files of HTTP and S3 servers that lie, never end, or lead elsewhere."""

import itertools
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from ingestor.connectors.remote import files, systems
from ingestor.connectors.remote.files import Files, FilesOptions
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, Transient
from tests.connectors.laws import broken_off, listed
from tests.connectors.sites import LONG_AGO, Reply, Site, site

pytest.importorskip("aiohttp")


@pytest.fixture
def server() -> Iterator[Site]:
    with site() as server:
        yield server


@pytest.fixture
def victim() -> Iterator[Site]:
    """A server that no other one may lead to."""
    with site() as server:
        yield server
    assert server.asked == []


def http(server: Site, **options: object) -> Files:
    return Files(FilesOptions.model_validate({"url": server.url("/top"), **options}))


def test_folder_that_holds_itself_is_followed_to_a_limit(
    server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_DEEPEST", 5)
    server.fallback = lambda path: Reply(b"<a href='again/'>again</a><a href='a.md'>a</a>")
    found, error = broken_off(http(server))
    assert (len(found), "crawl trap" in str(error), len(server.asked) < 20) == (6, True, True)


def test_folders_without_end_are_followed_to_a_limit(server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_FOLDERS", 30)
    links = map("<a href='{}/'>x</a>".format, itertools.count())
    server.fallback = lambda path: Reply("".join(itertools.islice(links, 10)).encode())
    _, error = broken_off(http(server))
    assert ("crawl trap" in str(error), len(server.asked) < 60) == (True, True)


def test_endless_page_is_refused(server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PAGE", 3_000_000)
    server.replies["/top/"] = Reply(b"<a href='x'>x</a>" * 5000, endless=0)
    with pytest.raises(NeedsHuman, match="more than 3,000,000 bytes"):
        list(http(server).scan())


@pytest.mark.parametrize("path", ["/top/", "/top/a.md"])
def test_redirects_are_not_followed(server: Site, victim: Site, path: str) -> None:
    server.say("/top/", "<a href='a.md'>a</a>")
    server.redirect(path, victim.url("/inner"))
    with pytest.raises((Transient, NeedsHuman)):
        list(map(http(server).fetch, http(server).scan()))


def test_links_elsewhere_are_skipped(server: Site) -> None:
    page = b"<a href='../up.md'>u</a><a href='//evil/x.md'>e</a><a href='%2e%2e/%2e%2e/etc/passwd'>p</a>"
    page += b"<a href='..%2fup.md'>v</a><a href='a%00.md'>n</a><a href='file:///etc/passwd'>f</a>"
    page += b"<a href='b%1b.md'>b</a>"
    server.fallback = lambda path: Reply(page if path.endswith("/") else b"x")
    [key] = listed(http(server))
    assert key.startswith("b") and ".." not in key


LARGER = Reply(b"x" * 100_000, headers={"Content-Length": "5", "ETag": "1"}, endless=0)


@pytest.mark.parametrize("kind", ["http", "s3"])
def test_file_larger_than_it_was_listed_is_not_kept(server: Site, kind: str) -> None:
    server.say("/top/", "<a href='a.md'>a</a>")
    server.fallback = lambda path: Reply(objects("a.md")) if "list-type" in path else LARGER
    connector = s3(server) if kind == "s3" else http(server, max_size=1_000_000)
    [item] = list(connector.scan())
    with pytest.raises((BadDocument, Transient), match=r"1,000,001 bytes|changed|can't be read"):
        connector.fetch(item)


def test_dripping_file_is_cancelled_at_the_deadline(server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "SECONDS", 0.4)
    server.replies["/top/a.md"] = Reply(b"x", endless=0.05)
    with pytest.raises(Transient, match="can't be read now"):
        http(server).fetch(Item("a.md", "1", "a", 5))


def s3(server: Site) -> Files:
    pytest.importorskip("s3fs")
    told = {"endpoint_url": server.url(""), "key": "k", "secret": "s"}
    return Files(FilesOptions.model_validate({"url": "s3://bucket", "options": told, "max_size": 1_000_000}))


def objects(*keys: str, more: str = "") -> bytes:
    facts = "<LastModified>2025-02-01T10:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag><Size>5</Size>"
    facts += "<StorageClass>STANDARD</StorageClass>"
    entries = "".join(f"<Contents><Key>{key}</Key>{facts}</Contents>" for key in keys)
    truncated = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{more}</NextContinuationToken>"
    head = "<ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Name>bucket</Name>"
    end = truncated if more else "<IsTruncated>false</IsTruncated>"
    return f"{head}<EncodingType>url</EncodingType>{entries}{end}</ListBucketResult>".encode()


@pytest.mark.parametrize("repeats", [False, True])
def test_s3_listing_without_end_needs_a_person(
    server: Site, repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "MOST_KEYS", 50)
    number = itertools.count()

    def page(path: str) -> Reply:
        keys = ["a.md"] if repeats else [f"{next(number)}.md" for _ in range(10)]
        return Reply(objects(*keys, more="same" if repeats else str(next(number))))

    server.fallback = page
    with pytest.raises((NeedsHuman, Transient), match="bucket" if repeats else "more than 50 keys"):
        list(s3(server).scan())
    assert repeats or len(server.asked) < 15


def test_odd_s3_keys_are_harmless_and_lead_back(server: Site) -> None:
    keys = ["../../etc/passwd.md", "a%1B%5B31m.md", "/abs.md", "a//b.md", "d/../e.md", "%E2%80%AEx.md"]
    listing = lambda path: "list-type" in parse_qs(urlsplit(path).query)  # noqa: E731
    found = Reply(b"12345", headers={"ETag": '"1"', "Last-Modified": LONG_AGO})
    server.fallback = lambda path: Reply(objects(*keys)) if listing(path) else found
    connector = s3(server)
    items = list(connector.scan())
    assert len(items) >= 3
    assert {connector.fetch(item).data for item in items} == {b"12345"}
    assert all(path.startswith("/bucket") for path, _ in server.asked)


def test_s3_redirects_are_not_followed(server: Site, victim: Site) -> None:
    place = f"<Endpoint>{urlsplit(victim.url()).netloc}</Endpoint>"
    body = f"<Error><Code>PermanentRedirect</Code>{place}</Error>".encode()
    server.fallback = lambda path: Reply(body, 301, {"Location": victim.url()})
    with pytest.raises((NeedsHuman, Transient)):
        list(s3(server).scan())
    assert server.asked
