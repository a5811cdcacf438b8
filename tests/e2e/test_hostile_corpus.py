"""Hostile inputs through the whole daemon, each with an ordinary document beside it."""

import json
import os
import re
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chromadb
import pytest

from ingestor.embedders.hashing import HashingEmbedder, HashingOptions
from tests.bad_parser import installed
from tests.corpus.all import NAMES, families
from tests.corpus.case import Case
from tests.e2e.project import Daemon, Project, running
from tests.hostile import documents, misbehaving
from tests.waiting import wait

SOON = 30.0  # seconds in which all ordinary documents of a family are searchable
STOPPED = 10.0  # seconds

# Work that others have waiting for each core stretches both; 1 on an idle machine.
BUSY = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))

# Four processes that read hostile files may take 1 GB each; the daemon and Chroma take the rest. The daemon
# holds a few documents of 40 MB of text, of which it chunks 8 million characters at once, or one document.
PARSERS, DAEMON, TREE = 10**9, 1.5 * 10**9, 4 * 10**9  # bytes


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Project]:
    parsing = {"memory": PARSERS, "seconds": "20s"}
    source = {"archives": True, "scan_every": "3s"}
    chunking = {"strategy": "recursive", "size": 500}
    hostile = Project(tmp_path / "project", {"parsing": parsing, "chunking": chunking}, source)
    yield hostile
    for folder, _, _ in os.walk(hostile.docs):
        Path(folder).chmod(0o700)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", NAMES)
def test_hostile_inputs_survive_to_the_end(hostile: Project, family: str) -> None:
    survives(hostile, families()[family])


def survives(hostile: Project, cases: Sequence[Case], restarted: bool = True) -> None:
    """``restarted``: the daemon is ended amid its work, and another goes on with it."""
    places = {case.name: hostile.docs / f"{at:03}" for at, case in enumerate(cases)}
    daemon = hostile.start(as_people_do=True)
    try:
        with watched(daemon.process.pid) as first:
            wait(lambda: "Chroma listens" in daemon.said())
            for case in cases:
                places[case.name].mkdir()
                case.put(places[case.name])
            wait(lambda: has_seen_some(hostile))
            searchable_soon(hostile, write_ordinary(places))
            if restarted:
                stops(daemon)
        daemon = hostile.start(as_people_do=True) if restarted else daemon
        with watched(daemon.process.pid) as second:
            wait(lambda: "Chroma listens" in daemon.said())  # the journal may say that all was decided before
            wait(lambda: is_decided(hostile, cases, places), 1200, 2.0)
            named(hostile, cases, places)
            stops(daemon)
        for peak in (first, second):
            within_bounds(peak)
    except AssertionError:
        print(daemon.said()[-5000:], json.dumps(hostile.json("status", code=None), indent=1)[:5000])
        raise
    finally:
        daemon.kill()
    assert "Traceback" not in daemon.said(), daemon.said()


def has_seen_some(hostile: Project) -> bool:
    """A listing began with them, or ended."""
    source = hostile.poll("status")["sources"]["docs"]
    return bool(
        source["listing"] or source["due"] or source["settled"] or source["quarantined"] or source["trouble"]
    )


def write_ordinary(places: dict[str, Path]) -> list[str]:
    """The texts of the documents beside the hostile inputs."""
    texts = {folder: f"Lantern {folder.name} hangs beside {name}" for name, folder in places.items()}
    for folder, text in texts.items():
        (folder / "beside.txt").write_text(ascii(text))
    return [ascii(text) for text in texts.values()]


def searchable_soon(hostile: Project, texts: Sequence[str]) -> None:
    begun = time.monotonic()
    soon = SOON * BUSY
    collection = wait(lambda: _collection(hostile), soon)
    vectors = HashingEmbedder(HashingOptions(dimensions=64)).embed(texts)

    def found() -> bool:
        try:
            hits = collection.query(query_embeddings=list(vectors), n_results=20, include=["documents"])
        except chromadb.errors.InternalError:  # so Chroma answers before the first record is there
            return False
        return all(text in documents for text, documents in zip(texts, hits["documents"] or [], strict=True))

    wait(found, soon - (time.monotonic() - begun), 0.5)
    print(f"ordinary documents searchable after {time.monotonic() - begun:.1f} s")


def _collection(hostile: Project) -> Any:
    try:
        return chromadb.HttpClient(port=hostile.port).get_collection("docs")
    except (chromadb.errors.NotFoundError, ValueError):
        return None


def stops(daemon: Daemon) -> None:
    begun = time.monotonic()
    assert daemon.stop(seconds=STOPPED * BUSY) == 0
    print(f"stopped after {time.monotonic() - begun:.1f} s; others stretch times by {BUSY:.1f}")


def is_decided(hostile: Project, cases: Sequence[Case], places: dict[str, Path]) -> bool:
    """Nothing is due but what waits for another try, or never rests; and everything was listed."""
    source = hostile.poll("status")["sources"]["docs"]
    restless = _restless(cases, places)
    due = [one for one in hostile.poll("ls") if one["state"] == "due" and _top(one) not in restless]
    return bool(source["last_scan"] and not due and not source["listing"])


def _restless(cases: Sequence[Case], places: dict[str, Path]) -> set[str]:
    return {places[case.name].name for case in cases if case.restless}


def _top(listed: dict[str, Any]) -> str:
    return str(listed["document"]).split("/")[0]


