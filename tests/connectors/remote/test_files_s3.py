"""Against an S3 server. Its packages are no dependencies: with s3fs and moto[server] installed these run."""

from collections.abc import Iterator
from typing import Any

import pytest

from ingestor.connectors.remote.files import Files, FilesOptions
from tests.connectors.laws import ConnectorLaws, fetched, listed
from tests.connectors.stores import StoreWorld, in_s3, s3_server

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, Any]]:
    with s3_server() as server:
        yield server


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, server: dict[str, Any]) -> StoreWorld:
        return in_s3(server)


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


def test_object_with_the_name_of_a_folder(server: dict[str, Any]) -> None:
    world = in_s3(server)
    for key in ("both", "both/in.md", "bother"):
        world.system.call_s3("put_object", Bucket=world.root, Key=key, Body=b"x")
    assert listed(world.connector).keys() == {"both", "both/in.md", "bother"}
    assert {item.key for item in world.connector.scan_under("both")} == {"both", "both/in.md"}
    assert not list(world.connector.scan_under("nothing"))
