"""Response times of the service port: ``python -m benchmarks serve [RECORDS] [QUESTIONS] [FOLDER]``.

RECORDS (default 100,000) have 60 words each, from the documentation of installed packages. Each mode gets
QUESTIONS (default 200): half of them eight consecutive words of such a text, half an identifier. A real
daemon ingests the records. One reader and 8 parallel readers search over HTTP, at rest and while documents
change all the time. *chroma* is the lower limit: a query of the same vector to Chroma itself, over HTTP, for
the same number of hits. Modes take turns, so that other programs affect all alike. *CPU* is the daemon's and
Chroma's time for a question of one reader and of 8 readers, at rest. The hashing embedder replaces a model,
so everything except the model is measured.

``FOLDER`` keeps documents and state for another run, which then need not ingest: 100,000 records take half an
hour, most of it Chroma's.
"""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import yaml

from benchmarks._prose import texts
from ingestor.chroma.processes import free_port
from ingestor.embedders.hashing import PLUGIN

INGESTOR = Path(sys.executable).with_name("ingestor")
DIMENSIONS, HITS, CHUNKS, READERS, WARMUP = 384, 5, 50, 8, 10
MODES = ("hybrid", "dense", "lexical")
WAYS = (*MODES, "chroma")
LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class World:
    """A daemon with its documents. ``collection``: its UUID; ``processes``: the daemon's and Chroma's."""

    docs: Path
    port: int
    chroma_port: int
    collection: str
    processes: tuple[int, int]


def main(records: int = 100_000, questions: int = 200, folder: str = "") -> None:
    words = texts(records)
    with ExitStack() as stack:
        place = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="ingestor-serve-")))
        world = stack.enter_context(daemon(place.absolute(), words))
        embed = PLUGIN.build(PLUGIN.options(dimensions=DIMENSIONS)).embed
        chance = random.Random(1)
        asks = [
            part(chance, words) if n % 2 else f"what is ERR_{chance.randrange(records)}?"
            for n in range(questions)
        ]
        vectors = [vector.tolist() for vector in embed(asks)]
        print(f"{'milliseconds, p50 / p95':32}" + "".join(f"{name:>18}" for name in WAYS))
        for readers, ingesting in ((1, False), (READERS, False), (1, True), (READERS, True)):
            name = f"{readers} reader{'s' * (readers > 1)}{', while it ingests' * ingesting}"
            with rewriting(world, words) if ingesting else nothing():
                spent = asked_by(world, readers, asks, vectors)
            shown = (np.percentile(spent[way], [50, 95]) for way in WAYS)
            print(f"{name:32}" + "".join(f"{p50:>10.1f} /{p95:6.1f}" for p50, p95 in shown), flush=True)
            if (
                readers == READERS and not ingesting
            ):  # later than the first: Chroma still loads its index then
                report_processor(world, asks, vectors)


def part(chance: random.Random, words: Sequence[str]) -> str:
    """Return eight consecutive words."""
    found = chance.choice(words).split()
    start = chance.randrange(len(found) - 7)
    return " ".join(found[start : start + 8])[:300]


# --- asking


class Reader:
    """A connection to the service port and one to Chroma."""

    def __init__(self, world: World) -> None:
        self._port = HTTPConnection(LOCAL, world.port, timeout=120)
        self._chroma = HTTPConnection(LOCAL, world.chroma_port, timeout=120)
        base = "/api/v2/tenants/default_tenant/databases/default_database/collections"
        self._query = f"{base}/{world.collection}/query"

    def ask(self, way: str, question: str, vector: Sequence[float]) -> float:
        """Ask a question; return the milliseconds. ``way``: a mode, or chroma."""
        if way == "chroma":
            body: Mapping[str, Any] = {"query_embeddings": [vector], "n_results": HITS}
            return _milliseconds_for(self._chroma, self._query, body)
        return _milliseconds_for(self._port, "/search", {"query": question, "mode": way, "n": HITS})


