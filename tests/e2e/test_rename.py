"""A source with another name in the config: documents stay, nothing is embedded, nothing is there twice."""

import sqlite3
from typing import Any

import pytest

from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.waiting import wait


@pytest.fixture
def synced(project: Project, ask: Ask) -> Project:
    """Six documents of a source that is called docs."""
    for number in range(6):
        (project.docs / f"{number}.md").write_text(
            f"# Title {number}\n\n" + f"Some words of number {number}. " * 30
        )
    assert ask("sync").code == 0
    return project


def but_names(record: Any) -> Any:
    """The record without what names its source."""
    id_, text, metadata, vector = record
    return id_, text, {k: v for k, v in metadata.items() if k not in ("source_name", "recipe")}, vector


def test_a_renamed_source_keeps_its_documents(synced: Project, ask: Ask) -> None:
    before = synced.records()
    synced.source = {"name": "handbook"}
    synced.configure()
    planned = ask("plan")
    assert "source docs was renamed to handbook: its documents are handed over" in planned.out
    assert "To do it" in planned.out
    assert answered(ask("plan", "--json"))["renamed"] == {"docs": "handbook"}
    planned_now = answered(ask("plan", "--json"))
    assert (planned_now["records"]["patched"], planned_now["embed"]["texts"]) == (len(before), 0)
    assert planned_now["records"]["added"] == planned_now["records"]["replaced"] == 0
    said = ask("status").out
    assert "source handbook was renamed from docs; its documents are handed over by the next pass" in said
    assert "no longer in the config" not in said
    assert answered(ask("status", "--json"))["sources"]["handbook"]["settled"] == 6

    done = ask("sync")
    assert done.code == 0, done
    assert "source docs was renamed to handbook and keeps its 6 documents" in done.err
    assert f"{len(before)} patched" in done.out
    assert "0 texts" in done.out
    assert {name for _, _, meta, _ in synced.records() for name in [meta["source_name"]]} == {"handbook"}
    assert [but_names(record) for record in synced.records()] == [but_names(record) for record in before]
    assert answered(ask("verify", "--json"))["checked"] == len(before)
    assert answered(ask("sync", "--json"))["documents"]["unchanged"] == 6
    assert list(answered(ask("status", "--json"))["sources"]) == ["handbook"]
    assert answered(ask("plan", "--json"))["renamed"] == {}


def test_plan_of_renamed_source_with_collective_strategy_announces_patches_only(
    project: Project, ask: Ask
) -> None:
    """The cuts depend on the mean of the collection, which a plan must know to find them again."""
    project.settings = {"chunking": {"strategy": "changepoint"}}
    project.configure()
    words = ["tariff", "harbour", "engine", "winter", "orchard", "signal", "granite", "violin"]
    for number in range(8):
        sentences = [
            f"The {word} of {n} is near the {words[n % 8]}." for n in range(8) for word in words[: number + 1]
        ]
        (project.docs / f"{number}.txt").write_text(" ".join(sentences))
    assert ask("sync").code == 0
    project.source = {"name": "handbook"}
    project.configure()
    planned = answered(ask("plan", "--json"))
    assert planned["documents"]["changed"] == 8
    assert planned["records"].pop("patched") > 8
    assert set(planned["records"].values()) == {0}


@pytest.mark.slow
def test_a_renamed_source_with_another_strategy_is_a_changed_strategy(synced: Project, ask: Ask) -> None:
    synced.source = {"name": "handbook"}
    synced.settings = {
        "chunking": {"strategy": "recursive", "size": 30},
        "rechunk": {"approve": "above 1 chunks"},
        "max_loss": 0.2,
    }
    synced.configure()
    [change] = answered(ask("plan", "--json"))["changes"]
    assert [one["key"] for one in change["changes"]] == ["chunking.size"]
    assert change["waits"]
    records = answered(ask("sync", "--json"))["records"]
    assert records.pop("patched") == len(synced.records())  # the new name of the source
    assert records == dict.fromkeys(("added", "replaced", "dropped"), 0)
    assert ask("apply").code == 0
    assert answered(ask("status", "--json"))["sources"]["handbook"]["settled"] == 6
    assert synced.essence() == synced.fresh().essence()


def test_apply_approves_what_a_rename_and_a_strategy_change_at_once(synced: Project, ask: Ask) -> None:
    synced.source = {"name": "handbook"}
    synced.settings = {
        "chunking": {"strategy": "recursive", "size": 30},
        "rechunk": {"approve": "above 1 chunks"},
    }
    synced.configure()
    assert ask("apply").code == 0
    assert synced.essence() == synced.fresh().essence()


def test_a_renamed_source_with_other_options_is_a_new_one(synced: Project, ask: Ask) -> None:
    synced.source = {"name": "handbook", "exclude": ["5.md"]}
    synced.configure()
    assert answered(ask("sync", "--json"))["documents"]["added"] == 5
    assert "source docs is no longer in the config" in ask("status").out


def test_the_place_of_a_source_is_learnt_after_an_upgrade(synced: Project, ask: Ask) -> None:
    with sqlite3.connect(synced.folder / "state" / "journal.sqlite3") as db:
        db.execute("UPDATE sources SET origin = NULL")
    db.close()
    ask("sync")
    synced.source = {"name": "handbook"}
    synced.configure()
    done = answered(ask("sync", "--json"))
    assert (done["documents"]["added"], done["embedded"]["texts"]) == (0, 0)


@pytest.mark.slow
def test_a_daemon_hands_documents_over_when_its_config_changes(synced: Project) -> None:
    """Also of a document whose source is renamed while it waits for another try."""
    daemon = synced.start()
    try:
        wait(lambda: synced.settled(6))
        synced.source = {"name": "handbook"}
        synced.configure()
        wait(lambda: "source docs was renamed to handbook and keeps its 6 documents" in daemon.said())
        (synced.docs / "new.md").write_text("# New\n\nWords.\n")
        wait(lambda: synced.json("status")["sources"].get("handbook", {}).get("settled") == 7)
        wait(lambda: synced.json("status")["embedded_texts"] == 1)  # the daemon tells now and then
        assert list(synced.json("status")["sources"]) == ["handbook"]
        assert daemon.stop() == 0
    finally:
        daemon.kill()
    assert synced.essence() == synced.fresh().essence()
