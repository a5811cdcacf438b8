"""The supervised server, with real servers, real strangers on its port and real kills."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ingestor.chroma import child, processes
from ingestor.chroma import server as chroma_server
from ingestor.confinement.python_child import python_child
from ingestor.ports import NeedsHuman, Transient
from ingestor.state.files import is_held, read_note
from tests.chroma.laws import many
from tests.chroma.opening import catalog, opened
from tests.serving import HOST, client_of, free_port, server
from tests.waiting import LONG, wait


def answers(port):
    connection = http.client.HTTPConnection(HOST, port, timeout=LONG)
    try:
        connection.request("GET", "/api/v2/heartbeat")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_server_starts_stops_and_starts_again_with_its_records(tmp_path):
    running, lock = server(tmp_path), tmp_path / "db" / "ingestor.lock"
    assert running.poll() is not None
    running.start()
    assert running.poll() is None
    assert answers(running.port)
    assert is_held(lock)
    assert processes.listener(running.port) == running.pid
    assert os.getpgid(running.pid) == running.pid  # a Ctrl-C in the terminal is not for it
    with client_of(running) as client:
        opened(client, "docs").upsert(many(20))
    pid = running.pid
    for _ in range(2):
        running.stop()
    assert not answers(running.port)
    assert not Path(f"/proc/{pid}").exists()
    assert not is_held(lock)
    with running, client_of(running) as client:
        assert opened(client, "docs").count() == 20


def test_upserts_write_nothing_to_server_log_and_collections_stay_in_memory(open_server, served):
    before = open_server.log_path.read_text()  # Chroma shows the settings that it takes
    assert '"collections_with_segments_provider": {"cache": {"memory"' in before
    for _ in range(20):
        opened(served, "docs").upsert(many(5))
    assert open_server.log_path.read_text() == before


def test_killed_server_is_noticed_and_started_again(tmp_path):
    with server(tmp_path) as running, client_of(running) as client:
        opened(client, "docs").upsert(many(20))
        os.kill(running.pid, signal.SIGKILL)
        with pytest.raises(Transient):
            opened(client, "docs").count()
        assert wait(running.poll) == "it ended by SIGKILL"  # its sockets close some time before
        running.restart()
        assert running.poll() is None
        assert opened(client, "docs").count() == 20
        assert is_held(tmp_path / "db" / "ingestor.lock")


@pytest.mark.parametrize("moved", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_removed_folder_is_noticed_and_created_again(tmp_path, moved):
    with server(tmp_path) as running:
        if moved:
            (tmp_path / "db").rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(tmp_path / "db")
        assert "was removed, moved or replaced" in running.poll()
        running.restart()
        assert running.poll() is None
        known = [str(os.getpid()), HOST, str(running.port), running.secret]
        assert read_note(tmp_path / "db" / "ingestor.lock") == known
    assert read_note(tmp_path / "db" / "ingestor.lock") == [str(os.getpid())]


def test_hanging_server_is_noticed_and_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(chroma_server, "_ANSWER_TIMEOUT", 0.2)
    monkeypatch.setattr(chroma_server, "_END_PATIENCE", 0.01)
    with server(tmp_path) as running:
        running.supervision.hanging_after = 0.3
        first = running.pid
        os.kill(first, signal.SIGSTOP)
        assert running.poll() is None  # it may only be busy
        time.sleep(0.3)
        assert "no answer for" in running.poll()
        monkeypatch.undo()
        monkeypatch.setattr(chroma_server, "STOP_PATIENCE", 0.2)
        running.restart()
        assert running.pid != first
        assert running.poll() is None


def test_server_ends_with_its_daemon(tmp_path):
    port = free_port()
    code = """
