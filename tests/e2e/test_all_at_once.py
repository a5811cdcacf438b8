"""A storm of edits, and beside it a reader with Chroma's client alone, an assistant, a page, Prometheus."""

import asyncio
import shutil
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

import httpx
import pytest

from tests.e2e.project import Project, free_port
from tests.e2e.test_assistants import by_http, call
from tests.e2e.test_service import running
from tests.e2e.test_sync import long_document
from tests.waiting import wait

STORM = 45.0  # seconds
TOKEN = "t0ken-of-the-port"
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
    token.write_text(TOKEN)
    monkeypatch.setenv("INGESTOR_TOKEN", TOKEN)  # for Chroma's client
    found = Project(tmp_path / "project", {"http": {"port": free_port(), "token": f"file:{token}"}})
    for n in range(40):
        (found.docs / f"{n}.txt").write_text(long_document(20, n))
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's package prometheus is not installed")
def test_nothing_fails_and_the_lag_recovers(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    port = here.settings["http"]["port"]
    people = httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60,
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
