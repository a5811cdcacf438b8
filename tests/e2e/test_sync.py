"""One pass at a time: what a sync does, costs and prints, also for renamed, copied and sampled documents."""

import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from tests.e2e.in_chroma import in_chroma
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project, long_document, running
from tests.waiting import wait

pytestmark = pytest.mark.usefixtures("embedded")


def test_keys_of_sync_are_stable(project: Project) -> None:
    (project.docs / "a.md").write_text("# Title\n\nSome words.\n")
    result = project.json("sync")
    assert result["documents"] | {"failed": 0} == {
        "added": 1, "changed": 0, "moved": 0, "rebuilt": 0, "recut": 0, "removed": 0,
        "unchanged": 0,
        "quarantined": 0, "unsupported": 0, "failed": 0, "due": 0,
    }  # fmt: skip
    assert result["records"] == {"added": 1, "replaced": 0, "patched": 0, "dropped": 0}
    assert set(result["embedded"]) == {"texts", "tokens", "cost"}
    again = project.json("sync")
    assert again["documents"]["unchanged"] == 1
    assert again["embedded"]["texts"] == 0
    assert not any(again["records"].values())


def test_chroma_in_these_tests_is_forked_and_starts_no_python(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new Python would double the processor time of each command here."""

    def refuse(command: Sequence[str], **options: object) -> None:
        raise AssertionError(f"started {command}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    (project.docs / "a.txt").write_text("some words")
    assert project.json("sync")["documents"]["added"] == 1


def test_cost_follows_the_change(project: Project) -> None:
    """Law 5, counted: an edit embeds what it touches; what moved or was touched embeds nothing."""
    text = long_document(300)
    document = project.docs / "long.txt"
    document.write_text(text)
    first = project.json("sync")
    assert first["records"]["added"] >= 80

    document.write_text(text.replace("Sentence 150 speaks", "Sentence 150 keeps silent"))
    edited = project.json("sync")
    assert 1 <= edited["embedded"]["texts"] <= 2
    assert edited["records"]["added"] + edited["records"]["replaced"] == edited["embedded"]["texts"]

    document.write_text("A new first line.\n\n" + document.read_text())
    assert project.json("sync")["embedded"]["texts"] <= 2

    (project.docs / "sub").mkdir()
    document.rename(project.docs / "sub" / "renamed.txt")
    (project.docs / "sub" / "renamed.txt").touch()
    moved = project.json("sync")
    assert moved["documents"]["moved"] == 1
    assert moved["embedded"]["texts"] == 0
    assert moved["records"]["added"] == moved["records"]["replaced"] == moved["records"]["dropped"] == 0
    assert project.essence() == project.fresh().essence()


def test_plan_equals_the_following_sync(project: Project) -> None:
    for n in range(5):
        (project.docs / f"{n}.txt").write_text(long_document(40 + n))
    plan = project.json("plan")
    assert not (project.folder / "state").exists(), "plan must touch nothing"
    sync = project.json("sync")
    for kind in ("added", "changed", "moved", "removed", "unchanged"):
        assert plan["documents"][kind] == sync["documents"][kind], kind
    assert plan["records"] == sync["records"]
    assert plan["embed"]["texts"] == sync["embedded"]["texts"]
    assert plan["embed"]["tokens"] == sync["embedded"]["tokens"]

    (project.docs / "0.txt").unlink()
    (project.docs / "1.txt").rename(project.docs / "one.txt")
    (project.docs / "2.txt").write_text(long_document(42).replace("Sentence 7 ", "Line 7 "))
    plan, sync = project.json("plan"), project.json("sync")
    assert plan["records"] == sync["records"]
    assert {k: v for k, v in plan["documents"].items() if v} == {
        "removed": 1,
        "moved": 1,
        "changed": 1,
        "unchanged": 2,
    }
    assert plan["embed"]["texts"] == sync["embedded"]["texts"]


DAMAGE = """
ids = collection.get()["ids"]
aside = [1.0] + [0.0] * 63
collection.delete(ids[:2])
collection.update([ids[3]], metadatas=[{"source": "elsewhere"}])
collection.update([ids[4]], documents=["other words"], embeddings=[aside])
collection.add(["stray#0"], documents=["stray"], embeddings=[aside])
"""


def test_verify_finds_every_kind_of_damage_and_repairs_it_without_embedding(project: Project) -> None:
    for n in range(4):
        (project.docs / f"{n}.txt").write_text(long_document(60 + n))
    project.json("sync")
    assert project.json("verify")["checked"] > 20
    before = project.essence()
    in_chroma(project.folder / "chroma", "docs", DAMAGE)
    found = project.json("verify", code=4)
    assert [found[k] for k in ("missing", "orphaned", "stale", "wrong_metadata")] == [2, 1, 1, 1]
    assert project.json("verify", "--repair")["repaired"]
    assert project.essence() == before


@pytest.mark.parametrize(
    ("chunking", "exact", "cuts_known"),
    [
        # test_plan_equals_the_following_sync holds it for cuts that depend on no vector
        pytest.param({"strategy": "fixed"}, True, True, marks=pytest.mark.slow),
        pytest.param({"strategy": "changepoint", "scope": "document"}, True, False, marks=pytest.mark.slow),
        ({"strategy": "changepoint"}, True, False),
        ({"strategy": "cluster", "scope": "document"}, False, False),
        pytest.param({"strategy": "breakpoint", "vectors": "pooled"}, True, False, marks=pytest.mark.slow),
        pytest.param({"strategy": "breakpoint"}, False, False, marks=pytest.mark.slow),
        pytest.param({"strategy": "auto"}, True, False, marks=pytest.mark.slow),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
def test_plan_reports_the_uncertainty_of_its_estimates(
    project: Project, chunking: dict[str, str], exact: bool, cuts_known: bool
) -> None:
    project.settings["chunking"] = chunking
    project.configure()
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(long_document(40 + n))
    first, done = project.json("plan"), project.json("sync")
    assert (first["embed"]["exact"], first["cuts_known"]) == (exact, cuts_known)
    if exact:
        assert first["embed"]["texts"] == done["embedded"]["texts"]
        assert first["embed"]["tokens"] == done["embedded"]["tokens"]
    if cuts_known:
        assert first["records"] == done["records"]
    nothing = project.json("plan")
    assert (nothing["embed"]["exact"], nothing["cuts_known"]) == (True, True)
    assert nothing["embed"]["texts"] == 0


# --- A plan that reads a sample of the documents ---


@pytest.mark.slow
def test_figures_of_a_sample_are_scaled_to_all(project: Project, ask: Ask) -> None:
    for n in range(400):
        (project.docs / f"{n}.md").write_text(
            f"# Title {n}\n\n" + f"Words of number {n} stand here. " * (n % 40)
        )
    (project.docs / "picture.bin").write_bytes(b"\0\1\2" * 100)
    whole = answered(ask("plan", "--json"))
    assert whole["sample"] is None
    said = answered(ask("plan", "--json", "--sample", "100"))
    assert said["sample"] == {"read": {"docs": [100, 401]}}
    for name, found, true in (
        ("records", said["records"]["added"], whole["records"]["added"]),
        ("tokens", said["embed"]["tokens"], whole["embed"]["tokens"]),
        ("documents", said["documents"]["added"], whole["documents"]["added"]),
    ):
        assert found == pytest.approx(true, rel=0.15), name
    assert sum(said["documents"].values()) == 401
    assert not said["cuts_known"]
    assert said["needs"]["chroma_memory"] == memory(said["records"]["added"])
    assert whole["disk"] == sum(whole["needs"][f"{name}_bytes"] for name in ("chroma", "journal", "cache"))
    people = ask("plan", "--sample", "100", "--machines", "3").out
    assert "source docs: 100 of 401 new documents were read; the figures are scaled to all" in people
    assert "on 3 such machines" in people
    assert answered(ask("plan", "--json", "--all"))["records"] == whole["records"]
    assert not (project.folder / "state").exists() or not list((project.folder / "state").glob("journal*"))


def memory(records: int) -> int:
    return records * (4 * 64 + 524)


def test_renamed_document_with_copies_keeps_its_id(project: Project) -> None:
    for number in range(8):
        (project.docs / f"a{number}").write_text(long_document(3, number))
    project.json("sync")
    before = ids(project)
    for number in range(8):
        (project.docs / f"a{number}").rename(project.docs / f"c{number}")
        shutil.copy(project.docs / f"c{number}", project.docs / f"{'ad'[number % 2]}a{number}")
    assert project.json("sync")["documents"]["moved"] == 8
    after = ids(project)
    assert [after[f"c{number}"] for number in range(8)] == [before[f"a{number}"] for number in range(8)]


def ids(project: Project) -> dict[str, str]:
    """Of documents by key."""
    return {each["document"]: each["document_id"] for each in project.json("ls")}


# --- A source with another name in the config ---


@pytest.fixture
def named_docs(embedded: Project, ask: Ask) -> Project:
    """Six documents of a source that is called docs."""
    for number in range(6):
        (embedded.docs / f"{number}.md").write_text(
            f"# Title {number}\n\n" + f"Some words of number {number}. " * 30
        )
    assert ask("sync").code == 0
    return embedded


def but_names(record: Any) -> Any:
    """The record without what names its source."""
    id_, text, metadata, vector = record
    return id_, text, {k: v for k, v in metadata.items() if k not in ("source_name", "recipe")}, vector


def test_renamed_source_keeps_its_documents(named_docs: Project, ask: Ask) -> None:
    before = named_docs.records()
    named_docs.source = {"name": "handbook"}
    named_docs.configure()
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
    assert {name for _, _, meta, _ in named_docs.records() for name in [meta["source_name"]]} == {"handbook"}
    assert [but_names(record) for record in named_docs.records()] == [but_names(record) for record in before]
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
def test_renamed_source_with_another_strategy_is_a_changed_strategy(named_docs: Project, ask: Ask) -> None:
    named_docs.source = {"name": "handbook"}
    named_docs.settings |= {
        "chunking": {"strategy": "recursive", "size": 30},
        "rechunk": {"approve": "above 1 chunks"},
        "max_loss": 0.2,
    }
    named_docs.configure()
    [change] = answered(ask("plan", "--json"))["changes"]
    assert [one["key"] for one in change["changes"]] == ["chunking.size"]
    assert change["waits"]
    records = answered(ask("sync", "--json"))["records"]
    assert records.pop("patched") == len(named_docs.records())  # the new name of the source
    assert records == dict.fromkeys(("added", "replaced", "dropped"), 0)
    assert ask("apply").code == 0
    assert answered(ask("status", "--json"))["sources"]["handbook"]["settled"] == 6
    assert named_docs.essence() == named_docs.fresh().essence()


@pytest.mark.slow
def test_place_of_a_source_is_stored_after_an_upgrade(named_docs: Project, ask: Ask) -> None:
    with sqlite3.connect(named_docs.folder / "state" / "journal.sqlite3") as db:
        db.execute("UPDATE sources SET origin = NULL")
    db.close()
    ask("sync")
    named_docs.source = {"name": "handbook"}
    named_docs.configure()
    done = answered(ask("sync", "--json"))
    assert (done["documents"]["added"], done["embedded"]["texts"]) == (0, 0)


@pytest.mark.slow
def test_daemon_hands_documents_over_when_its_config_changes(named_docs: Project) -> None:
    """Also of a document whose source is renamed while it waits for another try."""
    with running(named_docs) as daemon:
        wait(lambda: named_docs.settled(6))
        named_docs.source = {"name": "handbook"}
        named_docs.configure()
        wait(lambda: "source docs was renamed to handbook and keeps its 6 documents" in daemon.said())
        (named_docs.docs / "new.md").write_text("# New\n\nWords.\n")
        wait(lambda: named_docs.json("status")["sources"].get("handbook", {}).get("settled") == 7)
        wait(lambda: named_docs.json("status")["embedded_texts"] == 1)  # the daemon tells now and then
        assert list(named_docs.json("status")["sources"]) == ["handbook"]
        assert daemon.stop() == 0
    assert named_docs.essence() == named_docs.fresh().essence()
