"""Lists and fetches the members of containers: archives, mailboxes and mails. Members become documents.

An item ``a.zip`` is listed together with its members, such as ``a.zip/!/docs/b.md`` (shown to people as
``a.zip!/docs/b.md``). The keys of members lie below that of the container, so that a listing of ``a.zip``
includes them. A container is opened only if its version changed since the last listing; otherwise the members
of that listing are listed again. Nor is a container opened if its connector knows that it has no members.
Containers inside a container are opened with it, in a confined process (sandbox/pool.py).

The version of a member is a digest of its content. So only the changed members of a changed archive are due.
If a container cannot be opened, its members keep their records. If a retry may help, the error is reported by
a PartialScan. If not, the container is listed as a document that will be quarantined. The version of such a
document contains the limits in force, so that the container is opened again when the limits change.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from threading import Lock

from ingestor.archives.members import DEEPEST, budget
from ingestor.archives.unpack import Unpacked, is_document, may_hold
from ingestor.core.errors import describe
from ingestor.core.fingerprint import combine
from ingestor.core.listings import Versions
from ingestor.model import HOLDER, INSIDE, Blob, Item
from ingestor.ports import BadDocument, Connector, PartialScan, Stale, Structured, Transient
from ingestor.sandbox.pool import Defect

# Marks the version of an opened container. Raise the number if containers give other members than before, or
# other names: every container is then opened again.
_OPENED = " opened 2"
# Marks a container that cannot be opened; a digest of the limits follows. Change the text if containers can
# be opened that could not be before: every refused container is then tried again.
_REFUSED = " refused "
_MARK_OF_REFUSAL = re.compile(rf"{_REFUSED}[0-9a-f]{{16}}\Z")
_HOLDER = Blob(b"", "", HOLDER)
_KEPT = 2  # unpacked containers kept in memory
_MAIL_BYTES = 16 * 2**20  # of downloaded mails in memory; the last one is kept whatever its size
_OPENING = 5.0  # seconds for opening containers in one listing, in addition to the time that the rest takes
_NEVER = (0.0, "")

Unpack = Callable[[Blob, bool], Unpacked | None]  # bytes, and whether to open archives -> the members


@dataclass(frozen=True, slots=True)
class Containers:
    """Lists and fetches the members of a source's containers.

    ``archives``: whether archives are opened; if not, only mails and mailboxes are. ``unpack``: returns the
    members of a blob, or None if it has none (Isolation.unpack). Its attribute ``limits`` names the limits in
    force. Unless the connector is near (see ports.Connector), mails are kept from the listing until they are
    prepared, so that few are downloaded twice.
    """

    connector: Connector
    archives: bool
    unpack: Unpack
    clock: Callable[[], float] = time.monotonic
    _unpacked: OrderedDict[tuple[str, str], Unpacked | None] = field(default_factory=OrderedDict)
    _mails: OrderedDict[tuple[str, str], Blob] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)
    _listed: dict[str, Item] = field(default_factory=dict)  # containers by key
    # By key the last version that was tried, and why it cannot be opened; None if it was opened, and "" if it
    # has members although the connector denied that: then the next listing opens it.
    _verdicts: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    _tried: dict[str, tuple[float, str]] = field(default_factory=dict)  # by key: when last, and which version

    @property
    def near(self) -> bool:
        return getattr(self.connector, "near", False)

    def _is_simple(self, item: Item) -> bool:
        return isinstance(self.connector, Structured) and self.connector.is_simple(item)

    def expand(self, items: Iterable[Item], known: Versions) -> Iterator[Item]:
        """Yield the items of a listing, each container followed by its members.

        ``known``: the versions of the last listing. New and changed containers come last, those that were
        tried longest ago first. Opening them ends after _OPENING seconds plus the time that the rest of the
        listing took: documents need not wait for slow archives. Raises PartialScan at the end if some
        containers were not opened.
        """
        unread: dict[str, str] = {}
        fresh: list[Item] = []
        partial: PartialScan | None = None
        started = self.clock()
        try:
            for item in items:
                for holder in _holders(item.key):  # a folder by now, even if it was listed as a container
                    self._listed.pop(holder, None)
                if not may_hold(item.key, self.archives):
                    yield item
                    continue
                self._listed[item.key] = item
                try:
                    if (version := self._find_version(item, known)) is None:
                        fresh.append(item)
                    else:
                        yield from (replace(item, version=version), *_as_known(item, known))
                except Transient as error:
                    unread[item.key] = describe(error)
        except PartialScan as error:
            partial = error
        end = self.clock() + _OPENING + (self.clock() - started)
        more = yield from self._open_until(end, fresh, known, unread)
        if partial is not None or unread:
            containers = [f"{key} cannot be opened now ({why})" for key, why in unread.items()]
            others = f", and {len(containers) - 1} more" if len(containers) > 1 else ""
            reason = f"{containers[0]}{others}: known members keep their records" if containers else None
            words = "; ".join(filter(None, (str(partial or ""), reason)))
            raise PartialScan(words, (*(partial.unknown if partial else ()), *unread), more=more)

    def _open_until(
        self, end: float, fresh: list[Item], known: Versions, unread: dict[str, str]
    ) -> Generator[Item, None, bool]:
        """Open new and changed containers, and yield them with their members.

        Return whether some were left unopened at the time ``end``, without an attempt for their version.
        ``unread``: receives the reason for each container that was not opened.
        """
        more = False
        for item in sorted(fresh, key=lambda item: self._tried.get(item.key, _NEVER)):
            if self.clock() > end:
                unread[item.key] = "other containers took too long; the next listing opens it"
                more |= self._tried.get(item.key, _NEVER)[1] != item.version
                continue
            self._tried[item.key] = self.clock(), item.version
            try:
                opened = self._open(item)
            except BadDocument:
                yield from (replace(item, version=self._mark_refused(item)), *_as_known(item, known))
            except (Transient, OSError, Defect) as error:
                unread[item.key] = describe(error)
            else:
                yield replace(item, version=item.version + _OPENED)
                yield from self._members(item, opened, known)
        return more

    def _find_version(self, item: Item, known: Versions) -> str | None:
        """Return the version under which a container is listed without opening it; None if it must be opened.

        ``known``: the versions of the last listing.
        """
        tried, reason = self._verdicts.get(item.key, ("", None))
        if tried == item.version and reason == "":
            return None
        opened, refused = item.version + _OPENED, self._mark_refused(item)
        version = known.of([item.key]).get(item.key)
        opens_now = tried == item.version and reason is None  # found while it was fetched
        if version == opened or (version == refused and not opens_now):
            return version
        return opened if self._is_simple(item) else None

    def fetch(self, item: Item) -> Blob:
        """Return the blob of an item, or of a member of a container.

        Raises the errors of the connector, and BadDocument.
        """
        for holder in _holders(item.key):  # others are folders that are called "!"
            if holder in self._listed:
                return self._fetch_member(self._listed[holder], item)
        opens = may_hold(item.key, self.archives)
        return self._fetch_container(item) if opens else self.connector.fetch(item)

    def _mark_refused(self, item: Item) -> str:
        """Return the version under which a container is listed that exceeds the present limits."""
        limits = combine(getattr(self.unpack, "limits", ""), self.archives, *budget())
        return f"{item.version}{_REFUSED}{limits[:16]}"

    def _require_openable(self, item: Item) -> None:
        """Raise BadDocument if this version of a container could not be opened before."""
        version, reason = self._verdicts.get(item.key, ("", None))
        if version == item.version and reason:
            raise BadDocument(reason)

    def _members(self, holder: Item, opened: Unpacked | None, known: Versions) -> Iterator[Item]:
        """Yield the members of an opened container.

        If an inner container is damaged, its members of the last listing are yielded, so that they keep their
        records.
        """
        if opened is None:
            return
        for member in opened.members.values():
            uri = f"{holder.uri}!/{member.name.replace(INSIDE, '!/')}"
            deep = member.name.count(INSIDE) + 1 >= DEEPEST
            opens = not deep and member.problem is None and may_hold(member.name, self.archives)
            version = member.version + (_OPENED if opens else "")
            item = Item(holder.key + INSIDE + member.name, version, uri, member.size, member.modified)
            yield item
            if member.name in opened.broken:
                yield from _as_known(item, known)

    def _fetch_container(self, item: Item) -> Blob:
        """Return the blob of the container itself: an empty blob for an archive, the message for a mail.

        Raises Stale if the container can be opened now but could not be when it was listed. Then a new
        listing must find its members first.
        """
        plain = replace(item, version=_MARK_OF_REFUSAL.sub("", item.version.removesuffix(_OPENED)))
        if not is_document(item.key):
            opened = self._open(plain)
            self._check_listed(item)
            return self.connector.fetch(plain) if opened is None else _HOLDER
        self._require_openable(plain)
        blob = self._blob(plain)
        if self._verdicts.get(plain.key, ("",))[0] != plain.version:
            opened = self._unpack_blob(plain, blob)
            if opened is not None and opened.members and self._is_simple(plain):
                self._verdicts[plain.key] = plain.version, ""
                raise Stale(f"{plain.uri} has attachments, although the source listed none")
        self._check_listed(item)
        return blob

    def _check_listed(self, item: Item) -> None:
        if _MARK_OF_REFUSAL.search(item.version):
            raise Stale(f"{item.uri} could not be opened when it was listed, but can be now")

    def _fetch_member(self, top: Item, item: Item) -> Blob:
        """Return the blob of a member. Raises Stale if the member changed or vanished since it was listed.

        ``top``: the outermost container. ``item``: the member as it was listed.
        """
        name = item.key.removeprefix(top.key + INSIDE)
        try:
            opened = self._open(top)
        except (BadDocument, Defect) as error:
            raise _unread(item, str(error)) from error
        member = opened.members.get(name) if opened else None
        if opened is None or member is None:
            broken = (
                [opened.broken[each] for each in _holders(name) if each in opened.broken] if opened else []
            )
            raise _unread(item, broken[0]) if broken else Stale(f"{item.uri} vanished since it was listed")
        if member.version != item.version.removesuffix(_OPENED):
            raise Stale(f"{item.uri} changed since it was listed")
        if name in opened.broken and not is_document(name):
            raise BadDocument(opened.broken[name])
        if member.opened and item.version.endswith(_OPENED) and not is_document(name):
            return _HOLDER
        return Blob(opened.read(member), name.rpartition("/")[2], member.content_type)

    def _open(self, item: Item) -> Unpacked | None:
        """Open a container and return its members; None if it has none.

        A container that is already open is returned at once. Only one worker opens containers at a time.
        """
        at = item.key, item.version
        with self._lock:
            if at not in self._unpacked:
                self._require_openable(item)
                blob = self._blob(item)
                self._unpacked[at] = self._unpack_blob(item, blob)
                if not self.near and is_document(item.key):
                    self._mails[at] = blob
                    mails = self._mails.values()
                    while len(mails) > 1 and sum(len(mail.data) for mail in mails) > _MAIL_BYTES:
                        self._mails.popitem(last=False)
                while len(self._unpacked) > _KEPT:
                    self._unpacked.popitem(last=False)
            self._unpacked.move_to_end(at)
            return self._unpacked[at]

    def _blob(self, item: Item) -> Blob:
        return self._mails.get((item.key, item.version)) or self.connector.fetch(item)

    def _unpack_blob(self, item: Item, blob: Blob) -> Unpacked | None:
        try:
            opened = self.unpack(blob, self.archives)
        except BadDocument as error:
            self._verdicts[item.key] = item.version, str(error)
            raise
        self._verdicts[item.key] = item.version, None
        return opened


def _unread(item: Item, why: str) -> Transient:
    return Transient(f"{item.uri} cannot be read ({why}); its records stay, and it is retried")


def outside(key: str) -> str:
    """Return the key of the outermost container around a key; the key itself if it is in no container.

    A folder named "!" looks like the inside of a container: then its parent is returned.
    """
    return key.partition(INSIDE)[0]


def _holders(key: str) -> Iterator[str]:
    """Yield the keys of all containers in which a key may lie, the outermost first."""
    at = key.find(INSIDE)
    while at >= 0:
        yield key[:at]
        at = key.find(INSIDE, at + 1)


def _as_known(holder: Item, known: Versions) -> list[Item]:
    """Return the members of a container as the last listing had them, with equal versions: they count as
    unchanged."""
    prefix = holder.key + INSIDE
    return [
        Item(key, version, f"{holder.uri}!/{key.removeprefix(prefix)}")
        for key, version in known.below(prefix.removesuffix("/")).items()
        if key.startswith(prefix)
    ]
