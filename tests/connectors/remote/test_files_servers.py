"""Against real servers of every protocol: each runs where its program and packages are installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.connectors.remote.files import Files, FilesOptions
from ingestor.ports import NeedsHuman, Transient
from tests.connectors.laws import ConnectorLaws, World, listed
from tests.connectors.served import SERVED, Behind, over_sftp, over_smb
from tests.connectors.servers import PASSWORD

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


def test_login_is_told_to_known_hosts_alone(tmp_path: Path) -> None:
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


def test_server_that_is_away_is_asked_later_and_found_again(world: World) -> None:
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
