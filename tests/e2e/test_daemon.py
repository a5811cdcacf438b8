"""A daemon as its users see it: changes arrive by themselves, through kills, pauses and early signals."""

import contextlib
import json
import random
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import Daemon, Project, chroma_pid, long_document, lost, remote, signal_later
from tests.waiting import wait

WRITTEN, SWAPPED = " INFO    docs: ", "took the place of the old one"


def test_changes_arrive_and_stopping_is_clean(project: Project, daemon: Daemon) -> None:
    wait(lambda: project.settled(0))
    for n in range(6):
        (project.docs / f"{n}.txt").write_text(long_document(30 + n))
    wait(lambda: project.settled(6))
    assert (
        remote(project).get_collection("docs").count()
        == project.json("status")["collections"]["docs"]["records"]
    )

    (project.docs / "0.txt").unlink()
    (project.docs / "deep" / "er").mkdir(parents=True)
    (project.docs / "1.txt").rename(project.docs / "deep" / "er" / "1.txt")
    (project.docs / "2.txt").write_text(long_document(80))
    wait(lambda: project.settled(5))
    (project.docs / "deep").rename(project.docs / "moved")
    (project.docs / "new.txt").write_text("brand new words")
    wait(lambda: project.settled(6))
    sources = {meta["file_path"] for meta in remote(project).get_collection("docs").get()["metadatas"]}
    assert str(project.docs / "moved" / "er" / "1.txt") in sources

    assert daemon.stop() == 0
    assert project.json("verify")["checked"] > 0
    assert project.essence() == project.fresh().essence()


def test_second_daemon_is_refused_and_harms_nothing(project: Project, daemon: Daemon) -> None:
    (project.docs / "a.txt").write_text("some words")
    wait(lambda: project.settled(1))
    second = project.call("run")
    assert second.returncode == 4
    assert "is in use by process" in second.stderr
    assert "Traceback" not in second.stderr
    assert project.call("sync").returncode == 4
    assert project.settled(1)
    assert daemon.stop(signal.SIGINT) == 0


Cuts = tuple[dict[str, Any], dict[str, Any]]


def kills(project: Project, times: int, seed: int, cuts: Cuts, swap_every: int) -> None:
    """Documents and the config change while the daemon or its Chroma is killed, again and again.

    Before half of the kills documents are written, however slow the machine is. ``cuts``: settings of the
    chunking, which take turns. Each turn builds a collection in ``swap_every`` kills; the last of them comes
    when it takes the other one's place.
    """
    chance = random.Random(seed)
    (project.docs / "first.txt").write_text(long_document(30))
    daemon, turn = project.start(), 0
    wait(lambda: WRITTEN in daemon.said())  # an empty collection would follow the config in place
    for n in range(times):
        before = daemon.said().count(WRITTEN)
        for _ in range(4):
            change(project.docs, chance)
        (project.docs / "each.txt").write_text(long_document(30, n))
        if n % swap_every == 1:
            turn += 1
            project.settings |= {"rechunk": "swap", "chunking": cuts[turn % 2]}
            project.configure()
        wait_a_little = chance.uniform(0.5, 5.0)  # the program and its Chroma are up after two or three
        if turn and n % swap_every == swap_every - 1:
            wait(lambda turn=turn: readers_have(project, cuts[turn % 2]), every=0.02)
            wait_a_little = chance.uniform(0, 0.1)
        elif chance.random() < 0.5:
            wait(lambda daemon=daemon, n=before: daemon.said().count(WRITTEN) > n)
            wait_a_little /= 10
        if chance.random() < 0.5 or (server := chroma_pid(daemon)) is None:
            time.sleep(wait_a_little)
            daemon.kill()
            daemon = project.start()
        else:
            signal_later(server, wait_a_little)
    daemon.kill()


def readers_have(project: Project, cut: dict[str, Any]) -> bool:
    """Whether the journal says that readers have the collection that is cut so."""
    journal = project.folder / "state/journal.sqlite3"
    with contextlib.closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)) as db:
        choices = db.execute("SELECT choices FROM collections WHERE role = 'live'").fetchone()[0]
    chunking = json.loads(choices)["sources"]["docs"]["chunking"]
    made_by = {"strategy": chunking["kind"], **chunking["options"]}
    return cut.items() <= made_by.items()


def change(docs: Path, chance: random.Random) -> None:
    existing = sorted(path for path in docs.rglob("*.txt"))
    deed = chance.choice(["write", "write", "edit", "rename", "delete"])
    if deed == "write" or not existing:
        (docs / f"{chance.randrange(40)}.txt").write_text(
            long_document(chance.randrange(5, 100), chance.randrange(10**6))
        )
        return
    path = chance.choice(existing)
    if deed == "edit":
        path.write_text(path.read_text().replace("harbour", chance.choice(["port", "haven", "dock"]), 3))
    elif deed == "rename":
        path.rename(docs / f"renamed-{chance.randrange(40)}.txt")
    else:
        path.unlink()


