"""HTTP requests, one at a time, over connections to allowed addresses (network.py).

Only ``follow`` follows redirects, and checks each target. Secrets are sent to their own origins only; there
are no cookies and no proxies. A request ends at its deadline or its size limit. If a server is busy, the
client waits as long as the header Retry-After says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlsplit

import httpcore

from ingestor import __version__
from ingestor.connectors.http.address import Allowed
from ingestor.connectors.http.answers import (
    AGENT,
    NOTHING,
    Headers,
    HttpAnswer,
    RobotsRules,
    Validators,
    robots_rules,
)
from ingestor.connectors.http.body import ACCEPTED, Body, Broken, TooLarge
from ingestor.connectors.http.network import AddressRefused, AllowedBackend, Outside
from ingestor.connectors.http.url import normal, origin, port_of
from ingestor.ports import Transient
from ingestor.units import retry_after

_CONNECT = 15.0  # seconds, for one address
_LONGEST_WAIT = 30.0  # seconds for a busy server within a request; otherwise the source is retried later
_UNSAID_WAIT = 5.0  # seconds, if a busy server sends no Retry-After
_TRIES = 3
_BUSY = (429, 503)
_SHORT = 100_000  # bytes
MOST_HOPS = 10  # redirects one after another


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of an HTTP client.

    ``secrets``: headers with passwords, which are sent to ``origins`` only. ``contact``: address of a person,
    sent in the header User-Agent.
    """

    origins: frozenset[str]
    secrets: tuple[tuple[str, str], ...] = ()
    allowed: Allowed = field(default_factory=Allowed)
    contact: str = ""
    timeout: float = 60.0  # seconds for a request, to its last byte
    delay: float = 0.0  # seconds between requests to one host
    max_size: int = 50 * 10**6  # bytes of a response's body


_LARGEST_ROBOTS = 5 * 10**6  # bytes of a robots.txt


