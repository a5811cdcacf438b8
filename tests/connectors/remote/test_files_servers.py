"""Against real servers of every protocol: each runs where its program and packages are installed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.remote.files import Files, FilesOptions
from ingestor.ports import NeedsHuman
from tests.connectors.laws import ConnectorLaws, World, fetched, listed
from tests.connectors.stores import SERVED, in_s3, s3_server

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _google_by_http_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """gcsfs asks for a bucket's kind by gRPC, which no emulator speaks; it reads this when it is imported."""
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


def served(protocol: str, folder: Path) -> AbstractContextManager[Any]:
    make, packages = SERVED[protocol]
    for package in packages:
        pytest.importorskip(package)
    return make(folder)


@pytest.fixture(params=SERVED)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with served(request.param, tmp_path) as world:
        yield world


class TestLaws(ConnectorLaws):
    pass


@pytest.mark.parametrize("protocol", ["webdav", "ftp", "smb"])
def test_wrong_password_needs_a_human_and_stays_secret(protocol: str, tmp_path: Path) -> None:
    """Use no session that another source has opened at the server."""
    with served(protocol, tmp_path) as world:
        world.put("a.md", b"x")
        assert listed(world.connector)
        for user in ({}, {"username": "nobody-known"}):
            given = {"options": {**world.source["options"], **user}, "secrets": {"password": "wrong-one"}}
            with pytest.raises(NeedsHuman, match="refuses the login") as caught:
                listed(Files(FilesOptions.model_validate({**world.source, **given})))
            assert "wrong-one" not in str(caught.value)


def test_login_is_sent_to_known_hosts_only(tmp_path: Path) -> None:
    with served("sftp", tmp_path) as world:
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


def test_known_hosts_of_a_user_who_does_not_exist_needs_a_human() -> None:
    pytest.importorskip("paramiko")
    options = {"known_hosts": "~nosuch/known_hosts"}
    with pytest.raises(NeedsHuman, match="no home folder is known for '~nosuch'"):
        listed(Files(FilesOptions(url="sftp://localhost/x", options=options)))


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


def test_prefix_lists_its_own_keys_and_objects_named_like_folders(server: dict[str, Any]) -> None:
    world = in_s3(server)
    for key in ("docs/a.md", "docs/deep/b.md", "docs2/c.md", "both", "both/in.md", "bother"):
        world.system.call_s3("put_object", Bucket=world.root, Key=key, Body=b"x")
    source = {**world.source, "url": f"{world.url}/docs"}
    assert listed(Files(FilesOptions.model_validate(source))).keys() == {"a.md", "deep/b.md"}
    assert listed(world.connector).keys() >= {"both", "both/in.md", "bother"}
    assert {item.key for item in world.connector.scan_under("both")} == {"both", "both/in.md"}
    assert not list(world.connector.scan_under("nothing"))
