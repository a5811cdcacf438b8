"""What the parts of the web and feed connectors speak of. Pure."""

from dataclasses import dataclass

from ingestor.connectors.http.headers import Headers
from ingestor.model import Scalar


@dataclass(frozen=True, slots=True)
class Answer:
    """``location``: where it redirects to; ``problem``: why its content is not here."""

    url: str
    status: int
    headers: Headers
    data: bytes = b""
    location: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """What one address gave. ``version`` is "" where there is nothing to index."""

    url: str
    version: str = ""
    etag: str | None = None
    changed: str | None = None
    content_type: str | None = None
    size: int | None = None  # bytes
    modified: float | None = None  # POSIX seconds
    location: str | None = None  # where it redirects to
    canonical: str | None = None
    links: tuple[str, ...] = ()
    of_sitemaps: bool = False  # its links are those of sitemaps
    problem: str | None = None  # why its content can't be indexed
    uri: str | None = None  # what people call it, if not its address
    extra: tuple[tuple[str, Scalar], ...] = ()
    made_of: str | None = None  # a digest of what it was made from, if that is not its content
