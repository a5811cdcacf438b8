"""`verify` and repair, damaged files and restored backups: each message names a remedy, and it works."""

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from ingestor.chroma import backend
from ingestor.chroma.index import DEEP, FEW, NEAR, ChromaIndex
from ingestor.chroma.server import ChromaServer
from ingestor.embedders.hashing import HashingEmbedder
from ingestor.model import Record, Vector
from tests.chroma.harm import mislead
from tests.chroma.opening import chroma_in
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Daemon, Project, chroma_pid, in_chroma, long_document, running
from tests.serving import HOST, client_of, free_port
from tests.waiting import wait

KINDS = {
    "encoded": {"strategy": "recursive", "size": 60},
    "pooled": {"strategy": "changepoint"},
    "of neighbours": {"strategy": "recursive", "size": 60, "neighbours": 0.3},
}
DAMAGE = """
ids = collection.get()["ids"]
aside = [1.0] + [0.0] * 63
collection.delete(ids[:2])
collection.update([ids[3]], metadatas=[{"source": "elsewhere"}])
collection.update([ids[4]], documents=["other words"], embeddings=[aside])
collection.add(["stray#0"], documents=["stray"], embeddings=[aside])
"""
BITS = (31, 23, 13, 4)  # sign, exponent, what float16 keeps, what it does not


def embeds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_: pytest.fail("the cache has every vector"))


def write_two(project: Project, kind: str) -> None:
    project.settings["chunking"] = KINDS[kind]
    project.configure()
    for n in range(2):
        (project.docs / f"{n}.txt").write_text(long_document(60, n))


def harm(project: Project, change: Callable[[list[Vector]], list[Vector]]) -> None:
    """Replace every vector of the collection that ``change`` changes.

    The others are not written: a vector that is read and written again may differ in its last bit.
    """
    with chroma_in(project.folder / "chroma") as client:
        [uuid] = client.names()
        index = ChromaIndex(client, UUID(uuid))
        records = index.read(sorted(index.ids()), vectors=True)
        vectors = change([record.vector.copy() for record in records])
        pairs = zip(records, vectors, strict=True)
        index.upsert(
            [
                Record(each.id, each.text, each.metadata, vector)
                for each, vector in pairs
                if not np.array_equal(each.vector, vector)
            ]
        )


def flip(vectors: list[Vector]) -> list[Vector]:
    for vector, bit in zip(vectors[3:], BITS, strict=False):
        vector.view(np.uint32)[int(np.argmax(np.abs(vector)))] ^= np.uint32(1 << bit)
    return vectors


def harm_words(project: Project) -> None:
    with closing(sqlite3.connect(project.folder / "state/lexical.sqlite3")) as db, db:
        [(number,)] = db.execute("SELECT max(number) FROM collections")
        (first,), (second,) = db.execute(f"SELECT row FROM records_{number} ORDER BY row LIMIT 2")
        db.execute(f"UPDATE records_{number} SET terms = 'other' WHERE row = ?", (first,))
        db.execute(f"DELETE FROM records_{number} WHERE row = ?", (second,))
        db.execute(f"INSERT INTO records_{number} SELECT 999, 'surplus#0', x'00', '', '', '', NULL, ''")


