"""Which metadata keys records carry: changed in a config, announced, written in place, and searched."""

import json

import pytest

from ingestor.core.metadata_keys import LEAN, NEEDED
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project

TEXT = "# Title {n}\n\n" + "Some words of number {n} here. " * 60 + "\n\n## Fees\n\nA loan costs {n} euros.\n"


@pytest.fixture
def synced(project: Project, ask: Ask) -> Project:
    """Three documents of several chunks, with all keys."""
    for n in range(3):
        (project.docs / f"{n}.md").write_text(TEXT.format(n=n))
    assert ask("sync").code == 0
    return project


def keys(project: Project) -> set[str]:
    return {key for _, _, metadata, _ in project.records() for key in metadata}


def test_a_changed_profile_is_announced_and_writes_metadata_alone(synced: Project, ask: Ask) -> None:
    count = len(synced.records())
    assert {"file_size", "recipe", "relationships"} <= keys(synced)
    synced.settings = {"metadata": {"docs": "lean"}}
    synced.configure()
    said = ask("plan").out
    assert "collection docs's metadata is written in place, and nothing is embedded:" in said
    assert '  metadata: "full" -> "lean"' in said
    planned = answered(ask("plan", "--json"))
    assert (planned["records"]["patched"], planned["embed"]["texts"]) == (count, 0)
    [change] = planned["changes"]
    assert (change["metadata"]["after"], change["swap"], change["waits"]) == ('"lean"', False, None)
    done = answered(ask("sync", "--json"))
    assert done["records"] == {"added": 0, "replaced": 0, "patched": count, "dropped": 0}
    assert keys(synced) <= LEAN
    assert answered(ask("verify", "--json"))["checked"] == count
    assert answered(ask("plan", "--json"))["changes"] == []
    assert synced.essence() == synced.fresh("lean").essence()

    synced.settings = {"metadata": ["file_name"], "rechunk": {"approve": "above 1 chunks"}}
    synced.configure()
    assert answered(ask("sync", "--json"))["records"]["patched"] == count, "metadata needs no approval"
    assert {"file_name", "source"} <= keys(synced) <= NEEDED | {"file_name"}
    synced.settings = {}
    synced.configure()
    assert ask("sync").code == 0
    assert synced.essence() == synced.fresh("full").essence()
    assert "Everything is in order" in ask("verify").out


@pytest.mark.slow
def test_with_another_strategy_it_goes_into_the_second_collection(synced: Project, ask: Ask) -> None:
    """The first one stays as it is meanwhile, and while the change waits."""
    before = synced.records()
    chunking = {"strategy": "recursive", "size": 30}
    synced.settings = {"metadata": "lean", "chunking": chunking, "rechunk": {"approve": "above 1 chunks"}}
    synced.configure()
    said = ask("plan").out
    assert "is rebuilt in a second collection" in said
    assert '  metadata: "full" -> "lean"' in said
    assert answered(ask("sync", "--json"))["records"]["patched"] == 0
    assert synced.records() == before
    assert ask("apply").code == 0
    assert keys(synced) <= LEAN
    assert synced.essence() == synced.fresh().essence()
    assert ask("rollback", "docs").code == 0
    assert ask("sync").code == 0
    assert {id_: meta for id_, _, meta, _ in synced.records()} == {id_: meta for id_, _, meta, _ in before}


def test_search_finds_what_stands_around_a_hit_by_any_profile(synced: Project, ask: Ask) -> None:
    def found(expand: str) -> list[object]:
        words = ("--expand", expand, "-n", "1", "--json")
        said = answered(ask("query", "A loan costs 2 euros", *words))
        return [(one["text"], one["start"], one["lines"], one["heading_path"]) for one in said["passages"]]

    expands = ("none", "neighbours", "section", "document")
    full = [found(expand) for expand in expands]
    assert len({json.dumps(each) for each in full}) > 2
    for profile in ("lean", ["author"]):
        synced.settings = {"metadata": profile}
        synced.configure()
        assert ask("sync").code == 0
        assert [found(expand) for expand in expands] == full
    assert "2.md:" in ask("query", "A loan costs 2 euros").out
    assert "None" not in ask("show", "2.md").out
