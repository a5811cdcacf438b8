"""Records that no search finds by their own vector, after many rewrites of a collection.

``python -m benchmarks reach [SMALL [LARGE [REWRITES]]]``: collections of SMALL and of LARGE records, made
from real sentences (the standard library's docstrings) with all-MiniLM-L6-v2. They are cut differently
REWRITES times: each cut pools the sentences' vectors in other groups, like ``changepoint``. Each way of
writing is measured with Chroma in this process and in a server of its own. *Lost* are records that are not
among the DEEP nearest of their own vector, except twins of the same text. They are counted while Chroma runs
and after a restart, for the worst rewrite and the last one. SMALL is also cut with vectors of whole texts.
"""

import ast
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from ingestor.chroma.client import Client
from ingestor.chroma.index import ChromaIndex
from ingestor.chroma.processes import free_port
from ingestor.chroma.server import ChromaServer
from ingestor.core.fingerprint import fingerprint, text_digest
from ingestor.embedders.sentence_transformers import SentenceTransformersEmbedder, SentenceTransformersOptions
from ingestor.model import Record, RecordId, Vectors
from ingestor.segmentation.fixed_point import to_fixed
from ingestor.segmentation.pooling import pool
from ingestor.state.cache import VectorCache
from ingestor.text.sentences import sentences

LOCAL = "127.0.0.1"
CACHE = Path(__file__).parents[1] / ".cache" / "vectors.sqlite"
DEEP = 100  # requested neighbours
PAGE = 100  # records looked up at once; Chroma's SQL has too many variables for more
BATCH = 400  # records of a write, as in the daemon
HNSW: dict[str, Any] = {"space": "cosine", "max_neighbors": 32}

Cut = list[Record]  # a collection's records after one rewrite


@dataclass(frozen=True)
class Way:
    """A way of writing. ``write``: replaces one cut by the next. ``fresh``: each cut in a new collection."""

    name: str
    write: Callable[[ChromaIndex, Cut, Cut], None]
    restart: bool = False  # after every rewrite, and not only to count
    fresh: bool = False
    hnsw: dict[str, Any] = field(default_factory=dict)


def in_place(index: ChromaIndex, old: Cut, new: Cut) -> None:
    for start in range(0, len(new), BATCH):
        index.upsert(new[start : start + BATCH])
    index.drop([record.id for record in old[len(new) :]])


def drop_then_add(index: ChromaIndex, old: Cut, new: Cut) -> None:
    for start in range(0, max(len(old), len(new)), BATCH):
        index.drop([record.id for record in old[start : start + BATCH]])
        index.upsert(new[start : start + BATCH])


IN_PLACE = Way("in place", in_place)
RESTARTED = replace(IN_PLACE, name="in place, restarts", restart=True)
DROPPED = Way("drop, then add", drop_then_add)
WAYS = (
    IN_PLACE,
    RESTARTED,
    DROPPED,
    replace(DROPPED, name="drop, then add, restarts", restart=True),
    Way("fresh collection", drop_then_add, fresh=True),
)
SETTINGS = (
    {"sync_threshold": 100, "batch_size": 50},
    {"sync_threshold": 100_000, "batch_size": 1000},
    {"ef_search": 500},
    {"ef_construction": 400},
    {"max_neighbors": 64},
    {"max_neighbors": 16},
)


@dataclass
class Chroma:
    """A folder of Chroma, opened as often as needed."""

    folder: Path

    @contextmanager
    def opened(self) -> Iterator[Client]:
        server = ChromaServer(self.folder / "db", LOCAL, free_port(LOCAL), self.folder / "chroma.log")
        with server, Client(LOCAL, server.port, token=server.secret) as client:
            yield client


def collection(client: Client, name: str, hnsw: dict[str, Any]) -> ChromaIndex:
    """Return the collection of that name, created if missing."""
    uuids = {name: uuid for uuid, name in client.names().items()}
    if name in uuids:
        return ChromaIndex(client, UUID(uuids[name]))
    made = client.create_collection(name, configuration={"hnsw": HNSW | hnsw})
    return ChromaIndex(client, made.id)


def lost(index: ChromaIndex, records: Cut) -> int:
    missed = 0
    for start in range(0, len(records), PAGE):
        page = records[start : start + PAGE]
        answers = index.query(np.stack([record.vector for record in page]), DEEP)
        for record, hits in zip(page, answers, strict=True):
            missed += not any(hit.id == record.id or hit.text == record.text for hit in hits)
    return missed


