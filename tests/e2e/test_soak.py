"""Long runs: half an hour of deeds and deaths, readers through ten changes, and any number of workers."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromadb.errors import NotFoundError

from tests.connectors.pushing import TOKEN, Caller
from tests.connectors.repositories import Repository
from tests.e2e.project import Project, chroma_pid, in_chroma, long_document, lost, signal_later
from tests.serving import free_port
from tests.waiting import wait

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
NAMES = [f"{folder}/{number}.txt" for folder in ("a", "b", "c") for number in range(12)]
STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "changepoint"},
    {"strategy": "recursive", "size": 60},
    {"strategy": "recursive", "size": 200},
    {"strategy": "structure"},
]
STILL = "still/lighthouse.txt"
QUESTION = "Which lighthouse did the keeper of Skagen paint?"


@dataclass
class Reader(threading.Thread):
    """Asks the service without pause, and keeps answers that no reader may get.

    An answer has one recipe for each source, and texts and metadata for all hits. It has the document that
    nobody touches, once an answer had it. A restore of one side puts that in doubt until such an answer.
    """

    port: int
    faults: list[Any] = field(default_factory=list)
    answers: int = 0
    restores: int = 0
    still: bool = False

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        address = f"http://127.0.0.1:{self.port}/search"
        while not self.over.wait(0.05):
            restores = self.restores
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.post(address, json={"query": QUESTION, "n": 5}, timeout=60, trust_env=False)
                if answer.status_code == 200 and restores == self.restores:
                    self.judge(answer.json()["hits"])

    def judge(self, hits: list[dict[str, Any]]) -> None:
        self.answers += 1
        has_still = any(hit["metadata"] and hit["metadata"]["path"] == STILL for hit in hits)
        half = [hit for hit in hits if not hit["document"] or not hit["metadata"]]
        recipes = {
            (hit["metadata"]["source_name"], hit["metadata"]["recipe"]) for hit in hits if hit["metadata"]
        }
        if half or len(recipes) > len(dict(recipes)) or (self.still and not has_still):
            self.faults.append((time.strftime("%H:%M:%S"), half, recipes, has_still))
        self.still = self.still or has_still


@dataclass
class Life:
    """A daemon over a folder, a repository and pushed documents; ``deeds`` counts what was done to them."""

    project: Project
    chance: random.Random
    repository: Repository
    caller: Caller
    deeds: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        still = self.project.docs / STILL
        still.parent.mkdir()
        still.write_text("The keeper of Skagen painted the white lighthouse in autumn.")
        self.reader = Reader(self.project.settings["http"]["port"])
        self.reader.start()
        self.daemon = self.project.start(as_people_do=True)

    def go_on(self) -> None:
        """One deed or one death."""
        deeds: list[Callable[[], None]] = [
            *(self.write, self.write, self.edit, self.edit, self.rename, self.delete, self.copy, self.swap),
            *(self.move_folder, self.link, self.push, self.commit, self.kill_daemon, self.kill_chroma),
            *(self.restart, self.configure, self.divide, self.second_daemon),
            *(self.back_up, self.restore_state, self.restore_chroma, self.annotate),
        ]
        deed = self.chance.choice(deeds)
        with contextlib.suppress(OSError):  # what one deed removed, another cannot copy
            deed()
        self.deeds[deed.__name__] = self.deeds.get(deed.__name__, 0) + 1

    def document(self) -> Path:
        paths = self.project.docs.glob("[abc]/*.txt")
        found = sorted(path for path in paths if not path.is_symlink())
        return self.chance.choice(found) if found else self.project.docs / NAMES[0]

    def name(self) -> Path:
        path = self.project.docs / self.chance.choice(NAMES)
        path.parent.mkdir(exist_ok=True)
        return path

    def write(self) -> None:
        self.name().write_text(long_document(self.chance.randrange(3, 60), self.chance.randrange(10**6)))

    def edit(self) -> None:
        path = self.document()
        path.write_text(path.read_text().replace("harbour", self.chance.choice(["port", "haven"]), 2))

    def rename(self) -> None:
        self.document().rename(self.name())

    def delete(self) -> None:
        self.document().unlink()

    def copy(self) -> None:
        shutil.copy(self.document(), self.name())

    def swap(self) -> None:
        one, other = self.document(), self.document()
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)

    def move_folder(self) -> None:
        old, new = self.chance.sample("abc", 2)
        shutil.copytree(self.project.docs / old, self.project.docs / new, dirs_exist_ok=True)
        shutil.rmtree(self.project.docs / old)

    def link(self) -> None:
        target, name = self.document(), self.name()
        name.unlink(missing_ok=True)
        name.symlink_to(target) if self.chance.random() < 0.5 else os.link(target, name)

    def push(self) -> None:
        text = long_document(self.chance.randrange(2, 20), self.chance.randrange(10**6))
        with contextlib.suppress(OSError):
            self.caller.put(f"{self.chance.randrange(8)}.md", text.encode())

    def commit(self) -> None:
        text = long_document(self.chance.randrange(2, 20), self.chance.randrange(10**6))
        self.repository.put(f"{self.chance.randrange(8)}.md", text.encode())

    def kill_daemon(self) -> None:
        self.daemon.kill()
        self.daemon = self.project.start(as_people_do=True)

    def kill_chroma(self) -> None:
        if (server := chroma_pid(self.daemon)) is not None:
            signal_later(server, 0.0)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[Path]:
        """The project's folder while no daemon runs."""
        with contextlib.suppress(Exception):
            self.daemon.stop(signal.SIGTERM)
        self.daemon.kill()
        yield self.project.folder
        self.daemon = self.project.start(as_people_do=True)

    def restart(self) -> None:
        with self.stopped():
            pass

    def back_up(self) -> None:
        with self.stopped() as folder:
            for side in ("state", "chroma"):
                shutil.rmtree(folder / f"{side}-kept", ignore_errors=True)
                shutil.copytree(folder / side, folder / f"{side}-kept")

    def restore_state(self) -> None:
        self._restore("state")

    def restore_chroma(self) -> None:
        self._restore("chroma")

    def _restore(self, side: str) -> None:
        """Put back the backup of one side only, so journal and Chroma are of different moments."""
        if (self.project.folder / f"{side}-kept").exists():
            with self.stopped() as folder:
                shutil.rmtree(folder / side)
                shutil.copytree(folder / f"{side}-kept", folder / side)
                self.reader.restores += 1
                self.reader.still = False

    def annotate(self) -> None:
        """An app replaces the collection's metadata; a collection in shards has another name."""
        with self.stopped() as folder, contextlib.suppress(NotFoundError):
            in_chroma(folder / "chroma", "docs", "collection.modify(metadata={'team': 'library'})")

    def configure(self) -> None:
        self.project.settings["chunking"] = self.chance.choice(STRATEGIES)
        self.project.configure()

    def divide(self) -> None:
        self.project.settings["collections"] = {"docs": {"shards": self.chance.randrange(1, 4)}}
        self.project.configure()

    def second_daemon(self) -> None:
        """It must not touch what the first one has."""
        second = self.project.start(as_people_do=True)
        with contextlib.suppress(Exception):
            assert second.process.wait(30) != 0
        second.kill()


