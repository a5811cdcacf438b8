import ftplib
import sys
import time
from pathlib import Path

import pytest

from ingestor.connectors.remote import files, listings
from ingestor.connectors.remote.files import Files, FilesOptions
from ingestor.connectors.remote.listings import address, entries
from ingestor.ports import BadDocument, NeedsHuman, PartialScan, Stale, Transient
from tests.connectors.laws import ConnectorLaws, broken_off, listed
from tests.connectors.stores import StoreWorld, in_memory


@pytest.fixture
def world() -> StoreWorld:
    return in_memory()


class TestLaws(ConnectorLaws):
    pass


class Broken:
    """Another file system's answers, but for what a test breaks: a path and the error it gives."""

    def __init__(self, world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: dict[str, Exception] = {}
        self.calls: list[str] = []
        system = world.system
        ls, cat = system.ls, system.cat_file

        def asked(path: str) -> None:
            self.calls.append(path)
            for part, error in self.errors.items():
                if path.endswith(part):
                    raise error

        monkeypatch.setattr(system, "ls", lambda path, **more: (asked(path), ls(path, **more))[1])
        monkeypatch.setattr(system, "cat_file", lambda path, **more: (asked(path), cat(path, **more))[1])
        monkeypatch.setattr(files, "open_address", lambda *given: (system, world.root))


def answered(status: int) -> Exception:
    """Return the error of an HTTP client."""
    return type("Answer", (Exception,), {"status": status})("storage is not available")


@pytest.fixture
def broken(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(world, monkeypatch)


def test_patterns_select_files_and_addresses_lead_to_them(world: StoreWorld) -> None:
    for key in ("docs/a.md", "docs/b.txt", "drafts/c.md", ".hidden/d.md", "e.md~"):
        world.put(key, b"x")
    assert listed(world.connector).keys() == {"docs/a.md", "docs/b.txt", "drafts/c.md"}
    source = {**world.source, "include": ["*.md"], "exclude": ["drafts/"], "url": world.url + "/"}
    items = listed(Files(FilesOptions.model_validate(source)))
    assert {item.uri for item in items.values()} == {f"{world.url}/docs/a.md"}


def test_too_large_a_file_is_not_read(world: StoreWorld, broken: Broken) -> None:
    world.put("a.md", b"x" * 2000)
    connector = Files(FilesOptions.model_validate({**world.source, "max_size": 1000}))
    item = listed(connector)["a.md"]
    broken.calls.clear()
    with pytest.raises(BadDocument, match=r"2,000 bytes are more than max_size \(1,000"):
        connector.fetch(item)
    assert broken.calls == []


@pytest.mark.parametrize("error", [PermissionError("no"), FileNotFoundError("no")])
def test_part_that_cannot_be_listed_is_unknown(world: StoreWorld, broken: Broken, error: Exception) -> None:
    for key in ("a.md", "closed/b.md", "open/c.md"):
        world.put(key, b"x")
    broken.errors["closed"] = error
    found, failed = broken_off(world.connector)
    assert "its known documents stay" in str(failed)
    assert (found.keys(), failed.unknown) == ({"a.md", "open/c.md"}, ("closed",))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((error("no"), NeedsHuman) for error in (PermissionError, FileNotFoundError, ImportError)),
        (type("NoCredentialsError", (Exception,), {})("no"), NeedsHuman),
        (answered(401), NeedsHuman),
        (answered(503), Transient),
        *((error("no"), Transient) for error in (OSError, TimeoutError, ftplib.error_temp, EOFError)),
    ],
)
def test_address_not_listed_raises_and_recovers(
    world: StoreWorld, broken: Broken, error: Exception, kind: type[Exception]
) -> None:
    broken.errors[world.root] = error
    with pytest.raises(kind):
        list(world.connector.scan())
    broken.errors.clear()
    assert listed(world.connector) == {}