def measured(cuts: Sequence[Cut], way: Way) -> tuple[list[int], list[int]]:
    """Return the numbers of lost records after each rewrite, while Chroma runs and after a restart."""
    running: list[int] = []
    restarted: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        chroma, old, number = Chroma(Path(folder)), [], 0
        while number < len(cuts):
            with chroma.opened() as client:
                index = collection(client, f"cut-{number}" if way.fresh else "cut", way.hnsw)
                if number:
                    again = collection(client, f"cut-{number - 1}" if way.fresh else "cut", way.hnsw)
                    restarted.append(lost(again, old))
                for cut in cuts[number : number + 1 if way.restart else number + 5]:
                    if way.fresh:
                        index, old = collection(client, f"cut-{number}", way.hnsw), []
                    way.write(index, old, cut)
                    running.append(lost(index, cut))
                    old, number = cut, number + 1
        with chroma.opened() as client:
            restarted.append(lost(collection(client, f"cut-{number - 1}" if way.fresh else "cut", {}), old))
    return running, restarted


class Model:
    """Vectors of texts, kept in a cache, so that a second run embeds nothing."""

    def __init__(self) -> None:
        CACHE.parent.mkdir(exist_ok=True)
        self._cache = VectorCache(CACHE, 2**31)
        self._model = SentenceTransformersEmbedder(SentenceTransformersOptions())
        self._key = fingerprint(self._model.identity)

    def embed(self, texts: Sequence[str]) -> Vectors:
        digests = [text_digest(text) for text in texts]
        known = self._cache.get(self._key, digests)
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
        if missing:
            made = self._model.embed(list(missing.values()))
            self._cache.put(self._key, list(missing), made)
            known |= dict(zip(missing, made, strict=True))
        return np.array([known[digest] for digest in digests], np.float32)


def texts(wanted: int) -> list[str]:
    """Return sentences of the standard library's docstrings, each once, in a fixed order."""
    unique: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if {"site-packages", "test", "tests", "idlelib"} & set(path.parts):
            continue
        for text in _docstrings(path):
            unique.update((text[a:b].strip(), None) for a, b in sentences(text) if b - a > 30)
        if len(unique) > wanted:
            break
    return list(unique)[:wanted]


def _docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""


def groups(units: int, number: int) -> list[tuple[int, int]]:
    """Return the ``number``-th cut: groups of one to five sentences, drawn from a fixed seed."""
    sizes = np.random.default_rng(number).integers(1, 6, units)
    ends = np.minimum(np.cumsum(sizes), units)
    ends = ends[: int(np.searchsorted(ends, units)) + 1]
    return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))


def cuts_of(units: Sequence[str], vectors: Vectors, rewrites: int, model: Model | None) -> list[Cut]:
    """Return the cuts with pooled vectors; with a model, with vectors of the groups' texts."""
    whole, weights = to_fixed(vectors), np.array([len(text) // 4 + 1 for text in units], np.int64)
    made = []
    for number in range(rewrites):
        spans = groups(len(units), number)
        joined = [" ".join(units[a:b]) for a, b in spans]
        rows = pool(whole, weights, spans) if model is None else model.embed(joined)
        made.append(
            [
                Record(RecordId(f"d{n // 40}#{n % 40}"), text, {"n": n}, vector)
                for n, (text, vector) in enumerate(zip(joined, rows, strict=True))
            ]
        )
    return made


def main(small: int = 300, large: int = 10_000, rewrites: int = 20) -> None:
    model = Model()
    few = texts(3 * small)
    vectors = model.embed(few)
    print(f"{'vectors':10} {'records':>8} {'way of writing':44} {'running':>16} {'restarted':>16}")
    for name, cuts in (
        ("pooled", cuts_of(few, vectors, rewrites, None)),
        ("encoded", cuts_of(few, vectors, rewrites, model)),
    ):
        for way in WAYS:
            _row(name, cuts, way)
    for settings in SETTINGS:
        name = ", ".join(f"{key} {value}" for key, value in settings.items())
        cuts = cuts_of(few, vectors, rewrites, None)
        _row("pooled", cuts, replace(RESTARTED, name=f"{RESTARTED.name}: {name}", hnsw=settings))
    if not large:
        return
    many = texts(3 * large)
    cuts = cuts_of(many, model.embed(many), max(2, rewrites // 4), None)
    for way in WAYS:
        _row("pooled", cuts, way)


def _row(name: str, cuts: Sequence[Cut], way: Way) -> None:
    running, restarted = measured(cuts, way)
    columns = (f"{max(lost)} worst, {lost[-1]:3} last" for lost in (running, restarted))
    size = f"{len(cuts[-1]):,}"
    print(f"{name:10} {size:>8} {way.name:44}", *(f"{one:>16}" for one in columns), flush=True)
