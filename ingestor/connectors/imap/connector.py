"""Connector ``imap``: every message of the mail folders is a document, and so is each attachment.

A key is folder, UIDVALIDITY and UID, which identify a message permanently. A message never changes, so its
key is also its version; flags do not count. One request for each folder lists UIDs, sizes and dates; messages
that are marked as deleted are skipped. A folder that cannot be listed is unknown, never empty, and the others
are listed. If a server renumbers a folder, or a message moves, the same bytes are listed under another key.
Folders are opened read-only, and no message is marked as read.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from ingestor.connectors.imap import text
from ingestor.connectors.imap.session import (
    FolderListing,
    FolderRefused,
    ImapServer,
    ImapSessions,
    Session,
    Tls,
)
from ingestor.connectors.shared.keys import cover
from ingestor.connectors.shared.patterns import check_size
from ingestor.model import Blob, Item
from ingestor.ports import NeedsHuman, PartialScan, Stale, Transient
from ingestor.registry import Options, Plugin, require_match
from ingestor.units import Duration, Size, seconds

_UNKNOWN = 100  # folders named by one PartialScan
_NAMED = 20  # folders that an error message lists
_LISTING = 3600.0  # seconds for all folders
_UIDS = 2**32
_STRUCTURES = 200  # UIDs in one request for structures


def _user(name: str) -> str:
    if not name.isprintable() or not name:
        raise ValueError("must be a user name without control characters")
    return name


def _folders(patterns: list[str]) -> list[str]:
    if not all(patterns):
        raise ValueError("a folder's name must not be empty")
    return ["INBOX" if pattern.upper() == "INBOX" else pattern for pattern in patterns]


def _since(value: Any) -> date | float | None:
    """Parse the option ``since``: a day, or a duration such as 90d, which gives seconds.

    Raises ValueError.
    """
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) and value[4:5] == "-" else seconds(value)
    except ValueError:
        raise ValueError("expected a day such as 2026-01-31 or a duration such as 90d") from None


_HostName = Annotated[str, require_match("[^/@ ]+", "must be the name of a host such as imap.example.org")]


class ImapOptions(Options):
    host: _HostName = Field(description="host name of the server")
    port: int | None = Field(
        default=None, ge=1, le=65535, description="port; default: 993 with `tls: true`, else 143"
    )
    tls: Tls = Field(
        default=True,
        description="encryption from the start (`true`) or by `starttls`; with `false` the network can "
        "read the password",
    )
    username: Annotated[str, AfterValidator(_user)] = Field(description="user name, often the mail address")
    password: SecretStr = Field(description="password, or an app password if the provider has them")
    folders: Annotated[list[str], AfterValidator(_folders)] = Field(
        default=["INBOX"],
        min_length=1,
        description="folders to list, as the server names them; `*` matches any text",
    )
    exclude: Annotated[list[str], AfterValidator(_folders)] = Field(
        default=[], description="folders to leave out; `*` matches any text"
    )
    since: Annotated[Duration | date | None, BeforeValidator(_since)] = Field(
        default=None,
        description="leave out earlier messages: a day (`2026-01-31`, UTC) or an age (`90d`)",
    )
    max_size: Size = Field(default=50 * 10**6, description="larger messages are reported, not read")


@dataclass(frozen=True, slots=True)
class _Structures:
    """The last answer of the server about which messages have attachments.

    ``uids``: range of the messages that were asked about. ``simple``: those among them without attachments.
    """

    folder: str
    validity: int
    uids: range
    simple: frozenset[int]


_NONE = _Structures("", 0, range(0), frozenset())


def _place(item: Item) -> tuple[str, int, int]:
    """Return the folder, UIDVALIDITY and UID of a message. ``item``: the message."""
    folder, validity, last = item.key.rsplit("/", 2)
    return folder, int(validity), int(last.removesuffix(".eml"))


class Imap:
    """Connector for the messages of mail folders. Implements Structured, too."""

    def __init__(self, options: ImapOptions) -> None:
        self._options = options
        self._chosen, self._excluded = text.matcher(options.folders), text.matcher(options.exclude)
        port = options.port or (993 if options.tls is True else 143)
        server = ImapServer(options.host, port, options.tls, options.username, options.password)
        self._sessions = ImapSessions(lambda: Session(server))
        self._structures = _NONE

    def scan(self) -> Iterator[Item]:
        """Yield the messages of all folders that the config selects.

        Raises NeedsHuman if the login, the certificate or the name of a folder is wrong. Raises Transient,
        and PartialScan at the end if a folder cannot be listed.
        """
        unknown: dict[str, str] = {}
        self._structures = _NONE  # new messages may have got UIDs of the last answer's range
        earliest, until = self._earliest(), time.monotonic() + _LISTING
        for name, raw in self._folders().items():
            if time.monotonic() > until:
                unknown[name] = f"the listing took more than {_LISTING:g} s"
                continue
            try:
                with self._sessions.one() as session:
                    listing = session.list_folder(raw)
            except Transient as error:
                if not isinstance(error, FolderRefused):
                    with self._sessions.one(retry=True) as session:  # raises if the server is away
                        session.folders()
                unknown[name] = str(error)
                continue
            yield from self._items(name, listing, earliest)
        if unknown:
            name, why = next(iter(unknown.items()))
            more = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            message = f"folder {name}: {why}{more}: its known messages stay"
            raise PartialScan(message, cover(unknown, _UNKNOWN))

    def fetch(self, item: Item) -> Blob:
        """Download a message. Raises Stale, Transient, NeedsHuman or BadDocument (too large)."""
        check_size(item, item.size, self._options.max_size)
        folder, validity, uid = _place(item)
        with self._sessions.one() as session:
            data = session.message(text.raw_name(folder), validity, uid)
        if data is None:
            raise Stale(f"{item.uri} vanished since it was listed")
        check_size(item, len(data), self._options.max_size)
        return Blob(data, f"{uid}.eml", "message/rfc822")

    def is_simple(self, item: Item) -> bool:
        """Return whether the server reports that a message has no attachment.

        A request to the server covers many messages with higher UIDs, too, because a scan calls this method
        in the order of UIDs. Raises Transient or NeedsHuman.
        """
        folder, validity, uid = _place(item)
        last = self._structures
        if (folder, validity) != (last.folder, last.validity) or uid not in last.uids:
            uids = range(uid, min(uid + _STRUCTURES, _UIDS))
            with self._sessions.one() as session:
                simple = session.without_attachments(text.raw_name(folder), validity, uids)
            self._structures = last = _Structures(folder, validity, uids, simple)
        return uid in last.simple

    def _folders(self) -> dict[str, bytes]:
        """Return the raw names of the selected folders, by their readable names (see text.py).

        Raises NeedsHuman if the server lacks a folder that the config names.
        """
        with self._sessions.one(retry=True) as session:
            offered = {text.readable(raw): raw for raw in session.folders()}
        for name in self._options.folders:
            if "*" not in name and name not in offered:
                names = ", ".join([*sorted(offered)[:_NAMED], *(["..."] if len(offered) > _NAMED else [])])
                raise NeedsHuman(f"{self._options.host} has no folder {name!r}; the server has: {names}")
        return {name: raw for name, raw in offered.items() if self._chosen(name) and not self._excluded(name)}

    def _items(self, folder: str, listing: FolderListing, earliest: float) -> Iterator[Item]:
        for message in listing.messages:
            if message.deleted or (message.received is not None and message.received < earliest):
                continue
            options, number = self._options, f"{listing.validity}/{message.uid}"
            uri = text.address(
                options.username, options.host, options.port, folder, listing.validity, message.uid
            )
            key, extra = f"{folder}/{number}.eml", (("folder", folder),)
            yield Item(key, number, uri, message.size, message.received, extra)

    def _earliest(self) -> float:
        """Return the time before which messages are left out, in POSIX seconds; 0 to leave out none."""
        since = self._options.since
        if isinstance(since, date):
            return datetime(since.year, since.month, since.day, tzinfo=UTC).timestamp()
        return 0.0 if since is None else time.time() - since


PLUGIN = Plugin(kind="imap", version=1, options=ImapOptions, build=Imap)
