"""A website that tests change: a real HTTP server, whose every request is noted."""

import base64
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape, quoteattr

from ingestor.connectors.http.network import Outside
from ingestor.connectors.web.connector import Web, WebOptions
from ingestor.connectors.web.feed import FeedConnector, FeedOptions
from ingestor.model import Blob, Item
from ingestor.ports import Connector
from tests.connectors.laws import listed
from tests.waiting import LONG

TYPES = {"html": "text/html", "md": "text/markdown", "pdf": "application/pdf", "txt": "text/plain"}
LONG_AGO = "Sat, 01 Feb 2025 10:00:00 GMT"


@dataclass
class Reply:
    """The reply of a path.

    ``raw``: written as it is, in place of everything else. ``endless``: the body comes again and again, with
    so many seconds between.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    etag: bool = True
    raw: bytes | None = None
    endless: float | None = None


class Site(ThreadingHTTPServer):
    """``replies`` by path with query; ``fallback`` for any other. ``asked``: (path, headers), in order."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), _Handler)
        self.replies: dict[str, Reply] = {}
        self.fallback: Callable[[str], Reply | None] = lambda path: None
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.refuses = False
        self.login: str | None = None  # user:password, where one is needed
        self.busy = False
        self.cut: int | None = None  # bytes after which each answer ends
        self.bodies = 0  # sent with status 200
        self.lock = threading.Lock()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str = "/") -> str:
        return f"http://{self.server_address[0]}:{self.port}{path}"

    def say(self, path: str, body: bytes | str = b"", status: int = 200, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.replies[path] = Reply(data, status, named)

    def html(self, path: str, *links: str, head: str = "", text: str = "A page.") -> None:
        anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links)
        page = f"<html><head>{head}</head><body><h1>{path}</h1><p>{text}</p>{anchors}</body></html>"
        self.say(path, page, Content_Type="text/html; charset=utf-8")

    def redirect(self, path: str, to: str, status: int = 302) -> None:
        self.say(path, status=status, Location=to)

    def paths(self) -> list[str]:
        """What was asked since the last time, without robots.txt."""
        with self.lock:
            asked, self.asked = self.asked, []
        return [path for path, _ in asked if path != "/robots.txt"]

    def process_request(self, request: object, client_address: object) -> None:
        self.connections += 1
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away in the middle, as they should."""


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # or an answer in two parts waits for 40 ms
    protocol_version = "HTTP/1.1"
    server: Site
    timeout = 30
    wbufsize = -1

    def do_GET(self) -> None:
        site = self.server
        with site.lock:
            site.asked.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
        if site.refuses:
            self.close_connection = True
            return
        reply = site.replies.get(self.path) or site.fallback(self.path) or Reply(b"nothing", 404)
        login = base64.b64encode((site.login or "").encode()).decode()
        if site.login and self.headers.get("Authorization") != f"Basic {login}":
            reply = Reply(b"who are you?", 401)
        elif site.busy:
            reply = Reply(b"later", 429, {"Retry-After": "120"})
        if reply.raw is not None:
            self.wfile.write(reply.raw)
            self.close_connection = True
            return
        self._send(reply)

    do_HEAD = do_GET  # noqa: N815 - the standard library's name

    def _send(self, reply: Reply) -> None:
        headers = dict(reply.headers)
        if reply.etag and reply.status == 200:
            headers.setdefault("ETag", f'"{sha256(reply.body + repr(headers).encode()).hexdigest()[:16]}"')
        asked = self.headers
        if reply.status == 200 and (
            ("ETag" in headers and asked.get("If-None-Match") == headers["ETag"])
            or ("ETag" not in headers and asked.get("If-Modified-Since", "") == headers.get("Last-Modified"))
        ):
            reply, headers = Reply(status=304), {"ETag": headers.get("ETag", "")}
        self.send_response(reply.status)
        if reply.status != 304:
            headers.setdefault("Content-Length", str(len(reply.body)))
        for name, text in headers.items():
            if name != "Content-Length" or reply.endless is None or self.command == "HEAD":
                self.send_header(name, text)
        self.end_headers()
        if self.command == "HEAD":
            return
        while reply.endless is not None:
            self.wfile.write(reply.body)
            self.wfile.flush()
            time.sleep(reply.endless)
        self.server.bodies += bool(reply.status == 200)
        self.wfile.write(reply.body[: self.server.cut])
        self.close_connection = self.close_connection or self.server.cut is not None

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def site(address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    server = Site(address, port)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LONG)


@dataclass
class Clock:
    """Time that passes only while somebody sleeps; ``slept``: how long, each time."""

    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return time.time() + sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def outside(clock: Clock | None = None, **names: list[str]) -> Outside:
    """``names``: what they resolve to, one after another; the last for good. ``_`` stands for a dot."""
    left = {name.replace("_", "."): list(addresses) for name, addresses in names.items()}

    def resolve(host: str, port: int) -> list[str]:
        if host in left:
            found = left[host].pop(0) if len(left[host]) > 1 else left[host][0]
            return found.split()
        return Outside().resolve(host, port)

    clock = clock or Clock()
    return Outside(resolve, clock.sleep, clock.now)


class ByPath:
    """A connector whose keys are called otherwise."""

    def __init__(self, connector: Connector, name: Callable[[str], str]) -> None:
        self._connector, self._name = connector, name
        self._keys: dict[str, str] = {}

    def scan(self) -> Iterator[Item]:
        for item in self._connector.scan():
            self._keys[self._name(item.key)] = item.key
            yield replace(item, key=self._name(item.key))

    def fetch(self, item: Item) -> Blob:
        return self._connector.fetch(replace(item, key=self._keys[item.key]))


class ServedWorld:
    """What the ``World`` of the connector laws has in common, whatever tells what is there."""

    secret = "s3cret"
    connector: Connector

    def __init__(self, site: Site) -> None:
        self._site, self._clock = site, Clock()
        self._keys: dict[str, int] = {}  # how often each was written
        self._writes = 0
        site.login = f"ada:{self.secret}"
        login = {"user": "ada", "password": self.secret}
        self.source: dict[str, object] = {**login, "allow_private": ["127.0.0.1"], "delay": 0}
        self._tell()

    def put(self, key: str, data: bytes) -> None:
        kind = TYPES.get(key.rpartition(".")[2], "application/octet-stream")
        self._site.say(path_of(key), data, Content_Type=kind)
        self._note(key)

    def delete(self, key: str) -> None:
        del self._site.replies[path_of(key)]
        del self._keys[key]
        self._tell()

    def move(self, old: str, new: str) -> None:
        self._site.replies[path_of(new)] = self._site.replies[path_of(old)]
        self._note(new)
        self.delete(old)

    def fail(self) -> None:
        self._site.refuses = True

    def deny(self) -> None:
        self._site.login = "eve:other"

    def throttle(self) -> None:
        self._site.busy = True

    def cut(self, after: int) -> None:
        self._site.cut = after

    def relent(self) -> None:
        self._site.login, self._site.busy, self._site.cut = f"ada:{self.secret}", False, None
        self._clock.sleep(3600)

    def reads(self) -> int:
        return self._site.bodies

    def _note(self, key: str) -> None:
        self._writes += 1
        self._keys[key] = self._writes
        self._tell()

    def _tell(self) -> None:
        raise NotImplementedError


def path_of(key: str) -> str:
    return "/files/" + quote(key, safe="/!$&'()*+,;=:@")


class SiteWorld(ServedWorld):
    """What is there is named by a sitemap, or by a page of links."""

    def __init__(self, site: Site, cache: Path, follow: str = "sitemap") -> None:
        self._follow = follow
        super().__init__(site)
        start = site.url("/map/sitemap.xml" if follow == "sitemap" else "/files/")
        self.source |= {"start": [start], "follow": follow, "cache": str(cache)}
        web = Web(WebOptions.model_validate(self.source), outside(self._clock))
        self.connector = ByPath(web, lambda key: unquote(key.removeprefix(site.url("/files/"))))

    def _tell(self) -> None:
        paths = [escape(path_of(key)) for key in self._keys]
        if self._follow == "sitemap":
            self._site.say("/map/sitemap.xml", sitemap_of(*paths), Content_Type="application/xml")
        else:
            self._site.html("/files/", *paths, head='<meta name="robots" content="noindex">')


def sitemap_of(*urls: str) -> str:
    locations = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locations}</urlset>'


class FeedWorld(ServedWorld):
    """What is there are articles that a feed links to; what leaves the feed goes."""

    def __init__(self, site: Site, state: Path) -> None:
        super().__init__(site)
        self.source |= {"url": site.url("/feed"), "full_article": True, "keep": False, "state": str(state)}
        feed = FeedConnector(FeedOptions.model_validate(self.source), outside(self._clock))
        self.connector = ByPath(feed, lambda key: unquote(key.removeprefix("tag:")))

    def _tell(self) -> None:
        entries = "".join(
            f"<entry><id>tag:{quote(key)}</id><title>x</title><link href={quoteattr(path_of(key))}/>"
            f"<updated>2026-01-01T00:00:00.{number:03}Z</updated><summary>{number}</summary></entry>"
            for key, number in self._keys.items()
        )
        self._site.say("/feed", atom_of(entries), Content_Type="application/atom+xml")


def atom_of(entries: str) -> str:
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><id>x</id>{entries}</feed>'


def web(server: Site, cache: Path, *starts: str, clock: Clock | None = None, **options: object) -> Web:
    """Return the connector of a site, which follows links from ``starts``."""
    start = [server.url(path) for path in starts or ("/",)]
    given = {"start": start, "follow": "links", "allow_private": ["127.0.0.1"], "delay": 0, "cache": cache}
    return Web(WebOptions.model_validate({**given, **options}), outside(clock))


def keys(server: Site, connector: Web) -> list[str]:
    return [key.removeprefix(server.url("")) for key in listed(connector)]