def made(folder: Path, chroma: dict[str, Any], seed: int) -> Life:
    repository, caller = Repository(folder / "repository"), Caller(free_port())
    (folder / "token").write_text(f"{TOKEN}\n")
    sources = [
        {"name": "docs", "kind": "folder", "path": str(folder / "project/docs"), "settle": "200ms"},
        {"name": "code", "kind": "git", "url": str(repository.root), "cache": str(folder / "clone")},
        {"name": "inbox", "kind": "push", "folder": str(folder / "pushed"), "token": "file:../token",
         "port": caller.port},
    ]  # fmt: skip
    settings = {
        "sources": [{**source, "collection": "docs"} for source in sources],
        "embedding": {"kind": "sentence-transformers"},
        "chunking": STRATEGIES[0],
        "scan_every": "20s",
        "max_loss": 1.0,
        "chroma": {"path": "./chroma", **chroma},
        "http": {"port": free_port()},
    }
    return Life(Project(folder / "project", settings), random.Random(seed), repository, caller)


def hold_the_laws(life: Life) -> None:
    """At rest: as from nothing, and every record within search's reach."""
    life.daemon.stop()
    life.reader.over.set()
    life.reader.join(60)
    project = life.project
    project.settings |= {"collections": {}, "http": False}
    project.configure()
    last = project.json("sync", code=None)
    assert (last["documents"]["failed"], last["held"]) == (0, {}), last
    found = project.json("verify", code=None)
    kinds = ("missing", "orphaned", "stale", "wrong_metadata", "unreachable", "words", "unsettled")
    assert {kind: found[kind] for kind in kinds} == dict.fromkeys(kinds, 0), found
    assert found["checked"] > 0
    assert life.reader.answers > 0
    assert life.reader.faults == []
    assert lost(project.folder / "chroma", "docs") == set()
    fresh = Project(project.folder.parent / "fresh", project.settings)
    assert project.essence() == fresh.essence_from_nothing()


