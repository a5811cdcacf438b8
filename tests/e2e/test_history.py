"""What `ingestor history` tells of documents, sources and configs, in the order of what was done."""

import pytest

from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project

pytestmark = pytest.mark.usefixtures("embedded")


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


def test_history_names_a_switch_and_the_changed_option(synced: Project, ask: Ask) -> None:
    synced.settings["chunking"] = {"strategy": "recursive", "size": 30}
    synced.configure()
    assert ask("sync").code == 0
    [switched] = [one for one in told(ask) if one[0] == "switched"]
    assert switched[2] == "docs: chunking.size: 60 -> 30"
    shown = ask("history").out
    assert "switched     collection docs (docs: chunking.size: 60 -> 30)" in shown
    assert sum(what == "added" for what, *_ in told(ask)) == 2, "a hidden collection is no history"


def test_history_names_a_source_that_is_held_and_released(synced: Project, ask: Ask) -> None:
    away = synced.docs.rename(synced.folder / "away")
    assert ask("sync").code != 0
    away.rename(synced.docs)
    assert ask("sync").code == 0
    held, released = told(ask)[-2:]
    assert held[0] == "held" and "is missing" in str(held[2])
    assert released[0] == "released"


def test_history_of_an_unknown_source_names_known_ones(synced: Project, ask: Ask) -> None:
    answer = ask("history", "--source", "dcos")
    assert (answer.code, answer.err) == (2, "no source 'dcos' has a history; known: docs\n")


def test_history_of_an_unknown_document_names_near_ones(synced: Project, ask: Ask) -> None:
    done = ask("history", "a.tx")
    assert done.code == 2 and "a.txt" in done.err
