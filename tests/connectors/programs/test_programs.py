"""Real programs from PyPI: a tap of Singer and a source of Airbyte."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.ports import NeedsHuman, Transient
from tests.connectors.laws import listed
from tests.connectors.program_worlds import PageWorld, source_world, tap_world

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(params=["tap", "source"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PageWorld]:
    if request.param == "tap":
        yield tap_world(tmp_path)
        return
    with source_world(tmp_path) as made:
        yield made


def test_what_changed_is_another_version_and_nothing_else_is(world: PageWorld) -> None:
    for key in ("a.md", "b.md", "ünï/c.md"):
        world.put(key, f"# {key}\n".encode())
    before = listed(world.connector)
    assert before.keys() == {"pages/a.md", "pages/b.md", "pages/ünï/c.md"}
    assert before["pages/a.md"].extra == (("tags", "a, b"),)
    blob = world.connector.fetch(before["pages/ünï/c.md"])
    assert (blob.data.decode(), blob.name) == ("# ünï/c.md\n", "c.md")
    assert listed(world.connector) == before

    world.put("a.md", b"changed")
    world.delete("b.md")
    after = listed(world.connector)
    assert after.keys() == {"pages/a.md", "pages/ünï/c.md"}
    assert [after[key] == before[key] for key in after] == [False, True]


def test_what_cant_be_read_is_no_empty_source(world: PageWorld) -> None:
    world.put("a.md", b"one")
    assert len(listed(world.connector)) == 1
    world.fail()
    with pytest.raises((NeedsHuman, Transient)):
        next(world.connector.scan())
