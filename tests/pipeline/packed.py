"""Archives and mails as bytes, a source in memory, and a journal of what was listed there."""

import io
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from ingestor.archives.members import BrokenContainer
from ingestor.archives.unpack import Unpacked, holds_members
from ingestor.archives.unpack import unpack as members_of
from ingestor.core.decisions import Scope
from ingestor.model import Blob, CollectionName, Item, SourceName
from ingestor.pipeline import listing
from ingestor.pipeline.containers import Containers, Unpack
from ingestor.pipeline.listing import Source
from ingestor.ports import PartialScan, Stale
from tests.version_table import VersionTable

TIME = (2024, 1, 2, 3, 4, 6)
Files = Mapping[str, bytes | str]


def zipped(files: Files, time: tuple[int, ...] = TIME) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, time), content, zipfile.ZIP_DEFLATED)  # type: ignore[arg-type]
    return buffer.getvalue()


def tarred(files: Files, mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def mailed(attached: Files) -> bytes:
    message = EmailMessage()
    message["Subject"] = "Hello"
    message.set_content("Body")
    for name, content in attached.items():
        data = content.encode() if isinstance(content, str) else content
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


def encrypted(data: bytes) -> bytes:
    """With the flags of encryption set, in both headers of every member."""
    marked = bytearray(data)
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = marked.find(magic)
        while at >= 0:
            marked[at + flags] |= 1
            at = marked.find(magic, at + 1)
    return bytes(marked)


def unpack(blob: Blob, archives: bool = True) -> Unpacked | None:
    """What a process of sandbox/pool.py finds, found in this one."""
    if not holds_members(blob):
        return None
    unpacked = Unpacked()
    for one in members_of(blob, archives):
        if isinstance(one, BrokenContainer):
            unpacked.drop(one.name, one.reason)
        else:
            unpacked.add([one.member], one.data)
    return unpacked


@dataclass
class World:
    """A source in memory. ``fetched`` notes what was read; ``trouble`` is what reading a key raises."""

    near = True

    files: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    trouble: dict[str, Exception] = field(default_factory=dict)
    partial: PartialScan | None = None

    def put(self, key: str, data: bytes | Files) -> None:
        """Write a file; several files are packed as the suffix says."""
        if not isinstance(data, bytes):
            data = {"eml": mailed, "tar": tarred, "zip": zipped}[key.rpartition(".")[2]](data)
        self.files[key] = data
        self.versions[key] = self.versions.get(key, 0) + 1

    def _item(self, key: str) -> Item:
        return Item(key, f"v{self.versions[key]}", f"/root/{key}", len(self.files[key]))

    def scan(self) -> Iterator[Item]:
        yield from map(self._item, sorted(self.files))
        if self.partial:
            raise self.partial

    def scan_under(self, under: str) -> Iterator[Item]:
        keys = (key for key in sorted(self.files) if key == under or key.startswith(f"{under}/"))
        return map(self._item, keys)

    def fetch(self, item: Item) -> Blob:
        if item.key in self.trouble:
            raise self.trouble[item.key]
        if item.key not in self.files or item != self._item(item.key):
            raise Stale(f"{item.uri} changed")
        self.fetched.append(item.key)
        return Blob(self.files[item.key], item.key.rpartition("/")[2])


class Journal:
    """What a reconciler would know of the world's documents after each listing."""

    def __init__(
        self,
        world: World,
        archives: bool = True,
        unpack: Unpack = unpack,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.world, self.archives, self.unpack, self.clock = world, archives, unpack, clock
        self.items: dict[str, Item] = {}
        self.restart()

    def put(self, key: str, data: bytes | Files) -> None:
        self.world.put(key, data)

    def restart(self) -> None:
        self.containers = Containers(self.world, self.archives, self.unpack, self.clock)
        self.source = Source(
            SourceName("s"), CollectionName("c"), self.world, None, expand=self.containers.expand,  # type: ignore[arg-type]
        )  # fmt: skip

    def list_again(self, *dirty: str) -> tuple[set[str], set[str]]:
        """List (all, or what is dirty) and take it over: what changed, and what vanished."""
        self.world.fetched.clear()
        scope = listing.scope_of(self.source, dirty) if dirty else Scope()
        found = listing.take(
            self.source, scope, [VersionTable({k: item.version for k, item in self.items.items()})]
        )
        self.trouble = found.trouble
        self.items |= {item.key: item for item in found.changes[0].differences()}
        for key in found.changes[0].vanished:
            del self.items[key]
        return {item.key for item in found.changes[0].differences()}, set(found.changes[0].vanished)

    def read(self, key: str) -> bytes:
        return self.containers.fetch(self.items[key]).data


def listed(files: Mapping[str, bytes | Files], **options: Any) -> Journal:
    """Return the journal of a world of these files after its first listing."""
    journal = journal_of(files, **options)
    journal.list_again()
    return journal


def journal_of(files: Mapping[str, bytes | Files], **options: Any) -> Journal:
    world = World()
    for key, data in files.items():
        world.put(key, data)
    return Journal(world, **options)
