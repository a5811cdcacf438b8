"""Long runs: half an hour of deeds and deaths, everybody at once, and any number of workers."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from chromadb.errors import NotFoundError

from tests.connectors.pushing import TOKEN, Caller
from tests.connectors.repositories import Repository
from tests.e2e.in_chroma import in_chroma, lost
from tests.e2e.project import Project, chroma_pid, long_document, running, signal_later
from tests.e2e.test_service import by_http, call
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


# --- A storm of edits beside a reader, an assistant, the page and Prometheus ---
STORM = 45.0  # seconds
PORT_TOKEN = "t0ken-of-the-port"
READER = """
import sys, time, chromadb
docs = chromadb.HttpClient(port=int(sys.argv[1])).get_collection("docs")
for _ in range(20):
    print(len(docs.query(query_texts=["the harbour in winter"], n_results=5)["ids"][0]))
    time.sleep(0.05)
"""
SCRAPED = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: ingestor
    authorization: {{credentials_file: token}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@contextmanager
def prometheus(folder: Path, port: int) -> Iterator[httpx.Client]:
    own = free_port()
    (folder / "prometheus.yml").write_text(SCRAPED.format(port=port))
    command = [
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=series",
        f"--web.listen-address=127.0.0.1:{own}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{own}/api/v1", timeout=30, trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)


def value(series: httpx.Client, query: str) -> float:
    found = series.get("/query", params={"query": query}).json()["data"]["result"]
    return float(found[0]["value"][1]) if found else float("nan")


def storm(docs: Path, random: Random) -> None:
    """People write, edit, rename, copy and delete."""
    name = docs / f"{random.randrange(60)}.txt"
    deed = random.choice(["write", "write", "edit", "rename", "copy", "delete"])
    if deed == "write" or not name.exists():
        name.write_text(long_document(random.randrange(1, 30), random.randrange(10**6)))
    elif deed == "edit":
        name.write_text(name.read_text() + " One sentence more.")
    elif deed == "delete":
        name.unlink()
    else:
        other = docs / f"{random.randrange(60)}.txt"
        shutil.copy(name, other) if deed == "copy" and name != other else name.rename(other)


@dataclass
class Crowd:
    """Those who ask without pause, each in a thread."""

    here: Project
    people: httpx.Client
    answered: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", READER, str(self.here.port)], capture_output=True, text=True, timeout=120
        )
        assert (done.stdout, done.stderr) == ("5\n" * 20, "")

    def look(self) -> None:
        for address in ("/", "/page/documents", "/page/search?q=harbour"):
            assert self.people.get(address).status_code == 200, address

    def assist(self) -> None:
        async def session() -> None:
            async with by_http(self.here) as client:
                assert (await call(client, "search", query="winter garden", n=3))["passages"]

        asyncio.run(session())

    def _again(self, name: str, work: Callable[[], None]) -> None:
        while not self.ended.is_set():
            try:
                work()
                self.answered[name] += 1
            except Exception as error:  # noqa: BLE001 - each is told at the end
                self.wrong.append(f"{name}: {error!r}")
            time.sleep(0.05)

    @contextmanager
    def asking(self) -> Iterator[None]:
        work = {"reader": self.read, "person": self.look, "assistant": self.assist}
        threads = [threading.Thread(target=self._again, args=each) for each in work.items()]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.ended.set()
            for thread in threads:
                thread.join()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    token = tmp_path / "token"
    token.write_text(PORT_TOKEN)
    monkeypatch.setenv("INGESTOR_TOKEN", PORT_TOKEN)  # for Chroma's client
    found = Project(tmp_path / "project", {"http": {"port": free_port(), "token": f"file:{token}"}})
    for n in range(40):
        (found.docs / f"{n}.txt").write_text(long_document(20, n))
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's package prometheus is not installed")
def test_load_run_has_no_failure_and_its_lag_recovers(
    here: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    port = here.settings["http"]["port"]
    people = httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {PORT_TOKEN}"}, timeout=60,
        trust_env=False,
    )  # fmt: skip
    crowd, random, edits = Crowd(here, people), Random(5), 0
    with running(here) as daemon, people, prometheus(here.folder.parent, port) as series:
        wait(lambda: here.settled(40) and value(series, "up") == 1)
        with crowd.asking():
            until = time.monotonic() + STORM
            while time.monotonic() < until:
                storm(here.docs, random)
                edits += 1
                time.sleep(0.05)
            wait(lambda: here.settled(len(list(here.docs.iterdir()))))
            wait(lambda: value(series, "max(ingestor_lag_seconds)") == 0)
        least_up = value(series, "min_over_time(up[10m])")
        worst = value(series, "max(max_over_time(ingestor_lag_seconds[10m]))")
        assert daemon.stop() == 0, daemon.said()
    assert crowd.wrong == []
    assert min(crowd.answered[name] for name in ("reader", "person", "assistant")) > 2, crowd.answered
    assert (least_up, worst < STORM) == (1, True), worst
    assert "Traceback" not in daemon.said()
    assert here.json("verify")["checked"] > 0
    with capsys.disabled():
        print(
            f"\n{edits} edits in {STORM:.0f} s, lag at most {worst:.1f} s; answered: {dict(crowd.answered)}"
        )


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
