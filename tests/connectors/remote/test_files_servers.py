"""Against real servers of every protocol: each runs where its program and packages are installed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.remote.files import Files, FilesOptions
from ingestor.ports import NeedsHuman, Transient
from tests.connectors.laws import ConnectorLaws, World, fetched, listed
from tests.connectors.servers import PASSWORD
from tests.connectors.stores import SERVED, Behind, in_s3, over_sftp, over_smb, s3_server

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _google_by_http_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """gcsfs asks for a bucket's kind by gRPC, which no emulator speaks; it reads this when it is imported."""
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


@pytest.fixture(params=SERVED)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    make, packages = SERVED[request.param]
    for package in packages:
        pytest.importorskip(package)
    with make(tmp_path) as world:
        yield world


class TestLaws(ConnectorLaws):
    pass


@pytest.mark.parametrize("protocol", ["webdav", "ftp", "smb"])
def test_wrong_password_needs_a_human_and_stays_secret(protocol: str, tmp_path: Path) -> None:
    make, packages = SERVED[protocol]
    for package in packages:
        pytest.importorskip(package)
    with make(tmp_path) as world:
        world.put("a.md", b"x")
        wrong = {**world.source, "secrets": {"password": "wrong-one"}}
        with pytest.raises(NeedsHuman, match="refuses the login") as caught:
            listed(Files(FilesOptions.model_validate(wrong)))
        assert "wrong-one" not in str(caught.value)


def test_login_is_sent_to_known_hosts_only(tmp_path: Path) -> None:
    pytest.importorskip("paramiko")
    with over_sftp(tmp_path) as world:
        world.put("a.md", b"x")
        known = Path(world.source["options"]["known_hosts"])
        right = known.read_text()
        for text, message in (("", "ssh-keyscan"), (right[:-4] + "AAA\n", "this may be an attack")):
            known.write_text(text)
            with pytest.raises(NeedsHuman, match=message):
                listed(Files(FilesOptions.model_validate(world.source)))
        known.unlink()
        with pytest.raises(NeedsHuman, match="ssh-keyscan"):
            listed(Files(FilesOptions.model_validate(world.source)))


def test_share_is_read_by_the_login_of_its_own_source(tmp_path: Path) -> None:
    pytest.importorskip("smbclient")
    with over_smb(tmp_path) as world:
        world.put("a.md", b"x")
        assert listed(world.connector)
        for options in ({"username": "nobody-known"}, {}):
            given = {**world.source["options"], **options}
            other = {**world.source, "options": given, "secrets": {"password": PASSWORD + "x"}}
            with pytest.raises(NeedsHuman, match="refuses the login"):
                listed(Files(FilesOptions.model_validate(other)))


def test_unreachable_server_is_retried_and_found_again(world: World) -> None:
    if not isinstance(world, Behind):
        pytest.skip("has no proxy")
    world.put("a.md", b"x")
    before = listed(world.connector)
    port, world.proxy.target = world.proxy.target, 1
    world.proxy.drop()
    with pytest.raises(Transient):
        list(world.connector.scan())
    world.proxy.target = port
    assert listed(world.connector) == before


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, Any]]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with s3_server() as server:
        yield server


def test_many_keys_are_listed_in_few_requests(
    server: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = in_s3(server)
    for number in range(30):
        world.put(f"d{number}/a.md", b"x")
    world.put("docs/", b"")
    assert len(listed(world.connector)) == 30
    system = world.connector._opened[0]  # type: ignore[index]
    calls: list[str] = []
    ask = system._call_s3

    async def counted(method: str, *given: Any, **more: Any) -> Any:
        calls.append(method)
        return await ask(method, *given, **more)

    monkeypatch.setattr(system, "_call_s3", counted)
    items = listed(world.connector)
    assert calls == ["list_objects_v2"]
    fetched(world.connector, items["d3/a.md"])
    assert calls[1:] == ["get_object", "head_object"]


def test_prefix_lists_its_own_keys_alone(server: dict[str, Any]) -> None:
    world = in_s3(server)
    for key in ("docs/a.md", "docs/deep/b.md", "docs2/c.md"):
        world.put(key, b"x")
    source = {**world.source, "url": f"{world.url}/docs"}
    assert listed(Files(FilesOptions.model_validate(source))).keys() == {"a.md", "deep/b.md"}


def test_object_named_like_a_folder_is_listed(server: dict[str, Any]) -> None:
    world = in_s3(server)
    for key in ("both", "both/in.md", "bother"):
        world.system.call_s3("put_object", Bucket=world.root, Key=key, Body=b"x")
    assert listed(world.connector).keys() == {"both", "both/in.md", "bother"}
    assert {item.key for item in world.connector.scan_under("both")} == {"both", "both/in.md"}
    assert not list(world.connector.scan_under("nothing"))