def test_connection_ended_while_idle_is_reopened(
    world: StoreWorld, broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers end those that nothing comes over, and a listing comes every few minutes."""
    world.put("a.md", b"x")
    assert listed(world.connector)
    broken.errors[world.root] = OSError("Socket is closed")

    def reopened(*given: object) -> object:
        broken.errors.clear()
        return world.system, world.root

    monkeypatch.setattr(files, "open_address", reopened)
    assert listed(world.connector).keys() == {"a.md"}


@pytest.mark.parametrize("error", [None, PermissionError("no"), ConnectionResetError("cut")])
def test_truncated_or_unreadable_file_is_retried(
    world: StoreWorld, broken: Broken, error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a.md", b"whole")
    item = listed(world.connector)["a.md"]
    if error is None:
        monkeypatch.setattr(world.system, "cat_file", lambda path: b"who")
    else:
        broken.errors["a.md"] = error
    with pytest.raises(
        Transient, match="refuses|read now" if error else "was cut off after 3 bytes"
    ) as caught:
        world.connector.fetch(item)
    assert not isinstance(caught.value, Stale)


def test_folder_that_fails_for_good_leaves_the_others(world: StoreWorld, broken: Broken) -> None:
    folders = [f"broken{number}" for number in range(12)]
    for key in ("a.md", *(f"{folder}/b.md" for folder in folders), "whole/c.md", "whole/d.md"):
        world.put(key, b"x")
    for folder in folders:
        broken.errors[folder] = answered(503)
    found, failed = broken_off(world.connector)
    assert "storage is not available" in str(failed)
    assert (sorted(failed.unknown), sorted(found)) == (sorted(folders), ["a.md", "whole/c.md", "whole/d.md"])


def test_server_ending_during_a_listing_is_retried(world: StoreWorld, broken: Broken) -> None:
    for number in range(12):
        world.put(f"{number}/b.md", b"x")
    found = world.connector.scan()
    next(found)
    for place in (world.root, *map(str, range(12))):
        broken.errors[place] = ConnectionResetError("cut")
    with pytest.raises(Transient, match="can't be read now") as caught:
        list(found)
    assert not isinstance(caught.value, PartialScan)
    assert len(broken.calls) < 12


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, url in (("s3fs", "s3://bucket/x"), ("paramiko", "sftp://host/x")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(NeedsHuman, match=f"-m pip install {name}"):
            list(Files(FilesOptions(url=url)).scan())


def test_change_within_the_same_second_is_not_missed(tmp_path: Path) -> None:
    """Where there is no ETag and time is in whole seconds, what is so new is looked at again."""
    info = {"name": "a.md", "size": 3, "type": "file", "mtime": float(int(time.time()))}
    connector = Files(FilesOptions(url=f"memory://{tmp_path.name}"))
    first, second = connector._item("a.md", info), connector._item("a.md", info)
    assert first.version != second.version
    assert first.version.partition(" seen ")[0] == listings.version(info)
    old = {**info, "mtime": info["mtime"] - 60.0}
    assert connector._item("a.md", old) == connector._item("a.md", old)


@pytest.mark.parametrize(
    ("info", "version", "modified"),
    [
        ({"size": 3}, None, None),
        ({"size": 3, "ETag": '"x"'}, '3 "x" ', None),
        (
            {"size": 3, "ETag": "x", "LastModified": "2023-11-14T22:13:20.75Z"},
            "3 x 1700000000",
            1700000000.75,
        ),
        ({"size": 3, "Last-Modified": "Tue, 14 Nov 2023 22:13:20 GMT"}, "3 1700000000.0", 1700000000.0),
        ({"size": "3", "modify": "20231114221320"}, "3 1700000000.0", 1700000000.0),
        ({"size": 3, "mtime": 1.5}, "3 1.5", 1.5),
        ({"size": None, "mtime": "nonsense"}, None, None),
        ({"size": 0, "CRC": 0}, "0 0 ", None),
    ],
)
def test_facts_of_servers_are_read(
    info: dict[str, object], version: str | None, modified: float | None
) -> None:
    assert (listings.version(info), listings.time_of_change(info)) == (version, modified)


APACHE = b"""<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">
<html><head><title>Index of /docs</title></head>
<body><h1>Index of /docs</h1><table>
<tr><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th></tr>
<tr><td><a href="/">Parent Directory</a></td></tr>
<tr><td><a href="a%20b.md">a b.md</a></td></tr><tr><td><a href="sub/">sub/</a></td></tr>
</table></body></html>"""
NGINX = b"""<html><head><title>Index of /docs/</title></head><body><h1>Index of /docs/</h1><hr><pre>
<a href="../">../</a>\r\n<a href="caf%C3%A9.md">caf\xc3\xa9.md</a> 01-Jan-2026 10:00 5\r\n</pre>
<hr></body></html>"""
LINKS = b"""<a href="/docs/abs.md">x</a><a href="http://host/docs/full.md">x</a>
<a href="http://other/docs/no.md">x</a><a href="https://host/docs/no.md">x</a>
<a href="sub/deep/no.md">x</a><a href="mailto:me@host">x</a>
<a href="javascript:no()">x</a><a href="%2e%2e/no.md">x</a><a href="a%2fno.md">x</a><a href="#no">x</a>
<a href="R&amp;D.md">x</a><a href="http://[no">x</a><a>x</a>
<a href="here.md#part">x</a><a href="%FF.md">x</a>"""


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (APACHE, {"a b.md": False, "sub": True}),
        (NGINX, {"café.md": False}),
        (b"<html><title>Index of /docs/</title></html>", {}),
        (LINKS, dict.fromkeys(("abs.md", "full.md", "R&D.md", "here.md", "\udcff.md"), False)),
    ],
)
def test_entries_of_an_index_page_are_listed(page: bytes, expected: dict[str, bool]) -> None:
    assert entries(page, "http://host/docs/") == expected


def test_content_without_an_index_is_neither_listed_nor_empty() -> None:
    for page in (b"", b"busy", b'{"error": "no"}', b"<?xml version='1.0'?><"):
        with pytest.raises(ValueError, match="not HTML with links"):
            entries(page, "http://host/docs/")


def test_address_leads_back_to_the_name() -> None:
    for name in ("a b.md", "café.md", "R&D?#%.md", "\udcff.md"):
        link = address("http://host/docs", name)
        assert entries(f'<a href="{link}">x</a>'.encode(), "http://host/docs/") == {name: False}
