"""Lag of deletions and edits while a collection is rebuilt, compared with the lag at rest.

``python -m benchmarks rebuild [DOCUMENTS]``: a daemon with DOCUMENTS documents and the hashing embedder. Its
chunking changes; until the new collection is complete, documents are deleted and edited in turn. A lag lasts
from the write on disk to the first answer of Chroma that shows it, with the debounce of 1.5 s.
"""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import chromadb
import yaml
from chromadb.errors import NotFoundError

from benchmarks.gap import free_port

INGESTOR = Path(sys.executable).with_name("ingestor")
WORDS = ("wind", "water", "stone", "iron", "paper", "glass", "wood", "sand", "salt", "wool", "clay", "rope")
AT_REST = 6  # changes
PAUSE = 1.0  # seconds between two changes


def configure(folder: Path, port: int, size: int) -> None:
    settings: dict[str, Any] = {
        "state": "./state",
        "chroma": {"path": "./chroma", "port": port},
        "embedding": {"kind": "hashing"},
        "chunking": {"strategy": "recursive", "size": size},
        "sources": [{"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"}],
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))


def text(number: int) -> str:
    """Return about 600 words, different for each number."""
    return " ".join(f"{word}{(number * 7 + at) % 97}" for at, word in enumerate(WORDS * 50))


def collection(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [INGESTOR, "status", "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    found: dict[str, Any] = json.loads(done.stdout or "{}").get("collections", {}).get("docs", {})
    return found


def settled(folder: Path) -> int:
    """Return the number of documents in step, by the journal."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/state/journal.sqlite3?mode=ro", uri=True)) as journal:
            query = "SELECT COUNT(*) FROM documents WHERE done_version IS wanted_version"
            return int(journal.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0


class Deeds:
    """Deletes and edits documents in turn, each once, and measures the time until a reader sees it."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._next = folder, 0
        self._client = chromadb.HttpClient("127.0.0.1", port)

    def lag(self) -> float:
        path, delete = self._folder / f"docs/{self._next:05}.txt", self._next % 2 == 0
        self._next += 1
        begun = time.perf_counter()
        if delete:
            path.unlink()
        else:
            path.write_text(f"edited {text(self._next)}")
        while not self._seen(path, delete=delete):
            time.sleep(0.05)
        return time.perf_counter() - begun

    def _seen(self, path: Path, *, delete: bool) -> bool:
        where: chromadb.Where = {"source": str(path)}
        try:
            found = self._client.get_collection("docs").get(where=where, include=["documents"])
        except NotFoundError:  # the new collection is taking the old one's place
            return False
        texts = found["documents"] or []
        return not texts if delete else any(each.startswith("edited") for each in texts)


def main(documents: int = 1500) -> None:
    folder, port = Path(tempfile.mkdtemp()), free_port()
    (folder / "docs").mkdir()
    for number in range(documents):
        (folder / f"docs/{number:05}.txt").write_text(text(number))
    configure(folder, port, 200)
    daemon = subprocess.Popen(
        [INGESTOR, "run"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while settled(folder) < documents:
            time.sleep(1)
        deeds = Deeds(folder, port)
        at_rest = [deeds.lag() for _ in range(AT_REST)]
        configure(folder, port, 120)
        while not collection(folder)["built"]:
            time.sleep(0.2)
        meanwhile, begun = list[float](), time.perf_counter()
        while collection(folder)["built"]:
            meanwhile.append(deeds.lag())
            time.sleep(PAUSE)
        took = time.perf_counter() - begun
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)
        shutil.rmtree(folder)
    print(
        f"{documents:,} documents, rebuilt in {took:.0f} s; seconds until readers see it (median, longest):"
    )
    for name, lags in (("at rest", at_rest), ("during the rebuild", meanwhile)):
        print(f"  {name:20} {median(lags):6.1f} {max(lags):6.1f}  ({len(lags)} deletions and edits)")
