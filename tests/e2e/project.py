"""A real project on disk, driven as a person would: the console script, a config, files, signals."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import chromadb
import typer.main
import yaml
from chromadb.api import ClientAPI

from ingestor.cli.main import main
from ingestor.model import CollectionName
from ingestor.state.editions import Editions
from ingestor.state.journal import open_journal
from tests.e2e import forked
from tests.e2e.forked import program
from tests.serving import free_port
from tests.simulation.lexical import records_of

INGESTOR = Path(sys.executable).with_name("ingestor")
COMMANDS = cache(typer.main.get_command)  # building all commands takes as long as a quick one runs
NAMED_BY_HISTORY = {"document_id", "doc_id", "ref_doc_id", "relationships", "_node_content"}


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass
class Daemon:
    process: subprocess.Popen[bytes] | forked.Running
    log: Path

    def stop(self, number: int = signal.SIGTERM, seconds: float = 240.0) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass
class Project:
    """A folder with ``docs`` and a config; ``settings`` overrides the config's top level.

    ``under``: the start of a command line under which commands are to run.
    """

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    runs: int = 0
    under: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.docs = self.folder / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        self.configure()

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    def configure(self) -> None:
        base: dict[str, Any] = {
            "state": "./state",
            "chroma": {"path": "./chroma", "port": self.port},
            "http": False,
            "embedding": {"kind": "hashing", "dimensions": 64},
            "chunking": {"strategy": "recursive", "size": 60},
            "sources": [
                {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs", "settle": "200ms"}
                | self.source
            ],
        }
        whole = base | self.settings
        whole["sources"] = [self._without_secrets(source) for source in whole["sources"]]
        self.config.write_text(yaml.safe_dump(whole, sort_keys=False))

    def _without_secrets(self, source: dict[str, Any]) -> dict[str, Any]:
        """The source with its secrets in files, for a config may not hold them."""
        options = dict(source.get("options", {}))
        secrets = {name: options.pop(name) for name in ("key", "secret") if name in options}
        secrets = {**source.get("secrets", {}), **secrets}
        kept: dict[str, Any] = {
            name: self._file(name, source[name]) for name in ("token", "password") if name in source
        }
        if secrets:
            kept["options"] = options
            kept["secrets"] = {name: self._file(name, secret) for name, secret in secrets.items()}
        return source | kept

    def _file(self, name: str, secret: str) -> str:
        if secret.startswith("file:"):
            return secret
        path = self.folder.parent / f"{self.folder.name}-{name}"
        path.write_text(secret)
        return f"file:{path}"

    def call(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run one command to its end, in this process unless it needs an environment or ``under``.

        A process of its own, even a forked one, takes three times the processor time.
        """
        command = [*self.under, str(INGESTOR), words[0], "--config", str(self.config), *words[1:]]
        if self.under or env is not None:
            full = {**os.environ, **(env or {})}
            return subprocess.run(
                command, capture_output=True, text=True, timeout=560, env=full, cwd=self.folder
            )
        code, out, err = 0, io.StringIO(), io.StringIO()
        handlers, mask = logging.root.handlers[:], os.umask(0o022)
        try:
            with (
                patch.object(sys, "argv", command),
                patch.object(typer.main, "get_command", COMMANDS),
                redirect_stdout(out),
                redirect_stderr(err),
            ):
                main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os.umask(mask)
            logging.root.handlers[:] = handlers
        return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())

    def json(self, *words: str, code: int | None = 0) -> Any:
        """The JSON that a command prints; ``code``: the exit status it must have (None: any)."""
        done = self.call(*words, "--json")
        fine = done.stdout and (code is None or done.returncode == code)
        assert fine, f"{words} exited {done.returncode}: {done.stderr}\n{done.stdout}"
        return json.loads(done.stdout)

    def start(self, *, as_people_do: bool = False) -> Daemon:
        """The daemon; ``as_people_do``: in a Python that has imported nothing yet."""
        self.runs += 1
        log = self.folder / f"daemon-{self.runs}.log"
        command = [*self.under, str(INGESTOR), "run", "--config", str(self.config)]
        if not self.under and not as_people_do:
            return Daemon(forked.start(program, command, self.folder, os.environ, log), log)
        with log.open("wb") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream, cwd=self.folder)
        return Daemon(process, log)

    def poll(self, *words: str) -> Any:
        """The JSON of a command that is asked until the answer is another one, whatever its exit status."""
        return self.json(*words, code=None)

    def settled(self, documents: int) -> bool:
        """Whether the running daemon has exactly so many documents settled, and nothing else to do."""
        status = self.poll("status")
        source = status["sources"]["docs"]
        return bool(status["running"] and source["settled"] == documents and not source["due"])

    def records(self) -> list[Any]:
        """(id, text, metadata, vector) of every record; nothing else may have Chroma open."""
        return everything(self.folder / "chroma", "docs")

    def essence(self) -> Counter[Any]:
        """Every record, less what history may name."""
        return Counter(
            (
                text,
                tuple(vector),
                *sorted((k, _hashable(v)) for k, v in meta.items() if k not in NAMED_BY_HISTORY),
            )
            for _, text, meta, vector in self.records()
        )

    def words(self) -> Counter[Any]:
        """Every record of the lexical index: the digest of its text, its language and its terms."""
        with open_journal(self.folder / "state/journal.sqlite3") as journal:
            uuids = Editions(journal).live(CollectionName("docs")).uuids
        return Counter(records_of(self.folder / "state/lexical.sqlite3", uuids).values())

    def essence_from_nothing(self) -> Counter[Any]:
        """Index what the config names, and tell what came of it."""
        self.json("sync", code=None)
        return self.essence()

    def fresh(self, name: str = "fresh") -> "Project":
        """The same documents and config, with nothing ingested yet."""
        other = Project(self.folder / name, self.settings, {**self.source, "path": str(self.docs)})
        other.json("sync", code=None)
        return other