def _milliseconds_for(connection: HTTPConnection, path: str, body: Mapping[str, Any]) -> float:
    content = json.dumps(body).encode()
    begun = time.perf_counter()
    connection.request("POST", path, content, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = answer.read()
    assert answer.status == 200, found
    return 1000 * (time.perf_counter() - begun)


def asked_by(
    world: World,
    readers: int,
    asks: Sequence[str],
    vectors: Sequence[Sequence[float]],
    ways: Sequence[str] = WAYS,
    warmup: int = WARMUP,
) -> dict[str, list[float]]:
    """Return milliseconds by way. Every reader asks its share of the questions in every way."""
    spent: dict[str, list[float]] = {way: [] for way in ways}

    def read(first: int) -> None:
        reader = Reader(world)
        for n in range(warmup):
            reader.ask(MODES[n % 3], asks[n % len(asks)], vectors[n % len(asks)])
        for at in range(first, len(asks), readers):
            for turn in range(len(ways)):
                way = ways[(at + turn) % len(ways)]
                spent[way].append(reader.ask(way, asks[at], vectors[at]))

    threads = [threading.Thread(target=read, args=(first,)) for first in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(each) == len(asks) for each in spent.values()), "a reader failed"
    return spent


def report_processor(world: World, asks: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
    print(f"{'CPU milliseconds a question':32}" + f"{'daemon':>10}{'chroma':>10}" * 2)
    for way in WAYS:
        spent = list[float]()
        for readers in (1, READERS):
            before = [_processor(pid) for pid in world.processes]
            asked_by(world, readers, asks, vectors, [way], warmup=0)
            now = [_processor(pid) for pid in world.processes]
            spent += [1000 * (after - was) / len(asks) for after, was in zip(now, before, strict=True)]
        print(f"{way:32}" + "".join(f"{each:10.1f}" for each in spent), flush=True)


def _processor(pid: int) -> float:
    """Return the processor seconds of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


# --- the daemon


@contextmanager
def daemon(folder: Path, words: Sequence[str]) -> Iterator[World]:
    docs, records = folder / "docs", len(words)
    docs.mkdir(parents=True, exist_ok=True)
    files = -(-records // CHUNKS)
    for number in range(files):
        write(docs / f"{number}.txt", _document(words, number))
    port, chroma_port = free_port(LOCAL), free_port(LOCAL)
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(_config(port, chroma_port)))
    begun = time.perf_counter()
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([INGESTOR, "run", "--config", config], stdout=log, stderr=log)
        try:
            _await(running, folder / "log", lambda: _ready(port, files))
            print(
                f"{records:,} records in {files:,} documents, ingested in {time.perf_counter() - begun:.0f} s"
            )
            client = chromadb.HttpClient(LOCAL, chroma_port)
            collection = client.get_collection("docs", embedding_function=None)
            assert collection.count() == records
            yield World(docs, port, chroma_port, str(collection.id), (running.pid, _chroma_of(running.pid)))
        finally:
            running.terminate()
            running.wait(120)


def _config(port: int, chroma_port: int) -> dict[str, object]:
    """Return a config by which every paragraph is a record."""
    source = {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs", "scan_every": 3600}
    whole = {"max_paragraphs": 1, "overlap": 0, "max_tokens": None, "min_tokens": 1}
    return {
        "state": "./state",
        "chroma": {"path": "./chroma", "port": chroma_port},
        "http": {"port": port},
        "embedding": {"kind": "hashing", "dimensions": DIMENSIONS},
        "chunking": {"strategy": "paragraph", **whole},
        "sources": [source],
    }


def _document(words: Sequence[str], number: int, turn: int = 0) -> str:
    """Return a document. ``turn``: number of rewrites, each with the texts of another document."""
    first = number * CHUNKS
    own = range(first, min(first + CHUNKS, len(words)))
    drawn = (words[(at + turn * 7919 * CHUNKS) % len(words)] for at in own)
    return "\n\n".join(f"{text} ERR_{at}." for at, text in zip(own, drawn, strict=True)) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file unless it exists with this text."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _await(running: subprocess.Popen[bytes], log: Path, condition: Callable[[], bool]) -> None:
    while not condition():
        assert running.poll() is None, log.read_text()
        time.sleep(0.5)


def _ready(port: int, files: int) -> bool:
    try:
        said = _got(port, "GET", "/status", None)
        settled = said["collections"].get("docs", {}).get("settled", 0)
        return settled == files and _got(port, "POST", "/search", {"query": "a"})["mode"] == "hybrid"
    except (OSError, KeyError):
        return False


def _got(port: int, method: str, path: str, body: object) -> Any:
    connection = HTTPConnection(LOCAL, port, timeout=60)
    try:
        connection.request(method, path, None if body is None else json.dumps(body).encode())
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def _chroma_of(pid: int) -> int:
    """Return the child process that uses most memory: Chroma's server."""
    children = [
        int(each)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for each in (task / "children").read_text().split()
    ]
    return max(children, key=lambda child: int(Path(f"/proc/{child}/statm").read_text().split()[1]))


@contextmanager
def rewriting(world: World, words: Sequence[str]) -> Iterator[None]:
    """Change documents as fast as the daemon indexes them."""
    ended = threading.Event()
    files = -(-len(words) // CHUNKS)

    def rewrite() -> None:
        number = 0
        while not ended.wait(0.2):
            (world.docs / f"{number % files}.txt").write_text(
                _document(words, number % files, 1 + number // files)
            )
            number += 1

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        time.sleep(2)
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def nothing() -> Iterator[None]:
    yield
