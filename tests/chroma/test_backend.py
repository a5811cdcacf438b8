"""Chroma as the daemon and the one-shot commands have it, where it fails: full disks, silence, death."""

import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from ingestor.chroma import backend as chroma_backend
from ingestor.chroma import folder as chroma_folder
from ingestor.chroma import server as chroma_server
from ingestor.chroma.backend import ChromaConnection, Collections, Ownership
from ingestor.chroma.backend import open_collections as opened_backend
from ingestor.chroma.client import Client, Full, Refused, Unanswered
from ingestor.chroma.server import ChromaServer
from ingestor.config.servers import Supervised
from ingestor.core.generations import Model
from ingestor.model import Fingerprint, Record
from ingestor.ports import NeedsHuman, Torn, Transient
from tests.chroma.harm import mislead
from tests.chroma.laws import DIMENSIONS, many, vector
from tests.serving import free_port
from tests.small_disk import fill, small_disk
from tests.waiting import wait

pytestmark = pytest.mark.usefixtures("forked_chroma")
MODEL = Model(Fingerprint("embedder"), None, lambda: DIMENSIONS)
_serial = count()


@contextmanager
def chroma(folder: Path) -> Iterator[Collections]:
    config = Supervised(path=folder / "chroma", port=free_port())
    with opened_backend(config, Ownership("ours"), folder.parent / "chroma.log", serve=True) as backend:
        yield backend


@pytest.fixture(scope="module")
def backend(forked_chroma: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collections]:
    """The backend of tests that leave it in order."""
    with chroma(tmp_path_factory.mktemp("shared")) as backend:
        yield backend


def opened(backend: Collections):
    return backend.open("docs", MODEL)[0]


def server_of(backend: Collections) -> ChromaServer:
    return backend.connection.server


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests to a server that does not answer end soon."""
    for name in ("_ANSWER_TIMEOUT", "SMALL_TIMEOUT", "STOP_PATIENCE"):
        monkeypatch.setattr(chroma_server, name, 0.2)
    monkeypatch.setattr(chroma_server, "_END_PATIENCE", 0.01)


@contextmanager
def stopped(backend: Collections) -> Iterator[None]:
    pid = server_of(backend).pid
    os.kill(pid, signal.SIGSTOP)
    wait(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    try:
        yield
    finally:
        os.kill(server_of(backend).pid, signal.SIGCONT)


def fail(error: Exception) -> None:
    raise error


def fat(records: int = 400) -> list[Record]:
    """About as large as real ones are."""
    many_keys = [{f"k{i}": f"value {i} of {n}" for i in range(25)} for n in range(records)]
    return [
        Record(f"{next(_serial)}#0", f"text {n} " * 40, keys, vector(n)) for n, keys in enumerate(many_keys)
    ]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 60) as folder:
        yield folder


def written(backend: Collections, records: list[Record]) -> Exception | None:
    """What came of it; trouble is told as the writer tells it."""
    try:
        opened(backend).upsert(records)
    except Transient as error:
        backend.trouble("docs", error)
        return error
    return None


def test_cache_stops_growing_on_a_nearly_full_disk(disk: Path) -> None:
    with chroma(disk) as backend:
        assert written(backend, fat(10)) is None
        ballast = fill(disk, leave=40_000_000)
        held = written(backend, fat(10))
        assert "less than 50 MB left" in str(held)
        assert str(disk) in str(held)
        assert "less than 50 MB left" in str(backend.probe("docs"))
        index = opened(backend)
        assert index.count() == 10
        index.drop([next(index.ids())])
        assert index.count() == 9
        ballast.unlink()
        ballast = fill(disk, leave=4_000_000)
        (id_, *_) = index.ids()
        for write in (
            lambda: index.drop([id_]), lambda: index.patch([(id_, {"k1": "other"})]),
            lambda: index.note({"a": "b"}), lambda: backend.delete("docs"),
        ):  # fmt: skip
            with pytest.raises(Transient, match="less than 5 MB left"):
                write()
        assert index.count() == 9
        ballast.unlink()
        assert written(backend, fat(10)) is None
        assert backend.probe("docs") is None


@pytest.mark.slow  # tests/e2e/test_bad_input.py has a full disk in the default tests
def test_chroma_recovers_when_a_full_disk_has_space(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let alone, it would answer nobody after a few writes that found the disk full."""
    with chroma(disk) as backend:
        for _ in range(2):
            assert written(backend, fat()) is None
        ballast = fill(disk, leave=2_000_000)
        monkeypatch.setattr(chroma_folder.files, "has_room", lambda folder, room: True)
        seen = [written(backend, fat()) for _ in range(12)]
        assert sum(isinstance(error, Full) for error in seen) >= 4
        assert not any(isinstance(error, Unanswered) for error in seen)
        ballast.unlink()
        assert written(backend, fat()) is None
        assert backend.probe("docs") is None


