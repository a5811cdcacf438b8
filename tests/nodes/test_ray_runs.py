"""The whole program on a real Ray cluster: the records of one process, whatever is killed meanwhile."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import INGESTOR, Project
from tests.nodes.cluster import add, cluster
from tests.plugins import installed
from tests.waiting import wait

pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DOCUMENTS = Path(__file__).parents[2] / "documents"
SECRET = "wE4kn3ss-of-a-key"
MARK = "Zwischenlandungsprotokoll"  # a word of a document, that no log may hold
ODD = """
import os, signal, sys, time
from ingestor.chunkers.options import ChunkerOptions
from ingestor.chunkers.windows import Sentence, SentenceOptions
from ingestor.registry import Plugin, tuning

STARTS = os.environ.get("ODD_STARTS")  # a file with the letters of starts that are still to be lost
if STARTS and sys.argv[0].endswith("default_worker.py"):
    with open(STARTS, "r+") as starts:
        left = starts.read()
        starts.seek(0)
        starts.truncate()
        starts.write(left[1:])
    if left:
        os.kill(os.getpid(), signal.SIGKILL)

class OddOptions(ChunkerOptions):
    pause: float = tuning(0.0)
    trace: str = tuning("")
    fill: int = tuning(0)

class Odd:
    def __init__(self, options, tokens):
        self._options, self._inner = options, Sentence(SentenceOptions(), tokens)
    def chunk(self, document, embed, others):
        if self._options.trace:
            with open(self._options.trace, "a") as trace:
                trace.write("x")
        time.sleep(self._options.pause)
        if "EXIT HERE" in document.text:
            os._exit(9)
        if "FILL MEMORY" in document.text:
            filled = b"x" * self._options.fill
            time.sleep(60)
        return self._inner.chunk(document, embed, others)

PLUGIN = Plugin(kind="odd", version=int(os.environ.get("ODD_VERSION", 1)), options=OddOptions, build=Odd)
"""


@pytest.fixture(scope="module")
def raylets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = installed(tmp_path_factory.mktemp("odd"), "chunkers", "odd", "odd_chunker", ODD)
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, before]))
    try:
        with cluster(nodes=2, cpus=1) as made:
            yield made
    finally:
        os.environ["PYTHONPATH"] = before


def project(
    folder: Path, raylets: Any, count: int = 2, address: str | None = None, **settings: Any
) -> Project:
    where = address or raylets.address
    ray = {"kind": "ray", "address": where, "count": count, "cpus": 0.4, "embedder_cpus": 0.1}
    return Project(folder, {"workers": ray, "chroma": {"path": "./chroma", "embedded": True}} | settings)


def with_whole_cpus(folder: Path, raylets: Any, **settings: Any) -> Project:
    """Sixteen processes at most, each of one CPU, as by default."""
    workers = {"kind": "ray", "address": raylets.address}
    return Project(folder, {"workers": workers, "chroma": {"path": "./chroma", "embedded": True}} | settings)


def by_threads(project: Project) -> Project:
    settings = {**project.settings, "workers": 2}
    found = Project(
        project.folder.with_name("threads"), settings, {**project.source, "path": str(project.docs)}
    )
    synced(found)
    return found


def synced(project: Project) -> None:
    """In a Python of its own, which finds the plugin."""
    done = project.call("sync", "--json", env={})
    assert done.returncode == 0, done.stderr + done.stdout


def write(project: Project, number: int) -> None:
    for each in range(number):
        text = " ".join(f"Sentence {n} of document {each} is about {MARK}." for n in range(30))
        (project.docs / f"{each}.md").write_text(f"# Document {each}\n\n{text}\n")


def test_every_record_is_that_of_one_process(tmp_path: Path, raylets: Any) -> None:
    """Of the samples, and a strategy that depends on the whole collection. No secret gets out."""
    began = time.time()
    one = project(
        tmp_path / "ray", raylets, chunking={"strategy": "changepoint"},
        search={"rerank": {"url": "http://127.0.0.1:9/rerank", "api_key": f"file:{_secret(tmp_path)}"}},
    )  # fmt: skip
    shutil.copytree(DOCUMENTS, one.docs, dirs_exist_ok=True)
    write(one, 3)
    synced(one)
    assert one.records()
    other = by_threads(one)
    assert one.essence() == other.essence()
    assert one.words() == other.words()
    told = [
        path for path in Path("/tmp/ray").rglob("*")
        if path.is_file() and path.stat().st_mtime >= began and _holds(path, SECRET, MARK)
    ]  # fmt: skip
    assert told == [], "Ray's files hold a secret, or the text of a document"


def _secret(folder: Path) -> Path:
    (folder / "key").write_text(SECRET)
    return folder / "key"


def _holds(path: Path, *words: str) -> bool:
    data = path.read_bytes()
    return any(word.encode() in data for word in words)


def test_document_that_kills_its_process_is_quarantined_and_others_are_not(
    tmp_path: Path, raylets: Any
) -> None:
    one = project(tmp_path / "ray", raylets, chunking={"strategy": "odd"})
    write(one, 6)
    (one.docs / "bad.md").write_text("EXIT HERE")
    one.call("sync", "--json", env={})
    status = json.loads(one.call("status", "--json", env={}).stdout)
    docs, (failure,) = status["sources"]["docs"], status["failures"]
    assert (docs["settled"], docs["quarantined"], failure["document"]) == (6, 1, "bad.md")
    assert "the process crashed" in failure["reason"]
    (one.docs / "bad.md").unlink()
    synced(one)
    assert one.essence() == by_threads(one).essence()


def test_killed_daemons_and_nodes_lose_no_document(tmp_path: Path, raylets: Any) -> None:
    """Two daemons are killed at work, then a node under the third."""
    trace = tmp_path / "trace"
    trace.touch()
    odd = {"strategy": "odd", "pause": 0.7, "trace": str(trace)}
    one = project(tmp_path / "ray", raylets, count=6, chunking=odd)
    write(one, 40)
    for _ in range(2):
        running = at_work(one, trace, 4)
        running.send_signal(signal.SIGKILL)
        running.wait(30)
    lost = add(raylets, 1)
    running = at_work(one, trace, 8)
    raylets.remove_node(lost, allow_graceful=False)
    assert running.wait(400) == 0, (one.folder / "log").read_text()
    log = (one.folder / "log").read_text()
    assert "the node was lost" in log
    assert "quarantined" not in log
    assert one.essence() == by_threads(one).essence()


def at_work(one: Project, trace: Path, more: int) -> subprocess.Popen[bytes]:
    """A sync, after it has begun so many documents."""
    before = trace.stat().st_size
    with (one.folder / "log").open("ab") as log:
        running = subprocess.Popen([INGESTOR, "sync", "--config", one.config], stdout=log, stderr=log)
    wait(lambda: trace.stat().st_size >= before + more or running.poll() is not None)
    assert running.poll() is None, (one.folder / "log").read_text()
    return running


def test_node_with_other_versions_fails_the_start(tmp_path: Path, raylets: Any) -> None:
    one = project(tmp_path / "ray", raylets, chunking={"strategy": "odd"})
    write(one, 2)
    other = add(raylets, 1, env_vars={"ODD_VERSION": "2"})
    try:
        done = one.call("sync", env={})
        assert done.returncode != 0
        assert "strategy odd" in done.stderr
        assert other.node_id[:8] in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        raylets.remove_node(other)
    synced(one)
