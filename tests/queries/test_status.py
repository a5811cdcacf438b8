"""Status, query and verify beside a Chroma that hangs, a collection that is built, and repeated repairs."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pytest

from ingestor.chroma.client import Client
from ingestor.config.file import load
from ingestor.config.models import Config
from ingestor.core.decisions import NEVER, Changes, Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import EditionName, Receipt
from ingestor.model import CollectionName, Item, SourceName
from ingestor.ports import Transient
from ingestor.queries import access, inventory, verification
from ingestor.queries.access import collections_of, journal_of
from ingestor.queries.reading import search
from ingestor.queries.status import current_status
from ingestor.queries.verification import Verification, verify
from ingestor.search.values import Question
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal, open_journal
from ingestor.state.reports import count_documents, progress
from ingestor.state.run_status import InForce
from tests.config.written import load_text, source
from tests.state.journals import of_collection


@pytest.fixture
def silent_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Only heartbeats may be sent: a longer request would wait for its own time limit."""
    asked = Client._answer

    def heartbeats_only(client: Client, method: str, path: str, content: bytes | None) -> object:
        assert path == "/api/v2/heartbeat", f"{path} is asked of a server that hangs"
        return asked(client, method, path, content)

    monkeypatch.setattr(Client, "_answer", heartbeats_only)
    monkeypatch.setattr(access, "HEARTBEAT", 0.2)
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in kept:
        connection.close()


@pytest.fixture
def config(silent_port: int, tmp_path: Path) -> Config:
    (tmp_path / "docs").mkdir()
    (tmp_path / "config.yaml").write_text(
        f"state: ./state\nchroma: {{host: 127.0.0.1, port: {silent_port}}}\nembedding: {{kind: hashing}}\n"
        "sources:\n  - {name: docs, kind: folder, path: ./docs, collection: docs}\n"
    )
    config = load(tmp_path / "config.yaml", {})
    config.state.mkdir()
    with open_journal(config.state / "journal.sqlite3") as journal:
        edition = Editions(journal).build(CollectionName("docs"), "{}", 0.0)
        Editions(journal).become(0.0, (EditionName(edition.name), "live"))
        with journal.transaction() as database:
            database.execute("UPDATE collections SET choices = NULL, uuid = ?", (str(uuid4()),))
    return config


def test_status_beside_a_hanging_chroma_names_it(config: Config) -> None:
    found = current_status(InForce(config)).collections["docs"]
    assert found.healthy is False
    assert "hangs: no answer to a heartbeat" in str(found.reason)


def test_query_beside_a_hanging_chroma_names_it(config: Config) -> None:
    with pytest.raises(Transient, match="hangs: no answer to a heartbeat"):
        search(config, Question("harbour", "docs", 5))


def test_query_without_chroma_does_not_report_a_hang(config: Config, silent_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    rest = Client("127.0.0.1", port, timeout=0.2)
    assert not rest.hangs()
    rest.close()
    with journal_of(config) as journal, pytest.raises(Transient), collections_of(config, journal):
        pass


SOURCE = SourceName("s")


def test_new_collection_is_done_when_all_documents_are_read(tmp_path: Path) -> None:
    """Documents that no parser reads are done: the switch does not wait for them."""
    journal = Journal(tmp_path / "journal.sqlite3", synchronous="OFF")
    new = Editions(journal).build(CollectionName("docs"), "{}", 0.0)
    keys = ("read.md", "damaged.pdf", "picture.xyz", "next.md")
    journal.observe(SOURCE, new.name, Changes(tuple(Item(key, "1", key) for key in keys)), 0.0)
    unread = Failure("no text", 1, NEVER, quarantined=True)
    endings = (("text", None), ("", unread), (NO_PARSER, unread))
    for entry, (parser, failure) in zip(of_collection(journal, new.name), endings, strict=False):
        journal.settle([Receipt(entry.row, "1", "r", "f", "d", parser, failure=failure)])
    assert progress(count_documents(journal), new.name) == (3, 4)
    journal.close()


@pytest.fixture
def sound(tmp_path: Path) -> Config:
    return load_text(f"state: {tmp_path}\n" + source(), {})


@pytest.mark.parametrize(
    ("unreachable", "repairs", "left"), [([0], 1, 0), ([1, 0], 2, 0), ([3, 1, 0], 3, 0), ([2, 2, 2], 3, 2)]
)
def test_verify_with_repair_repeats_until_search_reaches_all(
    sound: Config, unreachable: list[int], repairs: int, left: int
) -> None:
    seen = iter([Verification(unreachable=number) for number in unreachable])
    with (
        patch.object(verification, "_mend", return_value=True) as mended,
        patch.object(verification, "_verify", lambda config: next(seen)),
    ):
        report = verify(sound, repair=True)
    assert mended.call_count == repairs
    assert (report.unreachable, report.repaired) == (left, True)


def test_repair_without_effect_is_not_repeated(sound: Config) -> None:
    with (
        patch.object(verification, "_mend", return_value=False) as mended,
        patch.object(verification, "_verify", return_value=Verification(unsettled=1)),
    ):
        assert not verify(sound, repair=True).repaired
    assert mended.call_count == 1


@pytest.mark.parametrize("key", ["state", "chroma.path"])
def test_folder_that_cannot_be_written_is_reported_by_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    config, journal = load_text(source()), Journal(tmp_path / "journal.sqlite3")
    closed = tmp_path / "closed"
    part = (
        {"state": closed / "new"}
        if key == "state"
        else {"chroma": config.chroma.model_copy(update={"path": closed / "new"})}
    )
    closed.mkdir()
    monkeypatch.setattr(inventory.os, "access", lambda path, mode: Path(path) != closed)
    assert inventory.unusable(replace(config, **part), journal) == {
        "abc": f"can't write {closed / 'new'}: let this user write there, or correct `{key}`"
    }
    journal.close()
