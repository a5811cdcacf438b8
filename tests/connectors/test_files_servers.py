"""Against WebDAV and FTP servers: they run where webdav4, wsgidav, cheroot and pyftpdlib are installed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.files import Files, FilesOptions
from ingestor.ports import NeedsHuman
from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.stores import ServedWorld, ftp_server, webdav_server

for package in ("webdav4", "wsgidav", "cheroot", "pyftpdlib"):
    pytest.importorskip(package)
pytestmark = pytest.mark.slow


@pytest.fixture(params=["webdav", "ftp"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    (tmp_path / "served").mkdir()
    login, secrets = {"username": "ada"}, {"password": "s3cret"}
    if request.param == "webdav":
        with webdav_server(tmp_path / "served") as port:
            options = {**login, "base_url": f"http://127.0.0.1:{port}"}
            yield {"url": "webdav://root", "options": options, "secrets": secrets}
    else:
        with ftp_server(tmp_path / "served") as port:
            options = {**login, "port": port}
            yield {"url": "ftp://127.0.0.1/root", "options": options, "secrets": secrets}


@pytest.fixture
def world(tmp_path: Path, source: dict[str, Any]) -> ServedWorld:
    return ServedWorld(tmp_path / "served", **source)


class TestLaws(ConnectorLaws):
    pass


def test_a_wrong_password(world: ServedWorld, source: dict[str, Any]) -> None:
    world.put("a.md", b"x")
    wrong = {**source, "secrets": {"password": "wrong"}}
    with pytest.raises(NeedsHuman, match="lets nobody in"):
        listed(Files(FilesOptions.model_validate(wrong)))