import sys, time; from pathlib import Path; from tests.serving import server
running = server(Path(sys.argv[1]), int(sys.argv[2])); running.start()
print(running.pid, flush=True); time.sleep(60)
"""
    command = [sys.executable, "-c", code, tmp_path, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:
        child = int(daemon.stdout.readline())
        assert answers(port)
        daemon.kill()
    with server(tmp_path, port) as running:  # at once, as a service manager would
        wait(lambda: not Path(f"/proc/{child}").exists())
        assert running.poll() is None


# --- the port -----------------------------------------------------------------------------------------------


def test_chroma_of_another_program_on_the_port_is_refused(tmp_path, open_server):
    taken = rf"port {open_server.port} is taken by process {open_server.pid} .*chroma"
    with pytest.raises(NeedsHuman, match=taken):
        server(tmp_path, open_server.port).start()
    assert open_server.poll() is None
    assert not is_held(tmp_path / "db" / "ingestor.lock")


def test_stranger_who_takes_the_port_in_between_is_named(tmp_path, monkeypatch):
    """The child finds the port taken when it is about to listen."""
    port = free_port()

    def spawn(self, listener):
        stranger.listen()
        original(self, listener)

    original = chroma_server.ChromaServer._spawn
    monkeypatch.setattr(chroma_server.ChromaServer, "_spawn", spawn)
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind((HOST, port))
        with pytest.raises(NeedsHuman, match=f"port {port} is taken by process {os.getpid()}"):
            server(tmp_path, port).start()


def test_foreign_server_answering_is_not_taken_for_ours(tmp_path, monkeypatch, open_server):
    """The child neither ends nor listens, while another Chroma answers every heartbeat."""
    idle = tmp_path / "idle.py"
    idle.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(chroma_server.ChromaServer, "_bind", lambda self: socket.socket())
    monkeypatch.setattr(chroma_server, "_CHILD", idle)
    monkeypatch.setattr(chroma_server, "_START_PATIENCE", 0.5)
    ours = server(tmp_path / "ours", open_server.port)
    with pytest.raises(Transient, match="did not start"):
        ours.start()
    assert ours.pid is None


def test_port_of_another_program_is_refused(tmp_path):
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        reason = rf"port {port} is taken by process {os.getpid()} .*chroma\.port"
        with pytest.raises(NeedsHuman, match=reason):
            server(tmp_path, port).start()


def test_address_of_another_machine_is_refused(tmp_path):
    running = chroma_server.ChromaServer(tmp_path / "db", "192.0.2.1", free_port(), tmp_path / "log")
    with pytest.raises(NeedsHuman, match=r"192\.0\.2\.1"):
        running.start()


# --- the folder ---------------------------------------------------------------------------------------------


def test_second_ingestor_on_the_folder_is_refused(open_server):
    with pytest.raises(NeedsHuman, match=f"process {os.getpid()}"):
        server(open_server.path.parent).start()
    assert open_server.poll() is None


@pytest.mark.slow
def test_server_started_by_hand_on_the_folder_is_refused(tmp_path):
    port = free_port()
    chroma = Path(sys.executable).with_name("chroma")
    by_hand = subprocess.Popen(
        [chroma, "run", "--path", tmp_path / "db", "--port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        wait(lambda: answers(port))
        with pytest.raises(NeedsHuman, match=f"in use by process {by_hand.pid}"):
            server(tmp_path).start()
        assert by_hand.poll() is None
    finally:
        by_hand.terminate()
        by_hand.wait()
    with server(tmp_path) as running:
        assert running.poll() is None


def test_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "db").write_text("a file")
    with pytest.raises(NeedsHuman, match="db"):
        server(tmp_path).start()


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
def test_segments_of_deleted_collections_are_swept(tmp_path, monkeypatch, stopped):
    running, vectors = server(tmp_path), {}
    with running, client_of(running) as client:
        for name in ("kept", "deleted"):
            index = opened(client, name)
            index.upsert(many(1200))
            vectors[name] = index.query(many(1)[0].vector[np.newaxis], 1)
        folders = _segments(tmp_path / "db")
        catalog(client).delete("deleted")
        assert len(folders) == 2
        assert _segments(tmp_path / "db") == folders  # as Chroma leaves it
        if stopped:
            running.stop()
            running.start()
        else:
            monkeypatch.setattr(chroma_server, "_SWEEP_EVERY", 0.0)
            assert running.poll() is None
            assert _segments(tmp_path / "db") == folders  # Chroma may still use what was just deleted
            assert running.poll() is None
            assert _size_of_deleted_files(running.pid) < 100_000  # its disk space is free, too
        assert len(_segments(tmp_path / "db")) == 1
        kept = opened(client, "kept")
        assert kept.query(many(1)[0].vector[np.newaxis], 1) == vectors["kept"]
        opened(client, "new").upsert(many(1200))
        kept.upsert(many(1100))
        assert (kept.count(), opened(client, "new").count()) == (1200, 1200)


def _size_of_deleted_files(pid):
    files = [file for file in Path(f"/proc/{pid}/fd").iterdir() if str(file.readlink()).endswith("(deleted)")]
    return sum(file.stat().st_size for file in files)


def _segments(path):
    return sorted(file.parent.name for file in path.glob("*/header.bin"))


def test_child_ends_also_if_its_parent_died_before_it_read_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the socket is reset, where it ends otherwise. Seen in one of 200 kills."""
    sent: list[int] = []
    monkeypatch.setattr(child.os, "kill", lambda pid, signal: sent.append(signal))
    monkeypatch.setattr(child.time, "sleep", lambda seconds: None)
    parent, ours = socket.socketpair()
    with ours:
        ours.sendall(b"an answer\n")
        parent.close()
        child._end_with_parent(ours, [])
    assert sent == [signal.SIGTERM, signal.SIGKILL]


def test_server_log_is_truncated_while_the_server_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("ingestor.chroma.server._LOG_SIZE", 100_000)
    with server(tmp_path) as running:
        with running.log_path.open("ab") as log:
            log.write(b"x" * 100_001)
        assert running.poll() is None
        assert running.log_path.stat().st_size == 0
    with server(tmp_path):
        pass
    written = running.log_path.read_bytes()
    assert written.strip(b"\0") == written, "it appends"


def test_server_changes_its_graph_with_one_thread_unless_the_user_names_a_number(tmp_path, monkeypatch):
    """With several threads, Chroma loses more replaced records in its graph."""
    given = []

    def start(*words, **wanted):
        given.append(wanted["variables"]["RAYON_NUM_THREADS"])
        return python_child(*words, **wanted)

    monkeypatch.setattr(chroma_server, "python_child", start)
    monkeypatch.delenv("RAYON_NUM_THREADS", raising=False)
    with server(tmp_path):
        pass
    monkeypatch.setenv("RAYON_NUM_THREADS", "3")
    with server(tmp_path):
        pass
    assert given == ["1", "3"]
