"""What happens around a running daemon: it says so in words that help, loses nothing, and goes on."""

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.e2e.project import Daemon, Project
from tests.e2e.test_daemon import chroma_pid
from tests.e2e.test_sync import long_document
from tests.waiting import wait


def as_others(project: Project) -> None:
    """Commands may then read and write only what file permissions allow, as root otherwise need not care."""
    if os.geteuid() != 0:
        return
    if shutil.which("setpriv") is None:
        pytest.skip("root without setpriv can't give up its rights")
    project.under = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def records(project: Project) -> int:
    found: int = project.json("status")["collections"]["docs"]["records"]
    return found


@pytest.mark.slow
def test_what_can_not_be_read_any_more_stays_and_the_rest_goes_on(project: Project) -> None:
    as_others(project)
    docs, shut = project.docs, project.docs / "shut"
    shut.mkdir()
    for path in (docs / "secret.txt", shut / "a.txt", docs / "open.txt"):
        path.write_text(f"The words of {path.name}.")
    daemon = project.start()
    try:
        wait(lambda: project.settled(3))
        (docs / "secret.txt").chmod(0o000)
        shut.chmod(0o000)
        (docs / "new.txt").write_text("Something new.")
        wait(lambda: records(project) == 4)
        wait(lambda: "secret.txt can't be read: give this user read access, or exclude it" in daemon.said())
        wait(lambda: f"{shut} (Permission denied)" in daemon.said())
        status = project.json("status")
        assert f"{shut} (Permission denied)" in status["sources"]["docs"]["trouble"]
        (failure,) = status["failures"]
        assert (failure["document"], failure["quarantined"]) == ("secret.txt", False)
        assert status["collections"]["docs"]["records"] == 4, "nothing was removed"

        (docs / "secret.txt").chmod(0o644)
        shut.chmod(0o755)
        wait(lambda: project.settled(4))
        assert "Traceback" not in daemon.said()
        assert daemon.stop() == 0
    finally:
        shut.chmod(0o755)
        daemon.kill()
    assert project.json("verify")["checked"] == 4


def grow(path: Path, seconds: float) -> None:
    with path.open("a") as file:
        for _ in range(int(seconds * 100)):
            file.write("One more sentence of a log that grows. ")
            file.flush()
            time.sleep(0.01)


def test_a_file_that_grows_is_read_whole_when_it_rests(project: Project, daemon: Daemon) -> None:
    wait(lambda: project.settled(0))
    growing = project.docs / "growing.txt"
    writer = threading.Thread(target=grow, args=(growing, 3.0))
    writer.start()
    (project.docs / "other.txt").write_text("Another document.")
    wait(lambda: project.poll("status")["sources"]["docs"]["settled"] >= 1)
    writer.join()
    wait(lambda: project.settled(2))
    whole = len(growing.read_text().replace(" ", ""))

    def indexed() -> int:
        chunks = project.poll("show", "growing.txt")["chunks"]
        return sum(len(chunk["text"].replace(" ", "")) for chunk in chunks)

    wait(lambda: indexed() == whole, seconds=60)  # on a busy machine it seemed to rest before
    assert "quarantined" not in daemon.said()
    assert daemon.stop() == 0


@pytest.mark.slow
def test_a_chroma_that_stands_still_for_a_while(project: Project, daemon: Daemon) -> None:
    (project.docs / "0.txt").write_text(long_document(30))
    wait(lambda: project.settled(1))
    server = chroma_pid(daemon)
    assert server is not None
    os.kill(server, signal.SIGSTOP)
    for n in range(1, 6):
        (project.docs / f"{n}.txt").write_text(long_document(30, n))
    time.sleep(8)  # longer than the daemon looks away
    assert daemon.process.poll() is None
    os.kill(server, signal.SIGCONT)
    wait(lambda: project.settled(6))
    assert chroma_pid(daemon) == server, "it was only slow"
    status = project.json("status")
    assert status["embedded_texts"] == status["collections"]["docs"]["records"]
    assert daemon.stop() == 0
    assert project.json("verify")["checked"] == status["collections"]["docs"]["records"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_chroma_that_stands_still_for_ever_is_replaced(project: Project, daemon: Daemon) -> None:
    (project.docs / "0.txt").write_text(long_document(30))
    wait(lambda: project.settled(1))
    server = chroma_pid(daemon)
    assert server is not None
    os.kill(server, signal.SIGSTOP)
    (project.docs / "1.txt").write_text(long_document(30, 1))
    wait(lambda: "Chroma is up again" in daemon.said(), seconds=240)
    wait(lambda: project.settled(2))
    assert chroma_pid(daemon) not in (server, None)
    written = records(project)
    assert daemon.stop() == 0
    assert project.json("verify")["checked"] == written


@pytest.mark.parametrize("ready", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_state_folder_that_can_not_be_written(project: Project, ready: bool) -> None:
    as_others(project)
    (project.docs / "a.txt").write_text("Some words.")
    if ready:
        assert project.call("sync").returncode == 0
    state = project.folder / "state"
    state.mkdir(exist_ok=True)
    for path in (state, *state.iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        for command in ("sync", "run"):
            refused = project.call(command)
            assert refused.returncode == 4, refused
            assert "Traceback" not in refused.stderr
            assert str(state) in refused.stderr
            assert "Permission denied" in refused.stderr
    finally:
        for path in (state, *state.iterdir()):
            path.chmod(0o755)
    assert project.json("sync")["documents"]["added" if not ready else "unchanged"] == 1


@pytest.mark.slow
def test_a_chroma_folder_that_goes_is_made_and_filled_anew(project: Project, daemon: Daemon) -> None:
    """The server would write on into files that nobody finds again."""
    (project.docs / "a.txt").write_text(long_document(30))
    wait(lambda: project.settled(1))
    before = records(project)
    shutil.rmtree(project.folder / "chroma")
    (project.docs / "b.txt").write_text("something new")
    wait(lambda: "Chroma is up again" in daemon.said())
    wait(lambda: project.settled(2))
    assert project.json("status")["embedded_texts"] == before + 1
    assert daemon.stop() == 0
    assert project.json("verify")["checked"] == before + 1
