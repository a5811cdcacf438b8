"""A changed config, through the whole program and a real Chroma, while readers read."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.project import Daemon, Project
from tests.waiting import wait

READER = Path(__file__).with_name("reader.py")
DOCUMENTS = 12


@contextmanager
def reading(project: Project, into: Path) -> Iterator[None]:
    """A reader process beside the daemon; what it saw is in the file afterwards."""
    with into.open("wb") as stream:
        reader = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(READER), str(project.port)],
            stdin=subprocess.PIPE, stdout=stream, cwd=project.folder,
        )  # fmt: skip
        try:
            yield
        finally:
            assert reader.stdin is not None
            reader.stdin.close()
            reader.wait(60)


@contextmanager
def serving(project: Project) -> Iterator[Daemon]:
    daemon = project.start()
    try:
        yield daemon
    finally:
        daemon.kill()


def seen(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def write_documents(project: Project, random: Random, names: range) -> None:
    for number in names:
        paragraphs = [" ".join(random.choices(WORDS, k=30)) + "." for _ in range(8)]
        (project.docs / f"{number}.md").write_text(f"# Number {number}\n\n" + "\n\n".join(paragraphs))


WORDS = [f"{a}{b}" for a in ("river", "stone", "paper", "engine", "cloud") for b in ("", "s", "like", "less")]


def reconfigure(project: Project, **settings: Any) -> None:
    project.settings.update(settings)
    project.configure()


def in_step(project: Project, size: int) -> bool:
    """Whether the running daemon rests, with documents cut at this size."""
    found = project.poll("status")["collections"]["docs"]
    shown = project.poll("show", "0.md")["chunks"]
    sizes = [chunk["metadata"]["token_count"] for chunk in shown]
    return (
        bool(project.settled(DOCUMENTS) and not found["built"] and found["healthy"] and max(sizes) <= size)
        and max(sizes) > size / 2
    )


@pytest.mark.parametrize(
    ("mode", "sizes"),
    [
        ("swap", [30]),
        pytest.param("swap", [30, 90], marks=pytest.mark.slow),
        pytest.param("in_place", [30, 90], marks=pytest.mark.slow),
    ],
)
def test_a_changed_config_is_taken_over_while_it_runs(
    project: Project, mode: str, sizes: list[int], tmp_path: Path
) -> None:
    write_documents(project, Random(1), range(DOCUMENTS))
    reconfigure(project, rechunk=mode)
    with serving(project) as daemon:
        wait(lambda: project.settled(DOCUMENTS), 200)
        with reading(project, tmp_path / "seen"):
            for size in sizes:
                reconfigure(project, chunking={"strategy": "recursive", "size": size})
                wait(lambda size=size: in_step(project, size), 200)
            wait(lambda: len(seen(tmp_path / "seen")) > 20)  # a reader is slow where the machine is busy
        answers = seen(tmp_path / "seen")
        assert daemon.stop() == 0
    by_name = [answer for answer in answers if answer["by"] == "name"]
    assert len(by_name) > 5
    assert all(answer["documents"] == DOCUMENTS and answer["hits"] for answer in by_name)
    if mode == "swap":
        assert {len(answer["recipes"]) for answer in answers if answer["by"] != "error"} == {1}
    assert project.essence() == project.fresh().essence()


@pytest.mark.slow
def test_another_embedder_never_mixes_and_changing_back_embeds_nothing(
    project: Project, tmp_path: Path
) -> None:
    write_documents(project, Random(2), range(DOCUMENTS))
    with serving(project) as daemon:
        wait(lambda: project.settled(DOCUMENTS), 200)
        with reading(project, tmp_path / "seen"):
            reconfigure(project, embedding={"kind": "hashing", "dimensions": 32})
            wait(lambda: dimensions(tmp_path / "seen") == 32, 200)
        answers = [answer for answer in seen(tmp_path / "seen") if answer["by"] != "error"]
        assert {len(answer["recipes"]) for answer in answers} == {1}
        assert daemon.stop() == 0
    assert project.essence() == project.fresh().essence()
    reconfigure(project, embedding={"kind": "hashing", "dimensions": 64})
    assert project.json("sync")["embedded"]["texts"] == 0
    assert project.json("verify")["checked"] == len(project.records())


def dimensions(path: Path) -> int:
    by_name = [answer for answer in seen(path) if answer["by"] == "name"]
    return int(by_name[-1]["dimensions"]) if by_name else 0


def test_rolling_back_gives_readers_what_they_had_and_apply_goes_on(project: Project) -> None:
    write_documents(project, Random(3), range(DOCUMENTS))
    reconfigure(project, rechunk="swap")
    project.json("sync")
    before = project.essence()
    assert project.call("rollback").returncode == 2
    reconfigure(project, chunking={"strategy": "recursive", "size": 30})
    assert project.json("sync")["documents"]["rebuilt"] == DOCUMENTS
    after = project.essence()
    assert project.json("rollback") == {"rolled_back": "docs"}
    assert project.essence() == before
    (project.docs / "0.md").unlink()  # the old recipe goes on, and the new one stays refused
    assert project.json("sync")["documents"]["removed"] == 1
    assert 0 < project.essence().total() < before.total()
    assert "was undone by `ingestor rollback`" in project.json("status")["collections"]["docs"]["waits"]
    write_documents(project, Random(3), range(1))
    project.json("apply", code=None)
    assert project.essence() == after


def test_what_is_more_than_allowed_waits_for_approval(project: Project) -> None:
    write_documents(project, Random(4), range(DOCUMENTS))
    reconfigure(project, rechunk={"mode": "in_place", "approve": "above 20 chunks"})
    project.json("sync")
    before = project.essence()
    reconfigure(project, chunking={"strategy": "recursive", "size": 30})
    plan = project.json("plan")
    assert plan["changes"][0]["changes"] == [
        {"source": "docs", "key": "chunking.size", "before": "60", "after": "30"}
    ]
    assert "need no approval" in plan["changes"][0]["waits"]
    write_documents(project, Random(5), range(DOCUMENTS, DOCUMENTS + 1))
    assert project.json("sync")["documents"]["added"] == 1  # by the old recipe
    assert before < project.essence()
    plan = project.json("plan")
    done = project.json_lines("apply")[0]
    assert done["documents"]["changed"] == plan["documents"]["changed"] == DOCUMENTS + 1
    # Chroma may lose the way to a few near twins; all records then go into a new collection, too.
    again = len(project.records()) if done["documents"]["rebuilt"] else 0
    assert done["records"] == {**plan["records"], "added": plan["records"]["added"] + again}
    assert done["embedded"]["texts"] == plan["embed"]["texts"]
    assert project.essence() == project.fresh().essence()


def test_documents_of_a_source_that_left_the_config_go_only_when_asked(project: Project) -> None:
    write_documents(project, Random(6), range(3))
    project.json("sync")
    records = len(project.records())
    project.source["name"] = "others"
    project.source["path"] = "./other"
    (project.folder / "other").mkdir()
    project.configure()
    project.json("sync")
    assert len(project.records()) == records
    assert project.json("status")["sources"]["docs"]["configured"] is False
    assert project.json("plan")["leaving"] == ["docs"]
    project.json_lines("apply")
    assert project.records() == []


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_readers_through_ten_changes_edits_and_kills(project: Project, tmp_path: Path) -> None:
    """What they see is whole: one embedder, one recipe, every document; but for the gap of the renames."""
    random = Random(7)
    write_documents(project, random, range(DOCUMENTS))
    reconfigure(project, rechunk="swap")
    daemon = project.start()
    wait(lambda: project.settled(DOCUMENTS))
    into = tmp_path / "seen"
    with reading(project, into):
        for change in range(10):
            size = (30, 60, 90)[change % 3]
            embedding = {"kind": "hashing", "dimensions": (64, 32)[change // 2 % 2]}
            reconfigure(project, chunking={"strategy": "recursive", "size": size}, embedding=embedding)
            write_documents(project, random, range(1, 4))
            daemon = _kill_now_and_then(project, daemon, random)
            wait(lambda size=size: in_step(project, size), 180)
    daemon.stop()
    answers = seen(into)
    looked = [answer for answer in answers if answer["by"] != "error"]
    assert len(looked) > 100
    assert all(len(answer["recipes"]) == 1 and answer["documents"] == DOCUMENTS for answer in looked)
    gaps = [answer for answer in answers if "does not exist" in answer.get("error", "")]
    print(f"{len(looked)} answers, {len(gaps)} in the gap between two renames")
    assert project.essence() == project.fresh().essence()


def _kill_now_and_then(project: Project, daemon: Daemon, random: Random) -> Daemon:
    for _ in range(random.randrange(3)):
        wait_for = random.random() * 3
        try:
            daemon.process.wait(wait_for)
        except subprocess.TimeoutExpired:
            daemon.kill()
        daemon = project.start()
    return daemon
