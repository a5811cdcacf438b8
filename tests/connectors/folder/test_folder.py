"""Listing and reading a folder: its laws, its options, and folders that change or fail."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from ingestor.connectors.folder.connector import EVERY, Folder, FolderOptions, Growing
from ingestor.core.errors import shorten
from ingestor.model import Item
from ingestor.ports import BadDocument, Connector, NeedsHuman, Scoped, Stale, Transient, Watchable
from ingestor.registry import find
from tests.connectors.folders import FolderWorld, plant, run_as_nobody, selected
from tests.connectors.laws import ConnectorLaws, broken_off, fetched, listed


class TestTheLaws(ConnectorLaws):
    pass


@pytest.mark.slow
class TestTheLawsThroughALinkToTheFolder(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path) -> FolderWorld:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        world = FolderWorld(tmp_path / "link")
        world.fail = (tmp_path / "link").unlink  # type: ignore[method-assign]
        return world


def test_folder_can_be_watched_and_listed_in_parts(world: FolderWorld) -> None:
    plugin = find("connectors", "folder")
    connector: Connector = plugin.build(plugin.options.model_validate({"path": world.root}))
    assert isinstance(connector, Watchable) and isinstance(connector, Scoped)


# -- sidecars


@pytest.fixture
def described(tmp_path: Path) -> Folder:
    """A folder with two files, of which one has a sidecar."""
    (tmp_path / "ref").mkdir()
    for name in ("ref/a.pdf", "b.md"):
        (tmp_path / name).write_text(name)
    (tmp_path / "ref/a.pdf.meta.yaml").write_text(SIDECAR)
    return Folder(FolderOptions(path=tmp_path, sidecar=".meta.yaml"))


SIDECAR = """
team: library
level: 3
public: true
on: 2026-11-22
tags: [loans, fees]
nested: {a: 1}
nothing:
"""


def test_sidecar_describes_the_file_beside_it(described: Folder) -> None:
    items = listed(described)
    a, facts = items["ref/a.pdf"], {"team": "library", "level": 3, "public": True, "tags": ("loans", "fees")}
    # YAML reads a bare "on" as true
    assert dict(a.extra) == {**facts, "True": "2026-11-22", "nested": '{"a": 1}'}
    assert (items.keys(), items["b.md"].extra) == ({"ref/a.pdf", "b.md"}, ())
    assert list(described.scan_under("ref/a.pdf")) == [a]
    assert fetched(described, a).data == b"ref/a.pdf"


@pytest.mark.parametrize(
    "change", [lambda path: path.write_text("team: it"), Path.unlink, lambda path: path.chmod(0o600)]
)
def test_changed_sidecar_changes_the_version_and_is_hinted_at(
    described: Folder, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    before = listed(described)
    change(tmp_path / "ref/a.pdf.meta.yaml")
    after = listed(described)
    assert before["ref/a.pdf"].version != after["ref/a.pdf"].version
    assert described.same(before["ref/a.pdf"].version, after["ref/a.pdf"].version)
    assert before["b.md"] == after["b.md"]
    with pytest.raises(Stale, match=r"a\.pdf\.meta\.yaml changed"):
        described.fetch(before["ref/a.pdf"])
    assert described._key_of_change("ref/a.pdf.meta.yaml", False) == "ref/a.pdf"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: [1", r"a\.pdf\.meta\.yaml line 1: .*: correct it"),
        (b"\xff\xfe\x00", "neither YAML nor JSON"),
        (b"- a\n", "must be a mapping of keys to values"),
        (b"a: " + b"x" * 70_000, "more than 65,536 bytes"),
        (b"a: !!python/object/apply:os.getcwd []", "line 1: could not determine a constructor"),
        (b"a: 2026-99-99", "neither YAML nor JSON"),
    ],
)
def test_wrong_sidecar_is_an_error_of_its_document_alone(
    described: Folder, tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "ref/a.pdf.meta.yaml").write_bytes(content)
    items = listed(described)
    assert items["ref/a.pdf"].extra == ()
    with pytest.raises(Transient, match=says):
        described.fetch(items["ref/a.pdf"])
    assert fetched(described, items["b.md"]).data == b"b.md"


# -- options


def test_options_with_units_are_converted() -> None:
    options = FolderOptions.model_validate(
        {"path": "/notes", "max_size": "2MB", "watch": False, "settle": "500ms", "poll": "1m"}
    )
    assert (options.max_size, options.watch, options.settle, options.poll) == (2_000_000, "off", 0.5, 60.0)


# -- odd names and odd files


@pytest.mark.parametrize(
    "raw", [b"two\nlines.md", b"caf\xe9.md", b"\xff\xfe/\xe9\n.md", b"a\\\xe9", rb"\xE9", b" "]
)
def test_names_not_plain_text_are_listed_and_fetched(world: FolderWorld, raw: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(world.root) + b"/" + raw))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"here")
    [item] = world.connector.scan()
    for text in (item.key, item.uri):
        text.encode("utf-8")
    assert fetched(world.connector, item).data == b"here"
    assert list(world.connector.scan_under(item.key)) == [item]


def test_special_files_are_skipped(world: FolderWorld) -> None:
    plant(world, "a.md")
    os.mkfifo(world.root / "fifo.md")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(world.root)  # a socket's path must be short
        listener.bind("socket.md")
        os.chdir(here)
        (world.root / "device.md").symlink_to("/dev/zero")
        (world.root / "to-fifo.md").symlink_to("fifo.md")
        assert selected(world, symlinks="follow") == {"a.md"}


def test_fifo_in_place_of_a_listed_file_does_not_block(world: FolderWorld) -> None:
    plant(world, "a.md")
    [item] = world.connector.scan()
    with pytest.raises(Transient, match="still being written"):
        world.connector.fetch(item)
    assert fetched(world.connector, item).data == b"x"
    world.delete("a.md")
    os.mkfifo(world.root / "a.md")
    with pytest.raises(Stale):
        world.connector.fetch(item)


def test_file_below_longest_path_is_fetched(world: FolderWorld) -> None:
    here, depth = Path.cwd(), 200
    os.chdir(world.root)
    for _ in range(depth):  # 200 * 60 characters: no single path may be that long
        Path("d" * 60).mkdir()
        os.chdir("d" * 60)
    Path("a.md").write_text("deep")
    os.chdir(here)
    [item] = world.connector.scan()
    assert fetched(world.connector, item).data == b"deep"


def test_file_over_the_limit_is_listed_and_refused_unread(world: FolderWorld) -> None:
    with (world.root / "big.md").open("wb") as stream:
        stream.truncate(10**12)
    message = r"1,000,000,000,000 bytes are more than max_size \(50,000,000"
    with pytest.raises(BadDocument, match=message) as refused:
        world.connector.fetch(*world.connector.scan())
    assert "raise `max_size`" in shorten(str(refused.value), 70), "a log line has room for the remedy"


# -- versions and reading


def test_touched_file_has_another_version_and_a_renamed_one_almost_the_same(world: FolderWorld) -> None:
    plant(world, "a.md")
    path = world.root / "a.md"
    times = path.stat()
    before = listed(world.connector)["a.md"]
    seen = {before.version}

    def same_size_with_its_old_times() -> None:
        path.write_bytes(b"y")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def replaced() -> None:
        (world.root / "b.tmp").write_bytes(b"y")
        (world.root / "b.tmp").rename(path)

    changes: list[Callable[[], object]] = [path.touch, lambda: path.chmod(0o600)]
    for change in (*changes, same_size_with_its_old_times, replaced):
        time.sleep(0.02)
        change()
        item = listed(world.connector)["a.md"]
        assert item.version not in seen
        seen.add(item.version)
    world.move("a.md", "b.md")
    after = listed(world.connector)["b.md"]
    assert after.version.split(".")[:4] == item.version.split(".")[:4], "all but the time of the change"
    assert (after.size, after.modified) == (item.size, item.modified)


def test_file_is_read_whole_or_refused_if_it_grows(
    world: FolderWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a.md", b"0123456789" * 100)
    [item] = world.connector.scan()
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 7)))
    assert fetched(world.connector, item).data == b"0123456789" * 100, "in several parts"

    def growing(descriptor: int, size: int) -> bytes:
        with (world.root / "a.md").open("ab") as writer:
            writer.write(b"more")
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", growing)
    with pytest.raises(Stale, match="changed while it was read"):
        world.connector.fetch(item)


def test_file_that_grows_all_the_time_is_read_up_to_its_last_line(
    world: FolderWorld, caplog: pytest.LogCaptureFixture
) -> None:
    seconds, path = [0.0], world.root / "app.log"
    world.connector._growing = Growing(lambda: seconds[0])
    path.write_bytes(b"first\nsec")

    def read_while_it_grows() -> bytes:
        [item] = world.connector.scan()
        with path.open("ab") as writer:
            writer.write(b"ond\nmore")
        return world.connector.fetch(item).data

    caplog.set_level("INFO")
    with pytest.raises(Stale):
        read_while_it_grows()
    seconds[0] += EVERY - 1
    with pytest.raises(Stale):
        read_while_it_grows()
    seconds[0] += 1
    assert read_while_it_grows() == b"first\nsecond\nmoreond\n"
    with pytest.raises(Stale):
        read_while_it_grows()
    seconds[0] += EVERY
    assert read_while_it_grows().count(b"\n") == 5
    assert caplog.text.count("grows steadily") == 1
    [item] = world.connector.scan()
    assert fetched(world.connector, item).data == path.read_bytes(), "whole, once it has stopped"


@pytest.mark.parametrize(
    ("name", "before", "change", "rewritten"),
    [
        *((name, b"[\n1\n", b"2\n", False) for name in ("a.json", "a.html", "a.pdf")),
        ("a.txt", b"none", b" at all", False),
        ("a.txt", b"none", b"a\n\0\n", False),
        ("a.txt", b"", b"line\n", True),
    ],
)
def test_growing_file_that_is_no_log_is_never_read_in_part(
    world: FolderWorld, name: str, before: bytes, change: bytes, rewritten: bool
) -> None:
    seconds, path = [0.0], world.root / name
    world.connector._growing = Growing(lambda: seconds[0])
    path.write_bytes(before)
    for attempt in range(4):
        [item] = world.connector.scan()
        more = b"%d " % attempt + change * 10 * (attempt + 1) if rewritten else path.read_bytes() + change
        path.write_bytes(more)
        with pytest.raises(Stale):
            world.connector.fetch(item)
        seconds[0] += EVERY


def test_file_under_steady_writes_is_never_read_in_part(world: FolderWorld) -> None:
    """Each state of the file repeats one letter; a mixture would be a torn read."""
    world.put("a.md", b"a" * 200_000)
    stop = threading.Event()

    def write() -> None:
        for letter in cycle(b"bcdefghij"):
            with (world.root / "a.md").open("r+b") as stream:
                for _ in range(20):
                    stream.write(bytes([letter]) * 10_000)
            if stop.wait(0.15):
                return

    writer = threading.Thread(target=write)
    writer.start()
    whole = refused = 0
    while whole < 5 or not refused:
        [item] = world.connector.scan()
        try:
            data = world.connector.fetch(item).data
        except Transient:
            refused += 1
            continue
        whole += 1
        assert data == data[:1] * 200_000
    stop.set()
    writer.join()


# -- what can't be seen is unknown


def test_missing_folder_needs_a_person(world: FolderWorld) -> None:
    plant(world, "a.md")
    with pytest.raises(NeedsHuman, match="not a folder"):
        list(Folder(FolderOptions(path=world.root / "a.md")).scan())
    item = Item("a.md", "1", "a.md")
    assert world.connector.identity()
    world.fail()
    for attempt in (world.keys, world.connector.identity, lambda: world.connector.fetch(item)):
        with pytest.raises(NeedsHuman, match=r"root is missing: create or mount it, or correct `path`"):
            attempt()


@pytest.mark.parametrize("replaced", [False, True])
def test_folder_deleted_or_replaced_while_it_is_listed_raises(world: FolderWorld, replaced: bool) -> None:
    plant(world, "sub/a.md", "b.md")
    scan = world.connector.scan()
    next(scan)
    world.fail()
    if replaced:
        world.root.mkdir()
    message = "replaced while it was being listed" if replaced else "is missing"
    with pytest.raises(Transient if replaced else NeedsHuman, match=message):
        list(scan)


def test_part_that_fails_is_unknown_and_the_rest_is_listed(
    world: FolderWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(world, "a/x.md", "b/x.md", "b/c/y.md", "d.md")
    scandir, failing = os.scandir, (world.root / "b").stat().st_ino

    def scan_or_fail(descriptor: int) -> object:
        if os.fstat(descriptor).st_ino == failing:
            raise OSError(5, "Input/output error")
        return scandir(descriptor)

    monkeypatch.setattr("os.scandir", scan_or_fail)
    found, error = broken_off(world.connector)
    assert "root/b (Input/output error)" in str(error)
    assert (found.keys(), error.unknown) == ({"a/x.md", "d.md"}, ("b",))


_UNREADABLE = """
folder, seen = Folder(FolderOptions(path=sys.argv[1])), {}
try:
    for item in folder.scan():
        seen[item.key] = item
