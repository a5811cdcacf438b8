"""Collections of other ingestors, of lost states, of nobody: told apart, and a way out of each."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from ingestor.chroma.client import Client
from ingestor.chroma.collections import list_names
from ingestor.chroma.server import ChromaServer
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.serving import HOST, client_of, shared_server
from tests.waiting import wait

NONE_EMBEDDED = {"texts": 0, "tokens": 0, "cost": 0}


def write(project: Project, documents: int, words: str = "words") -> None:
    for number in range(documents):
        (project.docs / f"{number}.txt").write_text(f"some {words} {number}\n")


def share(project: Project, chroma: ChromaServer) -> None:
    project.settings["chroma"] = {"host": HOST, "port": chroma.port}
    project.configure()


def inventory(ask: Ask) -> dict[str, dict[str, object]]:
    return {found["name"]: found for found in answered(ask("collections", "--json"))}


def test_a_state_that_moves_to_a_shared_chroma_finds_its_name_taken(
    project: Project, ask: Ask, tmp_path: Path
) -> None:
    """The way out that is advised works: another name, and nothing is waited for any more."""
    write(project, 20)
    assert ask("sync").code == 0
    colleague = Project(tmp_path / "colleague")
    write(colleague, 2, "secrets")
    with shared_server(tmp_path / "shared") as shared, client_of(shared) as client:
        share(colleague, shared)
        colleague.json("sync")
        theirs = names(client)["docs"]
        share(project, shared)
        held = answered(ask("sync", "--json"), 4)
        assert "give your sources another `collection` in the config" in held["held"]["docs"]
        assert answered(ask("collections", "--json"))[0]["owner"] == "another ingestor"

        project.source = {"collection": "mine"}
        project.configure()
        done = answered(ask("sync", "--json"))
        assert (done["documents"]["added"], done["documents"]["failed"], done["unusable"]) == (20, 0, {})
        assert done["embedded"] == NONE_EMBEDDED
        assert answered(ask("sync", "--json"))["documents"]["unchanged"] == 20
        assert answered(ask("verify", "--json"))["checked"] == 20
        assert names(client)["docs"] == theirs
        assert colleague.json("verify")["checked"] == 2

        found = inventory(ask)
        assert (found["docs"]["owner"], found["docs"]["role"]) == ("another ingestor", None)
        assert (found["mine"]["owner"], found["mine"]["role"]) == ("this ingestor", "live")

    project.settings, project.source = {}, {}  # back to the old Chroma and name: what is there is unknown
    project.configure()
    assert answered(ask("sync", "--json"))["embedded"] == NONE_EMBEDDED
    assert answered(ask("verify", "--json"))["checked"] == 20


def names(client: Client) -> dict[str, str]:
    return {name: uuid for uuid, name in list_names(client).items()}


def test_a_lost_state_asks_before_it_embeds_and_can_adopt(project: Project, ask: Ask) -> None:
    write(project, 20)
    assert ask("sync").code == 0
    assert inventory(ask)["docs"] == {
        "name": "docs", "owner": "this ingestor", "role": "live", "in_config": True, "documents": 20,
        "records": 20, "strategies": ["recursive"], "model": "hashing", "dimensions": 64, "trouble": None,
        "elsewhere": None,
    } | {key: inventory(ask)["docs"][key] for key in ("state", "uuid")}  # fmt: skip
    shutil.rmtree(project.folder / "state")
    assert inventory(ask)["docs"]["owner"] == "another ingestor"
    shutil.rmtree(project.folder / "state", ignore_errors=True)
    assert "ingestor collections --adopt docs" in answered(ask("plan", "--json"), 4)["unusable"]["docs"]
    assert not (project.folder / "state").exists()
    (project.folder / "state").mkdir()
    assert "ingestor collections --adopt docs" in answered(ask("plan", "--json"), 4)["unusable"]["docs"]
    for _ in range(2):
        held = answered(ask("sync", "--json"), 4)
        assert "ingestor collections --adopt docs" in held["held"]["docs"]
        assert held["embedded"] == NONE_EMBEDDED
    assert len(project.records()) == 20

    assert ask("collections", "--adopt", "other").code == 2
    adopted = ask("collections", "--adopt", "docs")
    assert (adopted.code, "with 20 records; it is written again by: " in adopted.out) == (0, True)
    assert ask("collections", "--adopt", "docs").code == 2  # there is none now
    assert answered(ask("sync", "--json"))["documents"]["added"] == 20
    assert "already belongs to this ingestor" in ask("collections", "--adopt", "docs").err
    assert answered(ask("verify", "--json"))["checked"] == 20


def test_only_what_is_ours_and_unused_is_deleted(project: Project, ask: Ask, tmp_path: Path) -> None:
    write(project, 3)
    with shared_server(tmp_path / "shared") as shared, client_of(shared) as client:
        share(project, shared)
        assert ask("collections", "--json").out.strip() == "[]"
        stranger = client.api.create_collection("stranger")
        client.api.upsert(
            stranger.id, ids=["a"], vectors=[np.ones(1)], metadatas=[{"by": "them"}], documents=["text"]
        )
        ask("sync")
        told = ask("collections").out
        assert [row.split()[0] for row in told.splitlines()] == ["collection", "docs", "stranger"]
        live = ask("collections", "--delete", "docs")
        assert (live.code, "what readers see" in live.err) == (2, True)
        assert "Chroma has no collection 'absent'" in ask("collections", "--delete", "absent").err
        for words in (("--delete", "docs", "--not-ours"), ("--not-ours",), ("--adopt", "a", "--delete", "b")):
            assert ask("collections", *words).code == 2

        project.source = {"collection": "mine"}
        project.configure()
        assert ask("sync").code == 0
        assert (inventory(ask)["docs"]["documents"], inventory(ask)["docs"]["in_config"]) == (0, False)
        assert "unused" in ask("collections").out
        assert answered(ask("collections", "--delete", "docs", "--json")) == {"deleted": "docs", "records": 0}
        refused = ask("collections", "--delete", "stranger")
        assert (refused.code, "--delete stranger --not-ours" in refused.err) == (2, True)
        assert set(names(client)) == {"mine", "stranger"}
        assert ask("collections", "--delete", "stranger", "--not-ours").code == 0
        assert set(names(client)) == {"mine"}
        assert answered(ask("sync", "--json"))["documents"]["unchanged"] == 3


def test_what_a_source_left_behind_goes_with_apply_before_its_collection(project: Project, ask: Ask) -> None:
    write(project, 3)
    one = {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"}
    project.settings = {"sources": [one, one | {"name": "more", "collection": "more"}]}
    project.configure()
    assert ask("sync").code == 0
    project.settings = {"sources": [one]}
    project.configure()
    refused = ask("collections", "--delete", "more")
    assert (refused.code, "run `ingestor apply` first" in refused.err) == (2, True)
    ask("apply")
    assert ask("collections", "--delete", "more").code == 0
    assert list(inventory(ask)) == ["docs"]


def test_the_collection_before_a_swap_is_kept(project: Project, ask: Ask) -> None:
    write(project, 3, "words " * 100)
    ask("sync")
    project.settings = {"chunking": {"strategy": "recursive", "size": 20}, "rechunk": "swap"}
    project.configure()
    assert ask("sync").code == 0
    roles = {found["role"]: name for name, found in inventory(ask).items()}
    assert roles["live"] == "docs"
    kept = ask("collections", "--delete", roles["previous"])
    assert (kept.code, "ingestor rollback" in kept.err) == (2, True)


@pytest.mark.slow
def test_a_daemon_goes_on_by_itself_when_its_collection_is_adopted(project: Project) -> None:
    write(project, 3)
    project.json("sync")
    shutil.rmtree(project.folder / "state")
    daemon = project.start()
    try:
        wait(lambda: "collections --adopt docs" in (project.poll("status")["sources"]["docs"]["held"] or ""))
        project.json("collections", "--adopt", "docs")
        wait(lambda: project.settled(3))
        assert daemon.stop() == 0
    finally:
        daemon.kill()