# Ids of records that are not among the hundred nearest of their own vector, nor is a record of the same text.
_UNFOUND = """
found = collection.get(include=["documents", "embeddings"])
near = []
for vector in found["embeddings"]:
    near.append(collection.query(query_embeddings=[vector], n_results=100, include=["documents"]))
rows = zip(found["ids"], found["documents"], near)
result = [id_ for id_, text, hits in rows if id_ not in hits["ids"][0] and text not in hits["documents"][0]]
"""


def everything(folder: Path, collection: str) -> list[Any]:
    """(id, text, metadata, vector) of every record; nothing else may have Chroma open."""
    with chromadb.PersistentClient(folder) as client:
        found = client.get_collection(collection).get(include=["documents", "metadatas", "embeddings"])
        vectors = [vector.tolist() for vector in found["embeddings"]]
        return list(zip(found["ids"], found["documents"], found["metadatas"], vectors, strict=True))


def lost(folder: Path, collection: str) -> set[str]:
    """Ids of records that no search finds, whatever the start of Chroma.

    Each start makes the graph of a small collection again from its log, and may lose the way to other records
    than the one before (docs/rechunking.md): those that ``verify`` found may be unfound in the next one.
    """
    found = set(in_chroma(folder, collection, _UNFOUND))
    for _ in range(3):
        found &= set(in_chroma(folder, collection, _UNFOUND)) if found else set()
    return found


def in_chroma(folder: Path, collection: str, statement: str) -> Any:
    """What the statement leaves in ``result``."""
    with chromadb.PersistentClient(folder) as client:
        scope = {"client": client, "collection": client.get_collection(collection), "result": None}
        exec(statement, scope)
        return scope["result"]


@contextmanager
def running(project: Project, *, as_people_do: bool = False) -> Iterator[Daemon]:
    """Run the project's daemon, and kill it at the end if it still runs."""
    daemon = project.start(as_people_do=as_people_do)
    try:
        yield daemon
    finally:
        daemon.kill()


def remote(project: Project) -> ClientAPI:
    """Connect to the running daemon's Chroma as readers do."""
    return chromadb.HttpClient("127.0.0.1", project.port)


def chroma_pid(daemon: Daemon) -> int | None:
    """The daemon's child that is its Chroma server."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(parts[1]) == daemon.process.pid:
            return int(stat.parent.name)
    return None


def signal_later(pid: int, seconds: float) -> None:
    """Kill a process after some seconds, if it is still there."""
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


NOUNS = ["river", "stone", "bridge", "lantern", "harbour", "winter", "garden", "letter", "window", "market"]


def long_document(sentences: int, place: int = 0) -> str:
    """Write paragraphs; ``place`` tells documents apart, for Chroma misses some of dozens of twins."""
    lines = [
        f"Sentence {n} speaks of the {NOUNS[n % 10]} and the {NOUNS[n * 7 % 10]} near house {place}-{n}."
        for n in range(sentences)
    ]
    return "\n\n".join(" ".join(lines[i : i + 5]) for i in range(0, sentences, 5))
