"""Search on the command line: by words and vectors, beside a daemon, and while the lexical index is away."""

import os
import signal

import pytest

from tests.e2e.in_process import Ask
from tests.e2e.project import Daemon, Project
from tests.waiting import wait

PAGE = """# Pumps

## Faults

The fault ERR_4711 means that the pump is blocked.

Then it must be opened.

## Repair

Pumps were opened with a key of § 12.
"""


def test_words_are_found_beside_a_daemon(project: Project, daemon: Daemon, ask: Ask) -> None:
    (project.docs / "pumps.md").write_text(PAGE)
    for n in range(5):
        (project.docs / f"other{n}.md").write_text(f"# Other {n}\n\nNothing of interest is in number {n}.\n")
    wait(lambda: project.settled(6))
    wait(lambda: project.poll("query", "ERR_4711")["mode"] == "hybrid")
    for mode in ("hybrid", "lexical"):
        found = project.poll("query", "ERR_4711", "--mode", mode, "-n", "1")
        assert (found["mode"], found["fallback"]) == (mode, None)
        assert "ERR_4711" in found["hits"][0]["document"]
        assert found["hits"][0]["ranks"]["lexical"] == 1
    whole = project.poll("query", "err 4711", "-n", "1", "--expand", "document")["passages"]
    assert [(one["text"], one["start"], one["end"]) for one in whole] == [
        (PAGE.strip(), 0, len(PAGE.strip()))
    ]
    assert whole[0]["source"].endswith("pumps.md")
    assert whole[0]["lines"][0] == 1
    only = '{"file_name": "other3.md"}'
    hits = project.poll("query", "blocked pump number", "--where", only, "--mode", "lexical")["hits"]
    assert {hit["metadata"]["file_name"] for hit in hits} == {"other3.md"}
    assert project.poll("query", "pump", "--budget", "1")["passages"] == []
    shown = ask("query", "blocked", "--mode", "lexical", "--expand", "document").out
    assert "pumps.md:1-" in shown and "§ 12" in shown


@pytest.mark.slow
def test_the_lexical_index_is_made_again_while_vectors_serve(project: Project, daemon: Daemon) -> None:
    (project.docs / "pumps.md").write_text(PAGE)
    wait(lambda: project.settled(1) and project.poll("query", "ERR_4711")["mode"] == "hybrid")
    os.kill(daemon.process.pid, signal.SIGSTOP)  # nothing makes it again for now
    (project.folder / "state/lexical.sqlite3").unlink()
    status = project.poll("status")["collections"]["docs"]
    assert "lexical index" in status["lexical"]
    os.kill(daemon.process.pid, signal.SIGCONT)
    wait(lambda: project.poll("query", "ERR_4711")["mode"] == "hybrid")
    assert project.poll("status")["collections"]["docs"]["lexical"] is None
    (project.docs / "new.md").write_text("The word is sesquipedalian.")
    wait(lambda: project.poll("query", "sesquipedalian", "--mode", "lexical")["hits"])
    assert daemon.stop() == 0, daemon.said()
    assert project.json("verify")["words"] == 0