except PartialScan as error:
    unknown = error.unknown
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
    sys.exit()
try:
    folder.fetch(seen["secret.md"])
except Exception as error:
    print(json.dumps([sorted(seen), unknown, type(error).__name__, str(error)]))
"""


def test_unreadable_file_is_unknown_and_an_unreadable_folder_needs_a_person(world: FolderWorld) -> None:
    plant(world, "a.md", "secret.md", "shut/b.md", "names/c.md", "rules/d.md", "rules/.gitignore", "e/f.md")
    for path in (world.root, *world.root.parents):
        if path.stat().st_uid == os.geteuid() and len(path.parts) > 2:
            path.chmod(0o755)
    (world.root / "to-shut.md").symlink_to("shut/b.md")
    for name, mode in {"secret.md": 0o000, "shut": 0o000, "names": 0o444, "rules/.gitignore": 0o000}.items():
        (world.root / name).chmod(mode)
    seen, unknown, kind, why = json.loads(run_as_nobody(_UNREADABLE, str(world.root)))
    assert seen == ["a.md", "e/f.md", "secret.md"]
    assert unknown == ["names", "rules", "shut", "to-shut.md"]
    remedy = "can't be read: give this user read access, or exclude it"
    assert (kind, why) == ("Transient", f"{world.root}/secret.md {remedy}")
    world.root.chmod(0o000)
    kind, why = json.loads(run_as_nobody(_UNREADABLE, str(world.root)))
    world.root.chmod(0o755)
    assert kind == "NeedsHuman" and why.startswith(f"the folder {world.root} can't be read")