@pytest.mark.slow
@pytest.mark.timeout(int(MINUTES * 60) + 3000)
def test_daemon_under_change_for_half_an_hour_holds_the_laws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SOAK_MINUTES changes how long it takes."""
    life = made(tmp_path, {"port": free_port()}, seed=1)
    until = time.monotonic() + MINUTES * 60
    try:
        while time.monotonic() < until:
            life.go_on()
            time.sleep(life.chance.uniform(0.0, 3.0))
        with capsys.disabled():
            print(f"\n{life.deeds}; {life.reader.answers} answers, faults {life.reader.faults[:5]}")
        hold_the_laws(life)
    finally:
        life.daemon.kill()


# --- Readers of Chroma's port while the config changes and the daemon is killed ---
# A reader lists and queries without pause, by name and by a handle that it keeps, and prints what it saw.
READER = """
import json, sys, threading, chromadb

def look(collection):
    found = collection.get(include=["metadatas"])
    seen = {key: sorted({meta[key] for meta in found["metadatas"]}) for key in ("recipe", "document_id")}
    if found["ids"]:
        vectors = collection.get(ids=found["ids"][:1], include=["embeddings"])["embeddings"]
        if len(vectors):
            collection.query(query_embeddings=vectors, n_results=3)
    return len(seen["recipe"]), len(seen["document_id"])

over, client, handle = threading.Event(), None, None
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
while not over.wait(0.005):
    try:
        client = client or chromadb.HttpClient(port=int(sys.argv[1]))
        collection = client.get_collection("docs")
        print(json.dumps(look(collection)), flush=True)
        handle = handle or collection
        print(json.dumps(look(handle)), flush=True)
    except Exception as error:
        client, handle = client if "does not exist" in str(error) else None, None
"""
READ = 8  # documents


@contextlib.contextmanager
def reading(project: Project, into: Path) -> Iterator[None]:
    """Run a reader beside the daemon; what it saw is in the file afterwards."""
    command = [sys.executable, "-W", "ignore", "-c", READER, str(project.port)]
    with (
        into.open("wb") as stream,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stream, cwd=project.folder) as reader,
    ):
        yield
        reader.communicate(timeout=60)


def in_step(project: Project, size: int) -> bool:
    """Return whether the running daemon rests, with documents cut at this size."""
    found = project.poll("status")["collections"]["docs"]
    sizes = [chunk["metadata"]["token_count"] for chunk in project.poll("show", "0.txt")["chunks"]]
    cut = size / 2 < max(sizes) <= size
    return bool(cut and project.settled(READ) and not found["built"] and found["healthy"])


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_readers_through_ten_changes_edits_and_kills(project: Project, tmp_path: Path) -> None:
    """Each answer has one embedder, one recipe and every document, but for the gap of the renames."""
    chance = random.Random(7)

    def write(names: range) -> None:
        for number in names:
            (project.docs / f"{number}.txt").write_text(long_document(60, chance.randrange(10**6)))

    write(range(READ))
    project.settings["rechunk"] = "swap"
    project.configure()
    daemon = project.start()
    wait(lambda: project.settled(READ))
    with reading(project, tmp_path / "seen"):
        for change in range(10):
            size = (30, 60, 90)[change % 3]
            embedding = {"kind": "hashing", "dimensions": (64, 32)[change // 2 % 2]}
            project.settings |= {"chunking": {"strategy": "recursive", "size": size}, "embedding": embedding}
            project.configure()
            write(range(1, 4))
            for _ in range(chance.randrange(3)):
                time.sleep(chance.random() * 3)
                daemon.kill()
                daemon = project.start()
            wait(lambda size=size: in_step(project, size), 180)
    daemon.stop()
    answers = [line for line in (tmp_path / "seen").read_text().splitlines() if line.endswith("]")]
    assert len(answers) > 100
    assert set(answers) == {f"[1, {READ}]"}
    assert project.essence() == project.fresh().essence()


# --- Records are the same bit for bit with any number of workers and threads ---


@pytest.mark.parametrize(
    ("strategy", "model"),
    [
        ("changepoint", {"kind": "hashing", "dimensions": 64}),
        pytest.param("changepoint", {}, marks=pytest.mark.slow),
        pytest.param("recursive", {}, marks=pytest.mark.slow),
    ],
)
def test_records_are_the_same_with_any_number_of_workers_and_threads(
    tmp_path: Path, strategy: str, model: dict[str, Any]
) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(9):
        (documents / f"{number}.txt").write_text(long_document(1 + 5 * (number % 3), number))
    found = []
    for workers, threads in ((1, 1), (16, 2)):
        embedding = model or {"threads": threads}
        settings = {"workers": workers, "embedding": embedding, "chunking": {"strategy": strategy}}
        project = Project(tmp_path / str(workers), settings, {"path": str(documents)})
        assert project.json("sync")["documents"]["added"] == 9
        found.append(project.essence())
    assert found[0] == found[1]
    assert len(found[0]) >= 9
