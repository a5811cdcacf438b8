"""Listings and files of HTTP and S3 servers that lie, never end, or lead elsewhere."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from ingestor.connectors.remote import files, systems
from ingestor.connectors.remote.files import Files, FilesOptions
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, PartialScan, Transient

pytest.importorskip("aiohttp")
Answer = Callable[[BaseHTTPRequestHandler], None]
_HEADERS = {"ETag": '"1"', "Last-Modified": "Sat, 01 Feb 2025 10:00:00 GMT"}


def say(asked: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    asked.send_response(status)
    for name, value in {**_HEADERS, "Content-Length": str(len(body)), **headers}.items():
        asked.send_header(name.replace("_", "-"), value)
    asked.end_headers()
    if asked.command == "GET":
        asked.wfile.write(body)


def endless(asked: BaseHTTPRequestHandler, part: bytes) -> None:
    asked.send_response(200)
    for name, value in _HEADERS.items():
        asked.send_header(name, value)
    asked.end_headers()
    while asked.command == "GET":
        asked.wfile.write(part)


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path)
            with suppress(OSError):  # nobody may listen any more
                answer(self)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", heard
        finally:
            server.shutdown()
            thread.join()


def http(url: str, **options: object) -> Files:
    return Files(FilesOptions.model_validate({"url": f"{url}/top", **options}))


def scanned(connector: Files) -> tuple[list[str], PartialScan | None]:
    found: list[str] = []
    try:
        found.extend(item.key for item in connector.scan())
    except PartialScan as error:
        return found, error
    return found, None


def test_folder_that_holds_itself_is_followed_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_DEEPEST", 5)
    with serving(lambda asked: say(asked, b"<a href='again/'>again</a><a href='a.md'>a</a>")) as (url, heard):
        found, partial = scanned(http(url))
    assert len(found) == 6
    assert partial is not None and "crawl trap" in str(partial)
    assert len(heard) < 20


def test_folders_without_end_are_followed_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_FOLDERS", 30)
    number = itertools.count()

    def page(asked: BaseHTTPRequestHandler) -> None:
        links = [f"<a href='{next(number)}/'>x</a>".encode() for _ in range(10)]
        say(asked, b"".join(links))

    with serving(page) as (url, heard):
        _, partial = scanned(http(url))
    assert partial is not None and "crawl trap" in str(partial)
    assert len(heard) < 60


def test_endless_page_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PAGE", 3_000_000)
    page = b"<a href='x'>x</a>" * 5000
    with (
        serving(lambda asked: endless(asked, page)) as (url, _),
        pytest.raises(NeedsHuman, match="more than 3,000,000 bytes"),
    ):
        list(http(url).scan())


@pytest.mark.parametrize("path", ["/top/", "/top/a.md"])
def test_redirects_are_not_followed(path: str) -> None:
    with serving(lambda asked: say(asked, b"secret")) as (victim, reached):

        def lead(asked: BaseHTTPRequestHandler) -> None:
            if asked.path == path:
                say(asked, b"", 302, Location=f"{victim}/inner")
            else:
                say(asked, b"<a href='a.md'>a</a>")

        with serving(lead) as (url, _), pytest.raises((Transient, NeedsHuman)):
            list(map(http(url).fetch, http(url).scan()))
    assert not reached


def test_links_elsewhere_are_skipped() -> None:
    page = b"<a href='../up.md'>u</a><a href='//evil/x.md'>e</a><a href='%2e%2e/%2e%2e/etc/passwd'>p</a>"
    page += b"<a href='..%2fup.md'>v</a><a href='a%00.md'>n</a><a href='file:///etc/passwd'>f</a>"
    page += b"<a href='b%1b.md'>b</a>"
    with serving(lambda asked: say(asked, page if asked.path.endswith("/") else b"x")) as (url, _):
        found, _ = scanned(http(url))
    assert len(found) == 1 and found[0].startswith("b") and ".." not in found[0]


def test_file_larger_than_it_was_listed_is_not_kept() -> None:
    def lie(asked: BaseHTTPRequestHandler) -> None:
        if asked.path == "/top/":
            say(asked, b"<a href='a.md'>a</a>")
        elif asked.command == "HEAD":
            say(asked, b"x" * 5)
        else:
            endless(asked, b"x" * 100_000)

    with serving(lie) as (url, _):
        connector = http(url, max_size=1_000_000)
        [item] = list(connector.scan())
        with pytest.raises((BadDocument, Transient), match=r"1,000,001 bytes|changed|can't be read"):
            connector.fetch(item)


def test_dripping_file_is_cancelled_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "SECONDS", 1.0)
    over = threading.Event()

    def drip(asked: BaseHTTPRequestHandler) -> None:
        asked.send_response(200)
        asked.end_headers()
        while not over.wait(0.05):
            asked.wfile.write(b"x")

    with serving(drip) as (url, _):
        with pytest.raises(Transient, match="can't be read now"):
            http(url).fetch(Item("a.md", "1", "a", 5))
        over.set()


def s3(url: str, **options: object) -> Files:
    pytest.importorskip("s3fs")
    told = {"endpoint_url": url, "key": "k", "secret": "s", **options}
    return Files(FilesOptions.model_validate({"url": "s3://bucket", "options": told, "max_size": 1_000_000}))


def objects(*keys: str, more: str = "") -> bytes:
    entries = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2025-02-01T10:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag>"
        f"<Size>5</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for key in keys
    )
    truncated = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{more}</NextContinuationToken>"
    head = "<ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Name>bucket</Name>"
    end = truncated if more else "<IsTruncated>false</IsTruncated>"
    return f"{head}<EncodingType>url</EncodingType>{entries}{end}</ListBucketResult>".encode()


def test_s3_listing_without_end_needs_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "MOST_KEYS", 50)
    number = itertools.count()

    def page(asked: BaseHTTPRequestHandler) -> None:
        say(asked, objects(*(f"{next(number)}.md" for _ in range(10)), more=str(next(number))))

    with serving(page) as (url, heard):
        with pytest.raises(NeedsHuman, match="more than 50 keys"):
            list(s3(url).scan())
        assert len(heard) < 15


def test_s3_listing_that_repeats_itself_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "MOST_KEYS", 50)
    page = objects("a.md", more="same")
    with serving(lambda asked: say(asked, page)) as (url, _), pytest.raises((NeedsHuman, Transient)):
        list(s3(url).scan())


def test_odd_s3_keys_are_harmless_and_lead_back(tmp_path: Path) -> None:
    keys = ["../../etc/passwd.md", "a%1B%5B31m.md", "/abs.md", "a//b.md", "d/../e.md", "%E2%80%AEx.md"]

    def answer(asked: BaseHTTPRequestHandler) -> None:
        listing = "list-type" in parse_qs(urlsplit(asked.path).query)
        say(asked, objects(*keys) if listing else b"12345")

    with serving(answer) as (url, heard):
        connector = s3(url)
        found = list(connector.scan())
        assert len(found) >= 3
        for item in found:
            assert connector.fetch(item).data == b"12345"
    assert all(path.startswith("/bucket") for path in heard)


def test_s3_object_larger_than_it_was_listed_is_not_kept() -> None:
    def answer(asked: BaseHTTPRequestHandler) -> None:
        if "list-type" in asked.path:
            say(asked, objects("a.md"))
        else:
            endless(asked, b"x" * 100_000)

    with serving(answer) as (url, _):
        connector = s3(url)
        [item] = list(connector.scan())
        with pytest.raises((BadDocument, Transient)):
            connector.fetch(item)


def test_s3_redirects_are_not_followed() -> None:
    with serving(lambda asked: say(asked, objects("secret.md"))) as (victim, reached):
        body = f"<Error><Code>PermanentRedirect</Code><Endpoint>{urlsplit(victim).netloc}</Endpoint></Error>"
        with serving(lambda asked: say(asked, body.encode(), 301, Location=victim)) as (url, heard):
            with pytest.raises((NeedsHuman, Transient)):
                list(s3(url).scan())
            assert heard
    assert not reached
