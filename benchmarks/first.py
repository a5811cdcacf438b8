"""Seconds of a first pass until the first hit and until its end, and the share of records that it writes
twice.

``python -m benchmarks first [FILES [EMBEDDER [STRATEGY]]]``: a daemon indexes FILES files with each strategy
or the named one, by the default model or the named embedder. A reader searches meanwhile. Seconds count from
the first document that was read. *twice* is the share of records that were written again with another text;
*patched* is the share whose metadata alone was written again.
"""

import json
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import chromadb
import yaml

from benchmarks._prose import texts
from benchmarks.gap import free_port

INGESTOR = Path(sys.executable).with_name("ingestor")
STRATEGIES = ("changepoint", "cluster", "recursive")
MEDIAN, SPREAD, MOST = 4.0, 1.0, 60  # texts of 60 words in a file: log-normal


@dataclass
class Reader:
    """Searches until there is a hit. ``first``: POSIX seconds of the first hit."""

    port: int
    first: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def search(self) -> None:
        while self.first is None and not self.stop.wait(0.05):
            try:
                collection = chromadb.HttpClient("127.0.0.1", self.port).get_collection("docs")
                one = collection.peek(1)["embeddings"]
                if one is not None and len(one) and collection.query(one, n_results=1)["ids"][0]:
                    self.first = time.time()
            except Exception:  # noqa: BLE001 - Chroma or the collection is not there yet
                continue


def write_files(folder: Path, files: int) -> None:
    """Write files of many sizes, in the order of the packages that their words are from."""
    random = Random(1)
    sizes = [min(MOST, max(1, round(random.lognormvariate(0, SPREAD) * MEDIAN))) for _ in range(files)]
    words = iter(texts(sum(sizes)))
    for number, size in enumerate(sizes):
        (folder / f"{number:05}.txt").write_text("\n\n".join(next(words) for _ in range(size)))


def first_pass(folder: Path, strategy: str, embedder: str) -> dict[str, float]:
    """Index the files of ``folder / "docs"`` by a daemon, and measure it."""
    port = free_port()
    settings: dict[str, Any] = {
        "state": f"./{strategy}/state",
        "chroma": {"path": f"./{strategy}/chroma", "port": port},
        "chunking": {"strategy": strategy},
        "sources": [{"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"}],
    }
    if embedder:
        settings["embedding"] = {"kind": embedder}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    before = _worked()
    daemon = subprocess.Popen(
        [INGESTOR, "run", "--json"], cwd=folder, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL
    )
    reader = Reader(port)
    thread = threading.Thread(target=reader.search)
    thread.start()
    try:
        seen = follow(daemon)
        there = chromadb.HttpClient("127.0.0.1", port).get_collection("docs").count()
    finally:
        reader.stop.set()
        thread.join()
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate()
    read, end, loading, written, patched = seen
    return {
        "first": (reader.first or end) - read,
        "loading": loading,
        "total": end - read,
        "processor": _worked() - before,
        "records": there,
        "twice": (written - there) / there,
        "patched": patched / there,
    }


def follow(daemon: "subprocess.Popen[str]") -> tuple[float, float, float, int, int]:
    """Follow the log until all documents are in step.

    Returns the times of the first read document and of the pass's end (POSIX seconds), the seconds to load
    the model, and the numbers of written and patched records.
    """
    read = loading = 0.0
    written = patched = 0
    assert daemon.stderr is not None
    for line in daemon.stderr:
        if not line.startswith("{"):  # a config that the daemon refuses
            raise SystemExit(line.strip())
        event = json.loads(line)
        at = datetime.fromisoformat(event["at"]).timestamp()
        match event["event"]:
            case "model_loading":
                read = at
            case "model_loaded":
                loading = event["seconds"]
            case "documents_written":
                written, patched = written + event["records"], patched + event["patched"]
            case "in_step":
                return read, at, loading, written, patched
    raise SystemExit(f"the daemon ended with {daemon.wait()}")


def _worked() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(files: int = 50, embedder: str = "", strategy: str = "") -> None:
    """Prints a table."""
    with tempfile.TemporaryDirectory(prefix="ingestor-first-") as place:
        folder = Path(place)
        (folder / "docs").mkdir()
        write_files(folder / "docs", files)
        print(f"{files:,} files, {embedder or 'the default model'}; seconds from the first that was read")
        print(
            f"{'':12} {'first record':>12} {'loading':>8} {'total':>8} {'processor':>10} {'records':>8} "
            f"{'twice':>6} {'patched':>8}"
        )
        for each in [strategy] if strategy else STRATEGIES:
            one = first_pass(folder, each, embedder)
            print(
                f"{each:12} {one['first']:12.1f} {one['loading']:8.1f} {one['total']:8.1f} "
                f"{one['processor']:10.1f} {one['records']:8,.0f} {one['twice']:6.0%} {one['patched']:8.0%}",
                flush=True,
            )