def named(hostile: Project, cases: Sequence[Case], places: dict[str, Path]) -> None:
    """Whatever is not indexed is named, with a reason; so is each input that must be refused."""
    status, listed = hostile.json("status"), hostile.json("ls")
    source = status["sources"]["docs"]
    failed = {one["document"]: one["reason"] for one in status["failures"]}
    restless = _restless(cases, places)
    for one in listed:
        if one["state"] in ("quarantined", "waiting") and _top(one) not in restless:
            assert failed[one["document"]], one
    skipped = sum(kind["documents"] for kind in status["skipped"])
    assert sum(one["state"] == "unsupported" for one in listed) == skipped
    for case in cases:
        top = places[case.name].name
        refusals = [reason for document, reason in failed.items() if document.split("/")[0] == top]
        mentioned = re.search(rf"\b{top}\b", source["trouble"] or "")
        beneath = [one for one in listed if _top(one) == top and Path(one["document"]).name != "beside.txt"]
        states = sorted({one["state"] for one in beneath})
        print("CASE", case.name, states, sorted(set(refusals))[:2], bool(mentioned))
        assert beneath or mentioned or not case.listed, f"{case.name} is lost"
        unread = any(one["state"] == "unsupported" for one in beneath)
        assert not case.refused or refusals or mentioned or unread, f"{case.name} is not named"
    assert source["trouble"] is None or any(case.refused for case in cases)


_EVERY = 0.2  # seconds
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Peak:
    """Bytes. ``tree``: of all processes; what they share counts for each. ``daemon``: of the first one."""

    daemon: int = 0
    tree: int = 0


@contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """Samples until the end of the block."""
    peak, over = Peak(), threading.Event()

    def sample() -> None:
        while not over.is_set():
            sizes = [_resident(one) for one in _tree(pid)]
            peak.daemon, peak.tree = max(peak.daemon, sizes[0]), max(peak.tree, sum(sizes))
            over.wait(_EVERY)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended in between
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def within_bounds(peak: Peak) -> None:
    print(f"memory: daemon {peak.daemon / 1e6:.0f} MB, all {peak.tree / 1e6:.0f} MB")
    assert 0 < peak.daemon < DAEMON
    assert peak.tree < TREE


@pytest.mark.slow
def test_harmful_documents_cost_themselves_and_nothing_else(project: Project, tmp_path: Path) -> None:
    project.settings["parsing"] = {"memory": "500MB", "seconds": 4, "processes": 2}
    project.source["archives"] = True
    project.configure()
    bad = documents() | misbehaving()
    for name, content in [("plain.md", b"# Plain"), *((name, content) for name, (content, _) in bad.items())]:
        (project.docs / name).write_bytes(content)
    synced = project.call("sync", "--json", env={"PYTHONPATH": installed(tmp_path / "plugins", "rtf")})
    assert synced.returncode == 3, synced.stderr
    assert "Traceback" not in synced.stdout + synced.stderr
    listed = {entry["document"]: entry["state"] for entry in project.json("ls")}
    assert listed.pop("plain.md") == "settled"
    assert listed == dict.fromkeys(bad, "quarantined")
    reasons = {entry["document"]: entry["reason"] for entry in json.loads(synced.stdout)["problems"]}
    assert [name for name, (_, reason) in bad.items() if not re.search(reason, reasons[name])] == [], reasons
    assert "seccomp" in project.json("status")["isolation"]


# --- 200,000 files in one folder: how long the daemon lists them, what that takes, and that it still ends ---
FILES = 200_000
MEMORY = 1.5 * 10**9  # bytes of the daemon
CPU = 120.0  # seconds that the listing may take, of the daemon and its children


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_files_in_one_folder_are_listed_within_bounds(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    for number in range(FILES):
        (project.docs / f"{number:06}.txt").touch()
    with running(project, as_people_do=True) as daemon, watched(daemon.process.pid) as peak:
        wait(lambda: project.poll("status")["sources"]["docs"]["last_scan"], 900, 2.0)
        cpu = _cpu(daemon.process.pid)
        assert daemon.stop() == 0
    print(f"{cpu:.0f} s of processor time; {peak.daemon / 1e6:.0f} MB")
    assert cpu < CPU
    assert peak.daemon < MEMORY


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_daemon_under_a_limit_of_memory_continues(tmp_path: Path) -> None:
    """RLIMIT_AS, for control groups need rights: a limit of addresses is stricter than one of memory."""
    project = Project(
        tmp_path / "project", {"max_records": 30, "parsing": {"memory": "300MB", "seconds": "10s"}}
    )
    (project.docs / "a.txt").write_text("an ordinary document")
    (project.docs / "large.json").write_text("9" * 20_000_000)
    with running(project, as_people_do=True) as daemon:
        wait(lambda: "Chroma listens" in daemon.said())
        resource.prlimit(
            daemon.process.pid, resource.RLIMIT_AS, (_addresses(daemon.process.pid) + 200_000_000,) * 2
        )
        (project.docs / "large.txt").write_text("word " * 8_000_000)
        (project.docs / "b.txt").write_text("another ordinary document")
        wait(lambda: {"a.txt", "b.txt"} <= _settled(project), 120, 1.0)
        failures = {one["document"] for one in project.json("status")["failures"]}
        assert failures <= {"large.txt", "large.json"}
        assert daemon.stop() == 0


def _settled(project: Project) -> set[str]:
    return {one["document"] for one in project.json("ls") if one["state"] == "settled"}


def _addresses(pid: int) -> int:
    """Bytes of address space."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def _cpu(pid: int) -> float:
    """Seconds."""
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, spent)) / 100