class WebClient:
    """HTTP client for one scan of a source, for use by one thread.

    ``busy``: for each host, the time in POSIX seconds before which it allows no request. The mapping is kept
    for later scans.
    """

    def __init__(self, terms: Terms, outside: Outside, busy: dict[str, float]) -> None:
        self._terms, self._outside, self._busy = terms, outside, busy
        self._ports = {80, 443, *map(port_of, terms.origins)}
        self._asked: dict[str, float] = {}  # by host: time of the last request
        self.delays: dict[str, float] = {}  # by host: crawl delay of its robots.txt
        self._backend = AllowedBackend(terms.allowed, outside)
        self._pool = httpcore.ConnectionPool(
            ssl_context=outside.ssl_context,
            max_connections=8,
            keepalive_expiry=60,
            network_backend=self._backend,
        )

    def __enter__(self) -> "WebClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._pool.close()

    def get(self, url: str, validators: Validators = NOTHING, limit: int | None = None) -> HttpAnswer:
        """Send a request, and return the response, whatever its status.

        ``validators``: validators of the last response, to make the request conditional. ``limit``: largest
        size of the body in bytes; by default ``max_size``. Raises AddressRefused. Raises Transient if the
        server does not answer or is busy.
        """
        host = urlsplit(url).netloc
        for attempt in range(1, _TRIES + 1):
            self._pace(host)
            answer = self._once(url, validators, limit or self._terms.max_size)
            if answer.status not in _BUSY:
                break
            wait = retry_after(answer.headers.get("retry-after"), self._outside.now())
            if wait is None and answer.status == 503:  # concerns one page only
                break
            wait = _UNSAID_WAIT if wait is None else wait
            if attempt == _TRIES or wait > _LONGEST_WAIT:
                self._busy[host] = self._outside.now() + wait
                raise Transient(
                    f"{url} asks to wait {wait:.0f} s before the next request "
                    f"(HTTP {answer.status}), will be retried"
                )
            self._outside.sleep(wait)
        return answer

    def follow(
        self, url: str, validators: Validators = NOTHING, last_address: str = "", limit: int | None = None
    ) -> HttpAnswer:
        """Send a request, follow redirects, and return the last response.

        ``validators``: validators of the page at ``last_address``, which are sent to that address only.
        Raises Transient. Raises AddressRefused if an address is not allowed, or after too many redirects.
        """
        at = url
        for _ in range(MOST_HOPS + 1):
            answer = self.get(at, validators if at == last_address else NOTHING, limit)
            if answer.location is None:
                return answer
            at = answer.location
        raise AddressRefused(f"{url} redirects more than {MOST_HOPS} times")

    def _pace(self, host: str) -> None:
        """Wait until the required delay since the last request to a host has passed.

        Raises Transient if the host is busy, and has asked to wait for longer.
        """
        wait = self._busy.get(host, 0.0) - self._outside.now()
        if wait > 0:
            raise Transient(
                f"{host} asks to wait {wait:.0f} s before the next request (Retry-After), will be retried"
            )
        delay = max(self._terms.delay, self.delays.get(host, 0.0))
        early = self._asked.get(host, 0.0) + delay - self._outside.now()
        if 0 < early <= delay:
            self._outside.sleep(early)
        self._asked[host] = self._outside.now()

    def _once(self, url: str, validators: Validators, limit: int) -> HttpAnswer:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or port_of(url) not in self._ports:
            raise AddressRefused(f"{url} is not read: only http and https on the usual ports are allowed")
        target = httpcore.URL(
            scheme=parts.scheme.encode(),
            host=(parts.hostname or "").encode(),
            port=parts.port,
            target=(parts.path + (f"?{parts.query}" if parts.query else "")).encode(),
        )
        self._backend.begin(self._terms.timeout)
        headers = self._headers(url, validators)
        timeouts = {"timeout": {"connect": _CONNECT, "read": 60.0, "write": 60.0, "pool": 60.0}}
        try:
            with self._pool.stream("GET", target, headers=headers, extensions=timeouts) as response:
                return self._answer(url, response, limit)
        except (
            httpcore.TimeoutException,
            httpcore.NetworkError,
            httpcore.ProtocolError,
            OSError,
            Broken,
        ) as error:
            reason = str(error) or type(error).__name__
            raise Transient(f"{url} can't be read now, will be retried: {reason}") from error

    def _headers(self, url: str, validators: Validators) -> list[tuple[str, str]]:
        contact = f" (+{self._terms.contact})" if self._terms.contact else ""
        secrets = dict(self._terms.secrets) if origin(url) in self._terms.origins else {}
        headers = {
            "Host": urlsplit(url).netloc,
            "User-Agent": f"{AGENT}/{__version__}{contact}",
            "Accept": "*/*",
            "Accept-Encoding": ACCEPTED,
            **validators.headers(),
            **secrets,
        }
        return list(headers.items())

    def _answer(self, url: str, response: httpcore.Response, limit: int) -> HttpAnswer:
        headers = _join(response.headers)
        location = self._location(url, headers) if response.status in (301, 302, 303, 307, 308) else None
        if response.status != 200:
            _drain(response.iter_stream())
            return HttpAnswer(url, response.status, headers, location=location)
        try:
            return HttpAnswer(url, 200, headers, _read(response.iter_stream(), headers, limit))
        except TooLarge:
            problem = (
                f"{url} has more than {limit:,} bytes, or unpacks to more: raise `max_size`, or exclude it"
            )
            return HttpAnswer(url, 200, headers, problem=problem)

    def _location(self, url: str, headers: Headers) -> str | None:
        location = normal(headers.get("location", ""), url) if "location" in headers else None
        if location and self._terms.secrets and url.startswith("https:") and location.startswith("http:"):
            raise AddressRefused(
                f"{url} redirects to {location}, which is not encrypted: secrets are not sent there"
            )
        return location


def _join(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("ascii", "replace").lower(), raw_value.decode("utf-8", "replace")
        values[name] = f"{values[name]}, {value}" if name in values else value
    return values


def _read(pieces: Iterable[bytes], headers: Headers, limit: int) -> bytes:
    """Return the body of a response.

    Raises TooLarge, even before reading if the header Content-Length exceeds the limit.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise TooLarge
    body = Body(headers.get("content-encoding", ""), limit)
    for piece in pieces:
        body.add(piece)
    return body.finish()


def _drain(pieces: Iterable[bytes]) -> None:
    """Read a short body to its end, so that the connection can be used again."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _SHORT:
            return


class RobotsCache:
    """Reads the robots.txt of each site once, and keeps its rules for one scan of a source."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._by_origin: dict[str, RobotsRules | Transient] = {}

    def rules(self, url: str) -> RobotsRules:
        """Return the rules of the site to which a URL belongs.

        A missing robots.txt allows everything. An unreadable one forbids everything (RFC 9309, 2.3.1.4), so
        Transient or AddressRefused is raised.
        """
        site = origin(url)
        if site not in self._by_origin:
            try:
                self._by_origin[site] = self._read(f"{site}/robots.txt")
            except Transient as error:
                self._by_origin[site] = error
        rules = self._by_origin[site]
        if isinstance(rules, Transient):
            raise rules
        return rules

    def _read(self, url: str) -> RobotsRules:
        answer = self._client.follow(url, limit=_LARGEST_ROBOTS)
        if answer.status >= 500 or answer.problem:
            raise Transient(
                f"{url} can't be read (HTTP {answer.status}), will be retried: "
                "until then no page of the site is read"
            )
        parsed = robots_rules(answer.data if answer.status == 200 else b"")
        self._client.delays[urlsplit(url).netloc] = parsed.delay
        return parsed
