"""One pass at a time: what a sync does, costs and prints, also for renamed documents; its history."""

from typing import Any

import pytest

from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project, long_document

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


@pytest.mark.parametrize(
    ("chunking", "exact", "cuts_known"),
    [
        # test_plan_equals_the_following_sync has cuts that depend on no vector
        ({"strategy": "changepoint"}, True, False),
        ({"strategy": "cluster", "scope": "document"}, False, False),
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


def test_figures_of_a_sample_are_scaled_to_all(project: Project, ask: Ask) -> None:
    """tests/queries/test_plan.py has how near they are."""
    for n in range(40):
        (project.docs / f"{n}.md").write_text(
            f"# Title {n}\n\n" + f"Words of number {n} stand here. " * (n % 10)
        )
    (project.docs / "picture.bin").write_bytes(b"\0\1\2" * 100)
    whole = answered(ask("plan", "--json"))
    assert whole["sample"] is None
    sampled = answered(ask("plan", "--json", "--sample", "20"))
    assert sampled["sample"] == {"read": {"docs": [20, 41]}}
    assert sum(sampled["documents"].values()) == 41
    assert sampled["records"]["added"] == pytest.approx(whole["records"]["added"], rel=0.3)
    assert not sampled["cuts_known"]
    assert sampled["needs"]["chroma_memory"] == sampled["records"]["added"] * (4 * 64 + 524)
    assert whole["disk"] == sum(whole["needs"][f"{name}_bytes"] for name in ("chroma", "journal", "cache"))
    people = ask("plan", "--sample", "20", "--machines", "3").out
    assert "source docs: 20 of 41 new documents were read; the figures are scaled to all" in people
    assert "on 3 such machines" in people
    assert answered(ask("plan", "--json", "--all"))["records"] == whole["records"]
    assert not (project.folder / "state").exists()


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
        few = words[: number + 1]
        sentences = [f"The {word} of {n} is near the {words[n]}." for n in range(8) for word in few]
        (project.docs / f"{number}.txt").write_text(" ".join(sentences))
    assert ask("sync").code == 0
    project.source = {"name": "handbook"}
    project.configure()
    planned = answered(ask("plan", "--json"))
    assert planned["documents"]["changed"] == 8
    assert planned["records"].pop("patched") > 8
    assert set(planned["records"].values()) == {0}


# --- ingestor history: each change once, in order, with its reason ---


def told(ask: Ask, *words: str) -> list[tuple[str, str | None, str | None]]:
    """(what, document, why), the oldest first."""
    events = answered(ask("history", "--json", *words))
    assert [one["at"] for one in events] == sorted((one["at"] for one in events), reverse=True)
    return [(one["what"], one["document"], one["why"]) for one in reversed(events)]


def test_history_has_each_change_once_in_order_with_its_reason(synced: Project, ask: Ask) -> None:
    docs = synced.docs
    (docs / "a.txt").write_text("some other words")
    assert ask("sync").code == 0
    (docs / "a.txt").rename(docs / "c.txt")
    assert ask("sync").code == 0
    (docs / "c.txt").unlink()
    (docs / "bad.pdf").write_bytes(b"%PDF-1.4 no more")
    assert ask("sync").code != 0
    synced.settings["metadata"] = "lean"
    synced.configure()
    ask("sync")
    found = told(ask)
    assert sorted(found[:2]) == [("added", "a.txt", None), ("added", "b.txt", None)]
    assert found[2:4] == [("changed", "a.txt", None), ("moved", "c.txt", "it was a.txt")]
    removed, quarantined = sorted(found[4:6], key=lambda one: one[0] == "quarantined")
    assert removed == ("removed", "c.txt", None)
    assert quarantined[:2] == ("quarantined", "bad.pdf") and quarantined[2]
    assert ("config", None, 'metadata: "full" -> "lean"') in found[6:]
    assert ("rewritten", "b.txt", "the config or the program changed") in found[6:]
    assert [what for what, *_ in told(ask, "c.txt")] == ["added", "changed", "moved", "removed"]
    assert told(ask, "--source", "docs", "-n", "1") == [found[-1]] or told(ask, "-n", "1") == [found[-1]]
    assert ask("sync").code != 0 and told(ask) == found, "nothing happened, and nothing is noted"


def test_history_names_a_switch_and_a_source_that_is_held_and_released(synced: Project, ask: Ask) -> None:
    synced.settings["chunking"] = {"strategy": "recursive", "size": 30}
    synced.configure()
    assert ask("sync").code == 0
    [switched] = [one for one in told(ask) if one[0] == "switched"]
    assert switched[2] == "docs: chunking.size: 60 -> 30"
    assert "switched     collection docs (docs: chunking.size: 60 -> 30)" in ask("history").out
    assert sum(what == "added" for what, *_ in told(ask)) == 2, "a hidden collection is no history"
    away = synced.docs.rename(synced.folder / "away")
    assert ask("sync").code != 0
    away.rename(synced.docs)
    assert ask("sync").code == 0
    held, released = told(ask)[-2:]
    assert held[0] == "held" and "is missing" in str(held[2])
    assert released[0] == "released"
    answer = ask("history", "--source", "dcos")
    assert (answer.code, answer.err) == (2, "there is no source 'dcos'; known: docs\n")
    answer = ask("history", "a.tx")
    assert answer.code == 2 and "a.txt" in answer.err