HARMS: list[tuple[Callable[[Project], Any], dict[str, int]]] = [
    (
        lambda project: in_chroma(project.folder / "chroma", "docs", DAMAGE),
        {"missing": 2, "orphaned": 1, "stale": 1, "wrong_metadata": 1},
    ),
    (lambda project: harm(project, flip), {"stale": len(BITS)}),
    (harm_words, {"words": 3}),
]


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    "kind", ["pooled", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "pooled")]
)
def test_verify_finds_every_kind_of_damage_and_repairs_it_without_embedding(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    write_two(project, kind)
    records = answered(ask("sync", "--json"))["records"]["added"]
    before = project.essence()
    embeds_nothing(monkeypatch)
    for damage, counts in HARMS:
        assert answered(ask("verify", "--json"))["checked"] == records > 3 + len(BITS)
        damage(project)
        found = answered(ask("verify", "--json"), 4)
        assert {each: found[each] for each in counts} == counts
        assert answered(ask("verify", "--repair", "--json"))["repaired"]
        assert project.essence() == before
    (project.folder / "state/lexical.sqlite3").write_bytes(b"damaged" * 1000)
    assert answered(ask("verify", "--json"), 4)["words"] == records
    assert ask("sync").code == 0
    assert answered(ask("verify", "--json"))["words"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
def test_records_from_before_digests_were_kept_are_right_and_not_embedded_again(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_two(project, "encoded")
    records = answered(ask("sync", "--json"))["records"]["added"]
    with closing(sqlite3.connect(project.folder / "state" / "journal.sqlite3")) as db, db:
        db.execute("UPDATE records SET vector_digest = x''")
    embeds_nothing(monkeypatch)
    assert answered(ask("sync", "--json"))["documents"]["unchanged"] == 2
    assert ask("verify").code == 0
    harm(project, lambda vectors: [vector[::-1].copy() for vector in vectors])
    assert answered(ask("verify", "--json"), 4)["stale"] == records, "the cache has what these were"


@pytest.mark.usefixtures("embedded")
def test_records_that_no_deep_search_finds_are_unreachable(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.docs / "a.txt").write_text(long_document(240))
    assert ask("sync").code == 0
    real = ChromaIndex.nearest
    for number, depth, unreachable in (
        (2, NEAR + 1, 0),
        (FEW, DEEP, 0),
        (2, DEEP + 1, 2),
        (FEW + 1, DEEP, FEW + 1),  # so many are not missed by a whole graph
    ):

        def nearest(self: ChromaIndex, vectors: Any, n: int, number: int = number, depth: int = depth) -> Any:
            hidden = set(sorted(self.ids())[: number if n < depth else 0])
            return [[hit for hit in hits if hit[0] not in hidden] for hits in real(self, vectors, n)]

        monkeypatch.setattr(ChromaIndex, "nearest", nearest)
        found = answered(ask("verify", "--json"), 4 if unreachable else 0)
        assert found["unreachable"] == unreachable


def test_verify_reports_changed_settings_and_repair_restores_them(project: Project) -> None:
    """An embedding function names what readers load, or where their questions and variables go."""
    (project.docs / "a.txt").write_text("words of the harbour")
    project.json("sync")
    assert project.json("verify")["settings"] == 0
    evil = {"type": "known", "name": "huggingface_server", "config": {"url": "http://evil.example"}}
    strange = {"embedding_function": evil, "hnsw": {"ef_search": 1}}
    server = ChromaServer(project.folder / "chroma", HOST, free_port(), project.folder / "log")
    with server, client_of(server) as client:
        client.change_collection(client.get_collection("docs").id, "configuration", strange)
    found = project.json("verify", code=4)
    assert (found["settings"], found["stale"], found["missing"]) == (2, 0, 0)
    assert any("readers embed by huggingface_server http://evil.example" in one for one in found["examples"])
    assert project.json("verify", "--repair")["repaired"]
    assert project.json("verify")["settings"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
def test_collection_with_unreachable_records_is_rebuilt_once_a_day(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(long_document(30, n))
    ask("sync")
    lost, looked = set[str](), backend.probe
    embeds_nothing(monkeypatch)

    def probe(index: ChromaIndex, turn: int, *, restore: bool = False) -> str | None:
        return looked(index, turn) or ("3 of 30 records are not found" if index.uuid in lost else None)

    def lose() -> None:
        with closing(sqlite3.connect(project.folder / "state" / "journal.sqlite3")) as db:
            [(uuid,)] = db.execute("SELECT uuid FROM collections WHERE role = 'live'")
        lost.add(uuid)

    def status() -> Any:
        return answered(ask("status", "--json"))["collections"]["docs"]

    monkeypatch.setattr(backend, "probe", probe)
    records = status()["records"]
    lose()
    assert status()["reason"] == "3 of 30 records are not found"
    assert answered(ask("sync", "--json"))["documents"]["rebuilt"] == 3
    assert (status()["healthy"], status()["records"], ask("verify").code) == (True, records, 0)
    lose()
    assert json.loads(ask("sync", "--json").out)["documents"]["rebuilt"] == 0
    assert status()["healthy"] is False


# --- Files of Chroma that are damaged: each command works, or names a remedy that helps ---
PAGE = 4096


def overwrite(database: Path, share: float) -> None:
    """Of the pages after that share nothing is left; a journal of SQLite's goes, too."""
    size = database.stat().st_size
    first = int(share * size) // PAGE
    with database.open("r+b") as file:
        file.seek(first * PAGE)
        file.write(b"\xa5" * (size - first * PAGE))
    for suffix in ("-wal", "-shm", "-journal"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def overwrite_pages(chroma: Path, random: Random) -> None:
    """Write over pages of the database, anywhere in it."""
    with (chroma / "chroma.sqlite3").open("r+b") as file:
        size = file.seek(0, 2)
        for _ in range(random.choice([1, 2, 4, 8, 16])):
            file.seek(random.randrange(size // PAGE) * PAGE)
            file.write(random.choice([random.randbytes(PAGE), bytes(PAGE), random.randbytes(64)]))


FILES = (
    "chroma.sqlite3", "data_level0.bin", "header.bin", "index_metadata.pickle", "length.bin", "link_lists.bin"
)  # fmt: skip


def tear(chroma: Path, name: str, how: str) -> None:
    """Leave a copy of Chroma's folder in which a file is cut, empty, half zeros or missing."""
    [file] = chroma.rglob(name)
    content = file.read_bytes()
    half = len(content) // 2
    torn = {"cut": content[: half + 7], "empty": b"", "zeros": content[:half] + bytes(half)}
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(torn[how])


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project of more than a thousand records, from which on Chroma keeps its graph on disk."""
    project = Project(tmp_path_factory.mktemp("kept") / "project")
    for n in range(90):
        (project.docs / f"{n}.txt").write_text(long_document(40, n))
    assert project.call("sync").returncode == 0
    yield project.folder
    shutil.rmtree(project.folder)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_pages_written_over_end_no_command_with_a_traceback(kept: Path, tmp_path: Path, seed: int) -> None:
    shutil.copytree(kept, tmp_path / "project")
    overwrite_pages(tmp_path / "project" / "chroma", Random(seed))
    check_remedies(Project(tmp_path / "project"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "empty", "missing", "zeros"])
@pytest.mark.parametrize("name", FILES)
def test_torn_file_is_reported_without_a_traceback(kept: Path, tmp_path: Path, name: str, how: str) -> None:
    shutil.copytree(kept, tmp_path / "project")
    tear(tmp_path / "project" / "chroma", name, how)
    check_remedies(Project(tmp_path / "project"))


def check_remedies(project: Project) -> None:
    """Run the commands over damage: each works or names a remedy, and the remedy works."""
    (project.docs / "new.txt").write_text("one more document")
    words = (["status"], ["query", "document"], ["verify"], ["sync"], ["verify", "--repair"], ["verify"])
    for command in words:
        found = project.call(*command)
        text = found.stdout + found.stderr
        assert "Traceback" not in text
        assert found.returncode in (0, 4), text
        if found.returncode and command != ["verify"]:
            assert "ingestor verify --repair --rebuild" in text or "ingestor sync" in text, text
    if found.returncode:
        assert "ingestor verify --repair" in text
        assert project.call("verify", "--repair", "--rebuild").returncode == 0
        assert project.call("verify").returncode == 0


# Not a database; malformed for writers; malformed at once.
@pytest.mark.parametrize(
    "share", [0.8, *(pytest.param(share, marks=pytest.mark.slow) for share in (0, 0.01))]
)
def test_damaged_database_is_reported_with_a_remedy_that_helps(
    project: Project, ask: Ask, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(long_document(40, n))
    ask("sync")
    records = json.loads(ask("verify", "--json").out)["checked"]
    overwrite(project.folder / "chroma" / "chroma.sqlite3", share)
    (project.docs / "new.txt").write_text("one more")

    for words in (("sync",), ("verify",), ("verify", "--repair")):
        answer = ask(*words)
        assert answer.code == 4
        assert "ingestor verify --repair --rebuild" in answer.out + answer.err

    (project.docs / "new.txt").unlink()
    embeds_nothing(monkeypatch)
    mended = ask("verify", "--repair", "--rebuild", "--json")
    assert mended.code == 0
    assert json.loads(mended.out)["checked"] == records
    assert Path(json.loads(mended.out)["aside"], "chroma.sqlite3").exists()
    assert json.loads(ask("sync", "--json").out)["documents"]["unchanged"] == 3


# --- Chroma's files are harmed while a daemon runs ---


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "which counting shows": ("index_metadata.pickle", _cut),
    "which a search shows": ("data_level0.bin", lambda file: file.write_bytes(b"")),
    "which crashes Chroma at every load": ("data_level0.bin", mislead),
}


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("damage", DAMAGES)
def test_torn_collection_is_written_again(project: Project, daemon: Daemon, damage: str) -> None:
    """Nobody writes meanwhile: that Chroma died is all that the daemon has to go by."""
    name, harm = DAMAGES[damage]
    for n in range(4):
        (project.docs / f"{n}.txt").write_text(long_document(900, n))
    wait(lambda: project.settled(4))
    before = project.json("status")
    assert before["collections"]["docs"]["records"] > 1200, "Chroma has files only beyond a thousand"

    os.kill(daemon.process.pid, signal.SIGSTOP)  # lest it starts Chroma before the harm is done
    os.kill(chroma_pid(daemon) or 0, signal.SIGKILL)
    harm(max((project.folder / "chroma").glob(f"*/{name}"), key=lambda file: file.stat().st_size))
    os.kill(daemon.process.pid, signal.SIGCONT)

    wait(lambda: "rebuilding collection docs:" in daemon.said())
    wait(lambda: project.settled(4))
    wait(lambda: project.json("status")["collections"] == before["collections"])  # its words come last
    assert project.json("status")["embedded_texts"] == before["embedded_texts"], "vectors are cached"
    assert daemon.said().count("rebuilding collection") == 1
    assert daemon.stop() == 0
    verified = project.json("verify", code=None)
    assert verified["checked"] == before["collections"]["docs"]["records"]
    assert not any(verified[kind] for kind in ("missing", "orphaned", "stale", "wrong_metadata", "words"))
    assert verified["unreachable"] <= 2  # search is approximate; a few of so many near twins may be missed


# --- Backups that were put back, and copies of a state; tests/simulation/test_restores.py has either side ---
def write(project: Project, numbers: range, words: str) -> None:
    for n in numbers:
        (project.docs / f"{n}.md").write_text(f"# Title {n}\n\n" + f"{words} of number {n}. " * 40)


@pytest.fixture
def twelve(project: Project, ask: Ask) -> Project:
    write(project, range(12), "Some words")
    project.source = {"max_loss": 1.0}
    project.configure()
    assert ask("sync").code == 0
    return project


@pytest.mark.slow
def test_chroma_replaced_under_a_running_daemon_is_compared(twelve: Project, ask: Ask) -> None:
    kept, chroma = twelve.folder / "chroma-kept", twelve.folder / "chroma"
    shutil.copytree(chroma, kept)
    write(twelve, range(4, 8), "Other words")
    for n in (0, 1):
        (twelve.docs / f"{n}.md").unlink()
    (twelve.docs / "2.md").rename(twelve.docs / "renamed.md")
    write(twelve, range(12, 18), "Late words")
    assert ask("sync").code == 0
    with running(twelve) as daemon:
        wait(lambda: twelve.settled(16))
        chroma.rename(twelve.folder / "chroma-aside")
        kept.rename(chroma)
        wait(lambda: "to be rewritten" in daemon.said())
        wait(lambda: twelve.settled(16))
        daemon.stop()
    assert ask("verify").code == 0


def test_copied_state_on_one_chroma_is_refused_until_it_is_adopted(twelve: Project, ask: Ask) -> None:
    chroma = {"chroma": {"path": str(twelve.folder / "chroma")}}
    copy = Project(twelve.folder.parent / "copy", chroma, {"max_loss": 1.0})
    shutil.copytree(twelve.folder / "state", copy.folder / "state")
    (copy.docs / "only.md").write_text("Words of the copy.")
    before = twelve.essence()
    refused = copy.call("sync")
    assert refused.returncode != 0
    assert "ingestor collections --adopt docs" in refused.stdout + refused.stderr
    assert twelve.essence() == before
    assert ask("sync").code == 0
    assert copy.json("collections", "--adopt", "docs")["adopted"] == "docs"
    assert copy.call("sync").returncode == 0
    assert ask("sync").code != 0
    assert {text for _, text, *_ in twelve.records()} == {"Words of the copy."}
