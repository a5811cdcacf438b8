"""What goes wrong outside: each mistake or mishap gets a clear message, nothing is lost, the rest goes on."""

import logging
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ingestor.cli import main
from ingestor.journal import Journal
from tests.e2e.project import Project


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Ask = Callable[..., Answer]


def call(project: Project, *words: str) -> Answer:
    """In a process of its own."""
    done = project.call(*words)
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def ask(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ask]:
    """Runs a command in this process, which is quicker; not for those that open Chroma."""
    handlers = logging.root.handlers[:]

    def run(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["ingestor", words[0], "--config", str(project.config), *words[1:]])
        with pytest.raises(SystemExit) as end:
            main()
        return Answer(int(end.value.code or 0), *capsys.readouterr())

    yield run
    logging.root.handlers[:] = handlers


def assert_told(answer: Answer, code: int, *words: str) -> None:
    """The exit code is right, and a short message says all the words."""
    assert answer.code == code, answer
    assert "Traceback" not in answer.err
    assert 1 <= len([line for line in answer.err.splitlines() if line]) <= 3, answer.err
    for word in words:
        assert word in answer.err


def spoil(old: str, new: str) -> Callable[[Project], None]:
    def edit(project: Project) -> None:
        text = project.config.read_text()
        assert old in text
        project.config.write_text(text.replace(old, new))

    return edit


def journal(project: Project) -> Path:
    return project.folder / "state" / "journal.sqlite3"


def garbage_as_journal(project: Project) -> None:
    journal(project).write_bytes(b"garbage " * 1000)


def newer_journal(project: Project) -> None:
    book = Journal(journal(project))
    book._db.execute("PRAGMA user_version = 999")
    book.close()


def as_it_is(project: Project) -> None:
    pass


MISTAKES = {
    "no config": (lambda p: p.config.unlink(), "sync", 2, ("config.yaml", "no such file", "ingestor init")),
    "a folder as config": (
        lambda p: (p.config.unlink(), p.config.mkdir()), "sync", 2, ("config.yaml", "irectory"),
    ),
    "binary config": (lambda p: p.config.write_bytes(b"\xff\xfe\0"), "sync", 2, ("config.yaml", "UTF-8")),
    "empty config": (lambda p: p.config.write_text(""), "sync", 2, ("config.yaml", "empty", "ingestor init")),
    "not YAML": (spoil("sources:", "sources: ]"), "sync", 2, ("config.yaml:", "YAML")),
    "unknown strategy": (
        spoil("recursive", "recursiv"), "run", 2, ("config.yaml:", "'recursiv'", "did you mean 'recursive'"),
    ),
    "unknown key": (spoil("settle:", "setle:"), "sync", 2, ("config.yaml:", "setle", "settle")),
    "unknown kind": (spoil("kind: folder", "kind: foldr"), "sync", 2, ("config.yaml:", "foldr", "folder")),
    "port out of range": (spoil("port: ", "port: 7"), "sync", 2, ("config.yaml:", "port", "65535")),
    "unknown command": (as_it_is, "snyc", 2, ("snyc", "sync")),
    "no answers wanted": (as_it_is, "query words -n 0", 2, ("-n",)),
    "a filter that is no JSON": (as_it_is, "query words --where {page:3}", 2, ("--where", "JSON object")),
    "a filter that is no object": (as_it_is, "query words --where [3]", 2, ("--where", "JSON object")),
    "nothing to retry": (as_it_is, "retry", 2, ("--all",)),
    "unknown document": (as_it_is, "retry nope.txt", 2, ("nope.txt", "ingestor ls")),
    "unknown source": (as_it_is, "ls --source nope", 2, ("nope", "known")),
    "accepted without need": (as_it_is, "accept docs", 2, ("docs", "not held", "ingestor status")),
    "nothing ingested yet": (lambda p: journal(p).unlink(), "verify", 4, ("state", "ingestor sync")),
    "garbage as journal": (garbage_as_journal, "sync", 4, ("journal.sqlite3", "damaged", "backup", "delete")),
    "garbage as journal, looked at": (garbage_as_journal, "status", 4, ("journal.sqlite3", "damaged")),
    "a newer journal": (newer_journal, "sync", 4, ("format 999", "install a newer ingestor")),
    "a file where the state is": (
        lambda p: (shutil.rmtree(p.folder / "state"), (p.folder / "state").touch()), "sync", 4, ("state",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_a_few_words(project: Project, ask: Ask, name: str) -> None:
    make, words, code, message = MISTAKES[name]
    journal(project).parent.mkdir()
    Journal(journal(project)).close()
    make(project)
    assert_told(ask(*words.split()), code, *message)


def test_a_port_that_is_taken_is_told_with_who_has_it(project: Project, ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", project.port)):
        assert_told(ask("run"), 4, str(project.port), "taken", str(os.getpid()), "chroma.port")
