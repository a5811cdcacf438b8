"""What callers of the push connector may ask, and what they are told.

    PUT, GET, DELETE /documents/KEY     GET /documents     POST /look?source=NAME&under=KEY

Whoever has no right learns nothing else, be the request sound or not. A document is durable before it is
acknowledged.
"""

import hmac
import json
import logging
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes

from ingestor.connectors.push.http import Answer, Refused, Request
from ingestor.connectors.push.store import Full, Metadata, Store, StoredDocument
from ingestor.model import Hint, SourceName
from ingestor.ports import NeedsHuman, Transient

LONGEST_KEY = 2000  # characters
_LARGEST_EVENT = 32 * 2**20  # bytes; GitHub sends at most 25 MB
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_STATUS = {"created": 201, "changed": 200, "unchanged": 204}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answers:
    """``token`` opens everything; ``secret`` is what webhooks sign with, and lets them say "look again"."""

    store: Store
    token: str
    secret: str | None
    max_size: int  # bytes
    looks: deque[Hint] = field(default_factory=deque)  # asked for, and not passed on yet

    def answer(self, request: Request) -> Answer:
        """Raises Refused."""
        path, _, query = request.path.partition("?")
        if not (self._has_token(request) or (path == "/look" and self._is_signed(request))):
            raise Refused(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        try:
            return self._route(request, path, query)
        except Full as error:
            raise Refused(507, str(error)) from error
        except (NeedsHuman, Transient) as error:
            _log.warning("%s %r was not done: %s", request.command, path, error)
            raise Refused(503, str(error), {"Retry-After": "10"}) from error

    def _has_token(self, request: Request) -> bool:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and _same(given.strip(), self.token)

    def _is_signed(self, request: Request) -> bool:
        """By GitHub's way of signing what it sends: a digest of the body, keyed with the secret."""
        given = request.headers.get("X-Hub-Signature-256")
        if self.secret is None or given is None or request.length > _LARGEST_EVENT:
            return False
        digest = hmac.new(self.secret.encode(), digestmod="sha256")
        for piece in request.pieces(hurry=50):  # from anyone, until it is read
            digest.update(piece)
        return _same(given, f"sha256={digest.hexdigest()}")

    def _route(self, request: Request, path: str, query: str) -> Answer:
        if path.startswith("/documents/"):
            if query:
                raise Refused(400, "a question mark in a key is written %3F")
            return self._document(request, _key(path.removeprefix("/documents/")))
        if path == "/documents":
            return self._list(request)
        if path == "/look":
            return self._look(request, query)
        raise Refused(404, "there are /documents, /documents/KEY and /look")

    def _document(self, request: Request, key: str) -> Answer:
        match _allowed(request, "PUT", "GET", "DELETE"):
            case "PUT":
                return self._put(request, key)
            case "GET":
                return self._get(key)
            case _:
                return self._delete(key)

    def _put(self, request: Request, key: str) -> Answer:
        if "Content-Length" not in request.headers and "Transfer-Encoding" not in request.headers:
            raise Refused(411, "send the document as the request's body, with a Content-Length")
        if request.length > self.max_size:
            raise Refused(413, f"{request.length:,} bytes are too many; max_size is {self.max_size:,}")
        metadata = _metadata(request.headers.get("Metadata"))
        data = b"".join(request.pieces())
        kind = " ".join(request.headers.get("Content-Type", "").split()) or None
        version, outcome = self.store.put(key, data, kind, metadata)
        _log.debug("%s was %s", key, outcome)
        return Answer(_STATUS[outcome], None if outcome == "unchanged" else {"key": key, "version": version})

    def _get(self, key: str) -> Answer:
        found = self.store.get(key)
        if found is None:
            raise Refused(404, f"there is no document {key!r}")
        kept, data = found
        kind = kept.content_type or "application/octet-stream"
        said = {
            "Content-Type": kind,
            "ETag": f'"{kept.version}"',
            "Metadata": json.dumps(dict(kept.metadata)),
        }
        return Answer(200, data, said)

    def _delete(self, key: str) -> Answer:
        if not self.store.delete(key):
            raise Refused(404, f"there is no document {key!r}")
        return Answer(204)

    def _list(self, request: Request) -> Answer:
        _allowed(request, "GET")
        return Answer(200, {"documents": [_shown(kept) for kept in self.store.listed()]})

    def _look(self, request: Request, query: str) -> Answer:
        _allowed(request, "POST")
        wanted = parse_qs(query)
        source, under = (wanted.pop(name, [""])[-1] for name in ("source", "under"))
        under = under.strip("/")
        if wanted or not source:
            raise Refused(400, "ask as in /look?source=NAME or /look?source=NAME&under=KEY")
        if _CONTROL.search(under) or (under and {"", ".", ".."} & set(under.split("/"))):
            raise Refused(400, "`under` must be a key of that source, or the beginning of keys up to a /")
        _log.info("asked to look again at %r of source %r", under or "everything", source)
        self.looks.append(Hint(under, SourceName(source)))
        return Answer(202, {"source": source, "under": under})


def _allowed(request: Request, *methods: str) -> str:
    if request.command not in methods:
        allowed = ", ".join(methods)
        raise Refused(405, f"only {allowed} can be asked here", {"Allow": allowed})
    return request.command


def _same(given: str, wanted: str) -> bool:
    """In a time that does not tell how much of it is right. Header fields come as Latin-1."""
    return hmac.compare_digest(given.encode("latin-1"), wanted.encode())


def _key(path: str) -> str:
    try:
        key = unquote_to_bytes(path.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise Refused(400, "a key must be UTF-8, percent-encoded") from None
    if not key or len(key) > LONGEST_KEY or _CONTROL.search(key):
        raise Refused(400, f"a key has 1 to {LONGEST_KEY} characters, none of them a control character")
    return key


def _metadata(field: str | None) -> Metadata:
    """Of the header ``Metadata``."""
    try:
        found = json.loads((field or "{}").encode("latin-1"), parse_constant=_no_number)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()  # lone surrogates are no text
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(map(_is_scalar, found.values())):
        raise Refused(400, "the header Metadata must be a JSON object of texts, numbers and booleans")
    return tuple(found.items())


def _is_scalar(value: object) -> bool:
    """A number must fit where Chroma keeps it: 64 bits."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str | float)


def _no_number(name: str) -> float:
    raise ValueError(name)


def _shown(kept: StoredDocument) -> dict[str, Any]:
    return {
        "key": kept.key,
        "version": kept.version,
        "size": kept.size,
        "modified": kept.modified,
        "metadata": dict(kept.metadata),
    }