def verified(project: Project) -> Any:
    """What ``verify`` finds at rest.

    Chroma's graph may have lost a record beside others that were replaced in place (docs/rechunking.md). The
    daemon writes such a collection anew within a day; here ``--repair`` does.
    """
    found = project.json("verify", code=None)
    if found["unreachable"] == 0:
        return project.json("verify")
    wrong = ("missing", "orphaned", "stale", "wrong_metadata", "words", "unsettled")
    assert [found[kind] for kind in wrong] == [0] * len(wrong), found
    project.json("verify", "--repair")
    return project.json("verify")


def hold_the_laws(project: Project, times: int, cuts: Cuts, swap_every: int) -> Counter[str]:
    """How many daemons wrote documents, and how many collections took the place of others."""
    kills(project, times, times, cuts, swap_every)
    logs = [path.read_text(errors="replace") for path in project.folder.glob("daemon-*.log")]
    last = project.json("sync", code=None)
    assert last["documents"]["failed"] == 0, last
    found = verified(project)
    assert found["checked"] > 0 == found["words"]
    assert project.json("status")["collections"]["docs"]["lexical"] is None
    assert lost(project.folder / "chroma", "docs") == set()
    fresh = project.fresh()
    assert project.essence() == fresh.essence()
    assert project.words() == fresh.words()
    assert project.words().total() == found["checked"]
    swaps = sum(log.count(SWAPPED) for log in logs)
    return Counter(daemons=len(logs), wrote=sum(WRITTEN in log for log in logs), swaps=swaps)


@pytest.mark.timeout(290)
def test_daemon_killed_holds_the_laws(project: Project) -> None:
    cuts = [{"strategy": "recursive", "size": size} for size in (60, 45)]
    found = hold_the_laws(project, 3, (cuts[0], cuts[1]), swap_every=3)
    assert found["swaps"] == 1


@pytest.mark.slow
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("embedded", [False, True], ids=["supervised", "embedded"])
def test_daemon_killed_two_hundred_times_holds_the_laws(
    tmp_path: Path, embedded: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the real model, and a strategy whose cuts depend on the whole collection."""
    cuts: Cuts = ({"strategy": "changepoint", "target": 125}, {"strategy": "changepoint", "target": 100})
    settings: dict[str, Any] = {"embedding": {"kind": "sentence-transformers"}, "chunking": cuts[0]}
    if embedded:
        settings["chroma"] = {"path": "./chroma", "embedded": True}
    found = hold_the_laws(Project(tmp_path / "project", settings), 200, cuts, swap_every=20)
    assert found["swaps"] >= 10
    with capsys.disabled():
        print(f"\n{dict(found)}")


# --- Pausing a source and going on with it, with and without a daemon ---


def write(project: Project, *names: str, text: str = "A house by the river.") -> None:
    for name in names:
        (project.docs / f"{name}.md").write_text(f"# {name}\n\n{text}\n")


def test_paused_source_is_skipped_until_it_is_resumed(tmp_path: Path) -> None:
    project = Project(tmp_path)
    write(project, "a", "b")
    project.json("sync")
    before = project.essence()
    assert project.json("pause", "docs") == {"paused": ["docs"]}
    write(project, "a", text="Another text.")
    write(project, "c")
    (project.docs / "b.md").unlink()
    done = project.json("sync")
    assert done["paused"] == ["docs"]
    assert done["embedded"]["texts"] == 0
    assert project.essence() == before
    [problem] = project.json("plan")["problems"]
    assert problem == {"document": "docs", "reason": "paused"}
    assert "ingestor resume docs" in project.call("status").stdout

    assert project.json("resume") == {"resumed": ["docs"]}
    assert project.json("resume") == {"resumed": []}
    found = project.json("sync")["documents"]
    assert (found["added"], found["changed"], found["removed"]) == (1, 1, 1)
    assert project.essence() == project.fresh().essence()


# --- A signal at any time of the start-up ends the daemon in order: nothing stays open or behind ---
STEP = 0.05  # seconds
STEPS = range(0, 80, 4)  # each test takes every fourth step; the machine decides what it meets there

# Before the handlers are there nothing is open yet, and Python's or the system's own ending is in order.
BEFORE = {signal.SIGTERM: {-signal.SIGTERM, 130}, signal.SIGINT: {-signal.SIGINT, 130}}
LOADING = "from ingestor.cli.main import main"  # Python prints a traceback if Ctrl-C comes during the imports


def processes_of(folder: Path) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.slow
@pytest.mark.timeout(580)
@pytest.mark.parametrize("number", BEFORE, ids=lambda number: number.name)
@pytest.mark.parametrize("offset", range(4))
def test_signal_during_the_start_ends_it_in_order(
    project: Project, number: signal.Signals, offset: int
) -> None:
    (project.docs / "a.txt").write_text("Basil grows here.\n")
    for step in STEPS:
        daemon = project.start(as_people_do=True)
        time.sleep((step + offset) * STEP)
        daemon.process.send_signal(number)
        code, said = daemon.process.wait(60), daemon.said()
        assert code in {0, *BEFORE[number]}, (step, code, said)
        assert code == 0 or "Chroma listens" not in said, (step, code, said)
        assert "Traceback" not in said or LOADING in said, (step, said)
        assert processes_of(project.folder) == [], (step, said)
        assert list(project.folder.rglob("journal.sqlite3-wal")) == [], "the journal is closed"
    assert project.json("sync")["documents"]["failed"] == 0
