"""Half an hour in the life of a daemon: everything that people do to documents, and everything that kills.

The comparer is independent: another project over the same sources, indexed from nothing, and a look at the
files of Chroma by chromadb alone, in which every record must be found by its own vector.
"""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.pushing import TOKEN, Caller
from tests.connectors.repositories import Repository
from tests.e2e.in_chroma import lost
from tests.e2e.project import Project, free_port
from tests.e2e.test_daemon import chroma_pid, signal_later
from tests.e2e.test_sync import long_document

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
NAMES = [f"{folder}/{number}.txt" for folder in ("a", "b", "c") for number in range(12)]
STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "changepoint"},
    {"strategy": "recursive", "size": 60},
    {"strategy": "recursive", "size": 200},
    {"strategy": "structure"},
]


@dataclass
class Life:
    """A daemon over a folder, a repository and pushed documents; ``deeds`` counts what was done to them."""

    project: Project
    chance: random.Random
    repository: Repository
    caller: Caller
    deeds: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.daemon = self.project.start(as_people_do=True)

    def go_on(self) -> None:
        """One deed or one death."""
        deeds: list[Callable[[], None]] = [
            *(self.write, self.write, self.edit, self.edit, self.rename, self.delete, self.copy, self.swap),
            *(self.move_folder, self.link, self.push, self.commit, self.kill_daemon, self.kill_chroma),
            *(self.restart, self.configure, self.second_daemon),
        ]
        deed = self.chance.choice(deeds)
        with contextlib.suppress(OSError):  # what one deed removed, another cannot copy
            deed()
        self.deeds[deed.__name__] = self.deeds.get(deed.__name__, 0) + 1

    def document(self) -> Path:
        found = sorted(path for path in self.project.docs.rglob("*.txt") if not path.is_symlink())
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

    def restart(self) -> None:
        with contextlib.suppress(Exception):
            self.daemon.stop(signal.SIGTERM)
        self.daemon.kill()
        self.daemon = self.project.start(as_people_do=True)

    def configure(self) -> None:
        self.project.settings["chunking"] = self.chance.choice(STRATEGIES)
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
    }
    return Life(Project(folder / "project", settings), random.Random(seed), repository, caller)


def hold_the_laws(life: Life) -> None:
    """At rest: as from nothing, and every record within search's reach."""
    life.daemon.stop()
    project = life.project
    last = project.json("sync", code=None)
    assert (last["documents"]["failed"], last["held"]) == (0, {}), last
    found = project.json("verify", code=None)
    kinds = ("missing", "orphaned", "stale", "wrong_metadata", "unreachable", "words", "unsettled")
    assert {kind: found[kind] for kind in kinds} == dict.fromkeys(kinds, 0), found
    assert found["checked"] > 0
    assert lost(project.folder / "chroma", "docs") == set()
    fresh = Project(project.folder.parent / "fresh", project.settings)
    assert project.essence() == fresh.essence_from_nothing()


@pytest.mark.slow
@pytest.mark.timeout(int(MINUTES * 60) + 3000)
def test_half_an_hour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SOAK_MINUTES changes how long it takes."""
    life = made(tmp_path, {"port": free_port()}, seed=1)
    until = time.monotonic() + MINUTES * 60
    try:
        while time.monotonic() < until:
            life.go_on()
            time.sleep(life.chance.uniform(0.0, 3.0))
        with capsys.disabled():
            print(f"\n{life.deeds}")
        hold_the_laws(life)
    finally:
        life.daemon.kill()
