"""Values that the web and feed connectors share. Pure."""

from dataclasses import dataclass

from ingestor.connectors.http.headers import Headers
from ingestor.model import Scalar


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response. ``location``: target of a redirect; ``problem``: why there is no content."""

    url: str
    status: int
    headers: Headers
    data: bytes = b""
    location: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """The result of one address. ``version`` is "" if there is nothing to index."""

    url: str
    version: str = ""
    etag: str | None = None
    changed: str | None = None
    content_type: str | None = None
    size: int | None = None  # bytes
    modified: float | None = None  # POSIX seconds
    location: str | None = None  # target of a redirect
    canonical: str | None = None
    links: tuple[str, ...] = ()
    of_sitemaps: bool = False  # its links are those of sitemaps
    problem: str | None = None  # why its content can't be indexed
    uri: str | None = None  # as people know it, if that is not its address
    extra: tuple[tuple[str, Scalar], ...] = ()
    link: str | None = None  # of a feed's entry
    made_of: str | None = None  # digest of what the content was made from, if it was made
