"""A daemon as the service port sees it, with a journal and an embedding stream of its own."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np

from ingestor.chroma.client import Client
from ingestor.config.models import Config
from ingestor.config.servers import Http
from ingestor.core.entries import Edition, EditionName
from ingestor.engine.edition_store import EditionIndex
from ingestor.engine.embedding import Embeddings
from ingestor.engine.outcomes import WorkCounts
from ingestor.http_server.requests import ServerLimits
from ingestor.http_server.server import Server
from ingestor.lexical.file import LexicalFile, LexicalReaders
from ingestor.lexical.index import LexicalIndex
from ingestor.model import CollectionName, Fingerprint, Record, Vectors
from ingestor.page.opening import pages_of
from ingestor.ports import Gone
from ingestor.search.rerankers import Reranker
from ingestor.service.daemon_view import DaemonView
from ingestor.service.port import application, common
from ingestor.state import run_status
from ingestor.state.cache import VectorCache
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal, JournalReader
from ingestor.state.run_status import Live, SyncProgress
from tests.chroma.opening import opened

RECIPE = Fingerprint("abc123")


class Model:
    """Questions point one way, documents the other. ``gate`` holds documents up; ``begun``: one is there."""

    window, dimensions = 100, 2

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.seen: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.begun.set()
        assert self.gate.wait(600)
        self.seen.append(list(texts))
        return np.tile(np.array([1, 0], np.float32), (len(texts), 1))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.seen.append(list(texts))
        return np.tile(np.array([0, 1], np.float32), (len(texts), 1))

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


class Daemon:
    """What the port sees: its figures can be set."""

    def __init__(self, folder: Path, model: Any = None) -> None:
        self.folder, self.model, self.idle, self.up = folder, model or Model(), 0.0, True
        self.collections: dict[tuple[str, ...], Any] = {}  # by UUIDs
        self.unloaded = set[str]()
        self.reranker: Reranker | None = None
        self.stretch, self.live, self.counts = SyncProgress(), Live(waiting=3), WorkCounts()
        self.journal = Journal(folder / "journal.sqlite3")
        self.embeddings = Embeddings(VectorCache(folder / "cache", 10**6), self.model.count)
        self.stream = self.embeddings.of(RECIPE, lambda: self.model)
        self.reader = JournalReader(folder / "journal.sqlite3")
        self.lexical = LexicalReaders(folder / "lexical.sqlite3")

    def view(self) -> DaemonView:
        return DaemonView(
            self.reader, self.embeddings, lambda: self.live, lambda: self.stretch, lambda: self.idle,
            lambda: {"docs": 60.0},
            self.chroma, self.collection, self.lexical,
            lambda texts: [len(text.split()) for text in texts], self.counts,
            {"read": 1.5}, {"state": self.folder}, lambda: self.reranker,
            lambda: run_status.read_checks(self.folder),
        )  # fmt: skip

    @property
    def chroma(self) -> Any:
        return SimpleNamespace(answers=lambda patience: self.up, is_loading=self.loads, restarts=0)

    def loads(self, uuids: Iterable[str], patience: float) -> bool:
        return not self.unloaded.isdisjoint(uuids)

    def collection(self, uuids: Sequence[str]) -> Any:
        if uuids not in self.collections:
            raise Gone(f"no collection {uuids}")
        return self.collections[tuple(uuids)]

    def close(self) -> None:
        self.embeddings.close()
        self.reader.close()
        self.lexical.close()
        self.journal.close()


def note_documents(daemon: Daemon, names: Iterable[str]) -> None:
    """As rows of the journal."""
    with daemon.journal.transaction() as db:
        for number, name in enumerate(names, 1):
            row = (number, name, "docs", "docs", f"{name}.md", f"/{name}.md", 10)
            keys = "id, document_id, source, collection, key, uri, size"
            db.execute(f"INSERT INTO documents ({keys}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            db.execute("INSERT INTO records VALUES (?, 0, '', '', '', 0, x'')", (number,))


@contextmanager
def holding(records: Iterable[Record], folder: Path, model: Any, chroma: Client) -> Iterator[Daemon]:
    """A daemon whose collection ``docs`` has these records, in Chroma and in a lexical file of its own."""
    found = Daemon(folder, model)
    index = opened(chroma, "docs", dimensions=model.dimensions)
    file = LexicalFile(folder / "lexical.sqlite3")
    words = LexicalIndex(file, (index.uuid,))
    EditionIndex([index], words).upsert(list(records))
    words.set_complete(True)
    found.collections[(index.uuid,)] = index
    Editions(found.journal).note(
        Edition(EditionName("docs"), CollectionName("docs"), uuids=(index.uuid,), embedder=RECIPE)
    )
    try:
        yield found
    finally:
        file.close()
        found.close()


@contextmanager
def served(daemon: Daemon, config: Config | None = None, **settings: Any) -> Iterator[httpx.Client]:
    """The service port with the pages of people. ``config``: what their buttons work by."""
    shared = common(daemon.view(), Http.model_validate(settings))
    pages = pages_of(shared, lambda: config_in_force(config), daemon.folder / "config.yaml")
    server = Server(application(shared, pages), "127.0.0.1", 0, ServerLimits(penalty=0))
    server.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=60) as client:
            yield client
    finally:
        pages.close()
        server.stop()


def config_in_force(config: Config | None) -> Config:
    assert config is not None, "this test does not say what the config is"
    return config
