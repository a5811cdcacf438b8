"""Archives, mailboxes and mails in a source: what is in them becomes documents of their own.

An item ``a.zip`` is listed with its members ``a.zip/!/docs/b.md`` (called ``a.zip!/docs/b.md``), below its
key, so that whatever lists ``a.zip`` again lists them too. A container is opened only when its version is
not the one that was listed before: what is known of it is listed as it is known. A member's version is a
digest of its content, so in a changed archive only changed members are due. What can't be opened now keeps
the members it had, and says why: by a PartialScan where trying again may help, else as a document.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

from ingestor.members import Member
from ingestor.mishaps import told
from ingestor.model import Blob, Item
from ingestor.ports import BadDocument, PartialScan, Stale, Transient
from ingestor.unpack import Unpacked, is_document, may_hold, unpack

INSIDE = "/!/"
# Marks the version of what was looked into. Raise the number when a container's members are others than
# before, be it in name only: everything is opened again then.
_OPENED = " opened 1"
_DEEPEST = 3  # containers in each other
_KEPT = 2  # unpacked containers kept at hand


@dataclass(frozen=True, slots=True)
class Containers:
    """``fetch`` is the connector's; ``archives``: whether archives are opened, not mails alone."""

    fetch_item: Callable[[Item], Blob]
    archives: bool
    _at_hand: OrderedDict[tuple[str, str], Unpacked | None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)
    _listed: dict[str, Item] = field(default_factory=dict)

    def expand(self, items: Iterable[Item], known: Mapping[str, str]) -> Iterator[Item]:
        """The items and their members. ``known``: version by key, as the source was listed last."""
        before = _by_container(known)
        unread: dict[str, str] = {}
        seen: tuple[str, ...] = ()
        try:
            for item in items:
                try:
                    yield from self._with_members(item, before.get(item.key, {}), known.get(item.key))
                except (Transient, OSError) as error:
                    unread[item.key] = told(error)
        except PartialScan as error:
            seen = error.unknown
            unread[""] = str(error)
        if unread:
            raise PartialScan(_said(unread), (*seen, *filter(None, unread)))

    def fetch(self, item: Item) -> Blob:
        """As a connector does. Raises BadDocument for a container, or a member, that can't be read."""
        key, *inside = item.key.split(INSIDE)
        while inside and key not in self._listed:
            key += INSIDE + inside.pop(0)  # a folder that is called "!"
        if inside:
            return self._fetch_member(self._listed[key], inside, item)
        if not self._opens(item):
            return self.fetch_item(item)
        return self._as_document(item.key, lambda: self.fetch_item(_unmarked(item)), item.version)

    def _opens(self, item: Item) -> bool:
        return may_hold(item.key, self.archives)

    def _with_members(self, item: Item, before: Mapping[str, str], version: str | None) -> Iterator[Item]:
        if not self._opens(item):
            yield item
            return
        self._listed[item.key] = item
        marked = replace(item, version=item.version + _OPENED)
        if version == marked.version:
            yield from (marked, *_as_known(item, before))
            return
        try:
            opened = self._open(item.key, item.version, lambda: self.fetch_item(item))
            members = list(self._members(item, opened, before, 1))
        except BadDocument:
            members = _as_known(item, before)
        yield from (marked, *members)

    def _members(
        self, holder: Item, opened: Unpacked | None, before: Mapping[str, str], depth: int
    ) -> Iterator[Item]:
        for member in opened.members.values() if opened else ():
            key, uri = holder.key + INSIDE + member.name, f"{holder.uri}!/{member.name}"
            item = Item(key, member.version, uri, member.size, member.modified)
            if depth == _DEEPEST or not self._opens(item) or member.problem:
                yield item
                continue
            marked = replace(item, version=item.version + _OPENED)
            yield marked
            if before.get(key) == marked.version:
                yield from _as_known(item, before)
                continue
            assert opened is not None
            try:
                inner = self._open(key, item.version, lambda o=opened, m=member: _blob(o, m))  # type: ignore[misc]
                yield from self._members(item, inner, before, depth + 1)
            except BadDocument:
                yield from _as_known(item, before)

    def _fetch_member(self, top: Item, names: list[str], item: Item) -> Blob:
        """Raises Stale when the member is not the one that was listed."""
        key, version = top.key, top.version
        fetch: Callable[[], Blob] = lambda: self.fetch_item(top)  # noqa: E731
        for name in names:
            opened = self._open_again(key, version, fetch, item)
            member = opened.members.get(name) if opened else None
            if opened is None or member is None:
                raise Stale(f"{item.uri} vanished since it was listed")
            key, version = key + INSIDE + name, member.version
            fetch = lambda o=opened, m=member: _blob(o, m)  # type: ignore[misc]  # noqa: E731
        if version != item.version.removesuffix(_OPENED):
            raise Stale(f"{item.uri} changed since it was listed")
        return self._as_document(key, fetch, item.version)

    def _as_document(self, key: str, fetch: Callable[[], Blob], version: str) -> Blob:
        """What is only a container is an empty document, if it is sound."""
        if not version.endswith(_OPENED) or is_document(key):
            return fetch()
        opened = self._open(key, version.removesuffix(_OPENED), fetch)
        return fetch() if opened is None else Blob(b"", "")

    def _open_again(self, key: str, version: str, fetch: Callable[[], Blob], item: Item) -> Unpacked | None:
        try:
            return self._open(key, version, fetch)
        except BadDocument as error:
            raise Transient(f"{item.uri} can't be read, but stays as it was: {error}") from error

    def _open(self, key: str, version: str, fetch: Callable[[], Blob]) -> Unpacked | None:
        """One container at a time, so that many workers don't open the same."""
        with self._lock:
            if (key, version) not in self._at_hand:
                self._at_hand[key, version] = unpack(fetch())
                while len(self._at_hand) > _KEPT:
                    self._at_hand.popitem(last=False)
            self._at_hand.move_to_end((key, version))
            return self._at_hand[key, version]


def outside(key: str) -> str:
    """The container that a key may lie in; of a folder called "!" it is the folder that holds it."""
    return key.partition(INSIDE)[0]


def _by_container(known: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Known members, by the keys of all that they may lie in at the top."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for key, version in known.items():
        at = key.find(INSIDE)
        while at >= 0:
            found[key[:at]][key] = version
            at = key.find(INSIDE, at + 1)
    return found


def _as_known(holder: Item, before: Mapping[str, str]) -> list[Item]:
    """Only key and version count: that they are the known ones says that nothing changed."""
    prefix = holder.key + INSIDE
    return [
        Item(key, version, f"{holder.uri}!/{key.removeprefix(prefix)}")
        for key, version in before.items()
        if key.startswith(prefix)
    ]


def _blob(opened: Unpacked, member: Member) -> Blob:
    return Blob(opened.read(member), member.name.rpartition("/")[2], member.content_type)


def _unmarked(item: Item) -> Item:
    return replace(item, version=item.version.removesuffix(_OPENED))


def _said(unread: Mapping[str, str]) -> str:
    whole = unread.get("")
    containers = [f"{key} can't be opened now ({why})" for key, why in unread.items() if key]
    more = f", and {len(containers) - 1} more" if len(containers) > 1 else ""
    said = f"{containers[0]}{more}: what is known of it stays" if containers else None
    return "; ".join(filter(None, (whole, said)))