def test_refused_write_blames_the_disk_only_if_it_is_full(
    backend: Collections, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for has_room, reason in ((True, "the database is not writable"), (False, "the disk was full")):
        monkeypatch.setattr(chroma_server, "has_room", lambda *asked, answer=has_room: answer)
        backend.trouble("docs", Full("refused"))
        assert caplog.messages[-1].endswith(reason)


def test_server_that_leaves_requests_unanswered_is_started_again_unless_it_works(
    backend: Collections, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ingestor")
    opened(backend).upsert(many(20))
    first = server_of(backend).pid
    backend.trouble("docs", Unanswered("it took its time, once"))
    assert server_of(backend).pid == first
    impatient(monkeypatch)
    os.kill(first, signal.SIGSTOP)
    with monkeypatch.context() as busy:
        minutes = count(1000)
        busy.setattr(chroma_server, "processor_seconds", lambda pid: 60.0 * next(minutes))
        backend.trouble("docs", Unanswered("it is loading"))
        assert caplog.messages[-1].endswith("waiting longer for an answer")
    assert server_of(backend).pid == first
    backend.trouble("docs", Unanswered("nor did it ever again"))
    assert server_of(backend).pid != first
    assert opened(backend).count() == 20


def test_collection_is_loading_until_the_server_answered_for_it_once(backend: Collections) -> None:
    uuids = [backend.open("docs", MODEL)[1]]
    with stopped(backend):
        assert not backend.connection.is_loading([], 0.2)
        assert backend.connection.is_loading(uuids, 0.2)
    assert not backend.connection.is_loading(uuids, 60)
    with stopped(backend):
        assert not backend.connection.is_loading(uuids, 0.2)
    os.kill(server_of(backend).pid, signal.SIGKILL)
    assert server_of(backend).revive() is not None
    with stopped(backend):
        assert backend.connection.is_loading(uuids, 0.2)
    assert not backend.connection.is_loading([str(UUID(int=0))], 60), "others tell that it is gone"


def test_load_is_awaited_while_the_server_uses_processor_time(
    backend: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes, left = count(1000), [True, True, True, False]
    monkeypatch.setattr(ChromaConnection, "is_loading", lambda self, uuids, patience: left.pop(0))
    monkeypatch.setattr(chroma_server, "processor_seconds", lambda pid: 60.0 * next(minutes))
    backend.connection.await_loaded(["docs"])
    assert left == []
    monkeypatch.setattr(chroma_server, "processor_seconds", lambda pid: 60.0)
    left += [True, True, False]
    backend.connection.await_loaded(["docs"])
    assert left == [True, False], "it hangs"


def test_server_that_cannot_start_is_retried_and_logged_once(
    backend: Collections, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ingestor")
    monkeypatch.setattr(chroma_server, "OBSERVE_EVERY", 0.0)
    opened(backend).upsert(many(20))
    server_of(backend).stop()
    caplog.clear()
    with monkeypatch.context() as patched:
        for error in (NeedsHuman("the port is taken"), OSError("no space")):
            patched.setattr(server_of(backend), "start", lambda error=error: fail(error))
            for _ in range(3):
                backend.connection.tick()
    assert [record.message.split(": ")[-1] for record in caplog.records] == [
        *("not started", "the port is taken", "no space")
    ]
    backend.connection.tick()
    assert caplog.records[-1].message == "Chroma is up again"
    assert opened(backend).count() == 20


def die(backend: Collections, number: int) -> None:
    """The server ends by that signal while it has a request for the collection."""
    server_of(backend)._process.send_signal(number)
    server_of(backend)._process.wait()
    backend.trouble("docs", Transient("it went away"))


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(number, marks=pytest.mark.slow) for number in (11, 15))]
)
def test_sound_collection_is_never_taken_for_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Killed by others it is not even suspected; and a suspected one is asked first."""
    monkeypatch.setattr(chroma_backend, "DEATHS", 2)
    with chroma(tmp_path) as backend:
        opened(backend).upsert(many(20))
        for _ in range(chroma_backend.DEATHS + 1):
            die(backend, number)
            assert opened(backend).count() == 20


@pytest.mark.slow
def test_collection_that_crashes_the_server_at_every_request_is_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chroma(tmp_path) as backend:
        opened(backend).upsert(many(1200))
        server_of(backend).stop()
        mislead(max((tmp_path / "chroma").glob("*/data_level0.bin"), key=lambda file: file.stat().st_size))
        server_of(backend).start()
        for _ in range(chroma_backend.DEATHS):
            with pytest.raises(Transient):
                opened(backend).query(many(1)[0].vector[np.newaxis], 1)
            backend.trouble("docs", Transient("it went away"))
        with pytest.raises(Torn, match="crashed 4 times while reading collection 'docs', and again"):
            opened(backend)
        with monkeypatch.context() as patched:
            patched.setattr(Client, "delete_collection", lambda *_: fail(Transient("away")))
            with pytest.raises(Transient):
                backend.delete("docs")
        backend.trouble("docs", Transient("deleting the records crashed it, too"))
        restarts = backend.connection.restarts
        with pytest.raises(Torn):
            opened(backend)
        assert backend.connection.restarts == restarts, "what was found out holds until it is deleted"
        backend.delete("docs")
        assert opened(backend).count() == 0


def test_server_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn, left = ChromaServer._spawn, [1, 2]

    def killed(server: ChromaServer, listener: socket.socket) -> None:
        spawn(server, listener)
        if left:
            left.pop()
            server._process.kill()

    monkeypatch.setattr(ChromaServer, "_spawn", killed)
    with chroma(tmp_path) as backend:
        assert opened(backend).count() == 0
    assert not left


def test_check_restores_settings_that_another_program_changed(
    backend: Collections, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, client = opened(backend), backend.connection.client
    client.change_collection(UUID(index.uuid), "configuration", {"hnsw": {"ef_search": 1}})
    with monkeypatch.context() as refusing:
        refused = Refused("not that setting", "InvalidArgumentError", 400)
        refusing.setattr(client, "change_collection", lambda *_: fail(refused))
        assert backend.reach_problem("docs") is None
    assert "its settings, and they cannot be restored: not that setting" in caplog.text
    assert "now restored" not in caplog.text
    assert backend.reach_problem("docs") is None
    assert "now restored: ef_search is 1, not 400" in caplog.text
    assert client.get_collection("docs").configuration_json["hnsw"]["ef_search"] == 400
