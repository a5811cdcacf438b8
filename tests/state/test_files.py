"""Files of the state folder: closed to other users, never links, and locked by one process at a time."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ingestor.lexical.file import LexicalFile
from ingestor.ports import NeedsHuman
from ingestor.state import files, run_status
from ingestor.state.cache import VectorCache
from ingestor.state.files import Locked, hold, is_held, read_note, retry_until_free
from ingestor.state.journal import Journal
from tests.connectors.folders import run_as_nobody


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def ours(name: str) -> bool:
    return name.startswith("journal")


def open_to_others(*paths: Path) -> None:
    for path in paths:
        path.touch()
        path.chmod(0o644)


def test_new_folder_is_for_this_user_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files.make(tmp_path / "a" / "state", ours)
    assert mode(tmp_path / "a" / "state") == 0o700
    assert not caplog.records


def test_folder_that_others_may_read_is_closed_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o755)
    open_to_others(tmp_path / "journal")
    for _ in range(2):
        files.make(tmp_path, ours)
    assert mode(tmp_path) == 0o700
    assert caplog.messages == [f"{tmp_path}: permissions restricted to the owner"]


def test_folder_that_holds_other_things_stays_open_but_ours_in_it_do_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    journal, letter = tmp_path / "journal", tmp_path / "letter.txt"
    open_to_others(journal, letter)
    files.make(tmp_path, ours)
    assert (mode(tmp_path), mode(journal), mode(letter)) == (0o755, 0o600, 0o644)


REFUSED = """
    from pathlib import Path
    from ingestor.ports import NeedsHuman
    from ingestor.state import files
    try:
        files.make(Path(sys.argv[1]), lambda name: True)
    except NeedsHuman as error:
        print(error)
    """


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_folder_of_another_user_is_refused(tmp_path: Path, mode: int) -> None:
    for above in [*tmp_path.parents][:-2]:
        above.chmod(0o755)
    tmp_path.chmod(mode)
    assert f"{tmp_path} belongs to root" in run_as_nobody(REFUSED, str(tmp_path))
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(NeedsHuman, match=r"belongs to nobody.* or take the folder over \(chown -R root"):
        files.make(tmp_path, ours)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_file_that_the_user_cannot_write_is_refused(tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "state" / "journal.sqlite3-shm"
    for above in [*state.parents][:-2]:
        above.chmod(0o755)
    state.mkdir(0o700)
    file.touch(0o600)
    os.chown(state, 65534, 65534)
    assert f"cannot read and write {file}: repair its owner" in run_as_nobody(REFUSED, str(state))
    os.chown(file, 65534, 65534)
    assert run_as_nobody(REFUSED, str(state)) == ""


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_folder_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(NeedsHuman, match=r"other users can write to .*\(chmod go-w "):
        files.make(tmp_path, ours)
    tmp_path.chmod(mode & 0o755)
    files.make(tmp_path, ours)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_folder_of_a_group_is_refused_unless_it_is_the_users_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    files.make(tmp_path, ours)
    os.chown(tmp_path, 0, 65534)
    with pytest.raises(NeedsHuman, match="other users can write to"):
        files.make(tmp_path, ours)


def test_link_in_place_of_a_file_of_ours_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("theirs")
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    for name in ("journal.sqlite3", "cache.sqlite3", "lexical.sqlite3", "lock", "live.json", "check-a.json"):
        (folder / name).symlink_to(target)
    with pytest.raises(NeedsHuman, match="is a link"):
        files.make(folder, lambda name: True)
    opens: dict[str, Callable[[Path], object]] = {
        "journal.sqlite3": Journal, "cache.sqlite3": lambda path: VectorCache(path, 10**6),
        "lexical.sqlite3": LexicalFile, "lock": hold,
    }  # fmt: skip
    for name, open_file in opens.items():
        with pytest.raises(NeedsHuman, match="is a link"):
            open_file(folder / name)
    (folder / f"live.json.{os.getpid()}").symlink_to(target)
    run_status.write_live(folder, run_status.Live(pid=7))
    assert run_status.read_live(folder).pid == 7
    (folder / "chroma.log").symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        files.open_own(folder / "chroma.log", os.O_WRONLY | os.O_CREAT)
    assert run_status.read_checks(folder) == []
    assert read_note(folder / "lock") == []
    assert target.read_text() == "theirs"


def test_empty_folder_of_the_user_stays_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o775)
    files.make(tmp_path / "mine", ours)
    assert mode(tmp_path / "mine") == 0o775
    assert not caplog.records


def test_file_that_cannot_be_closed_leaves_no_other_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    paths, real = [tmp_path / f"journal{number}" for number in range(5)], Path.chmod
    open_to_others(*paths)

    def chmod(path: Path, mode: int) -> None:
        if path.name == "journal2":
            raise PermissionError(1, "Operation not permitted")
        real(path, mode)

    monkeypatch.setattr(Path, "chmod", chmod)
    files.make(tmp_path, ours)
    assert [mode(path) for path in paths] == [0o600, 0o600, 0o644, 0o600, 0o600]
    assert [str(paths[2]) in message for message in caplog.messages] == [True, False]


# --- the lock -----------------------------------------------------------------------------------------------

HOLDER = """
import subprocess, sys, time
from pathlib import Path
from ingestor.state.files import hold
lock = hold(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, close_fds=False)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_second_lock_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    with hold(tmp_path / "lock"):
        with pytest.raises(NeedsHuman, match=rf"{tmp_path}.*process {os.getpid()}"):
            hold(tmp_path / "lock")
        hold(tmp_path / "other").release()
    hold(tmp_path / "lock").release()


def test_releasing_twice_is_harmless(tmp_path: Path) -> None:
    lock = hold(tmp_path / "lock")
    lock.release()
    with hold(tmp_path / "lock"):
        lock.release()
        assert is_held(tmp_path / "lock")
    assert not is_held(tmp_path / "lock")


def test_lock_file_of_an_ended_process_holds_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")
    assert not is_held(tmp_path / "lock")
    with hold(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_lock_query_creates_no_file(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []


def test_lock_ends_with_its_process_even_if_a_child_lives_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        child = int(holder.stdout.readline())
        try:
            assert is_held(tmp_path / "lock")
            with pytest.raises(NeedsHuman, match=f"process {holder.pid}"):
                hold(tmp_path / "lock")
            holder.kill()
            holder.wait()
            os.kill(child, 0)  # it is still there
            hold(tmp_path / "lock").release()
        finally:
            os.kill(child, signal.SIGKILL)
            holder.kill()


def test_lock_query_refuses_no_holder(tmp_path: Path) -> None:
    """Hold the lock for long, where ``is_held`` holds it for an instant."""
    with (tmp_path / "lock").open("w") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        waiting = threading.Timer(0.1, fcntl.flock, (asking, fcntl.LOCK_UN))
        waiting.start()
        hold(tmp_path / "lock").release()
        waiting.join()


def test_lock_is_awaited_for_the_given_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    first = hold(tmp_path / "lock")
    with pytest.raises(Locked, match=f"process {os.getpid()}"):
        retry_until_free(lambda: hold(tmp_path / "lock"), 0.1)
    giving_back = threading.Timer(0.3, first.release)  # later than one try takes to give up
    giving_back.start()
    retry_until_free(lambda: hold(tmp_path / "lock"), 60).release()
    giving_back.join()


def test_lock_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NeedsHuman, match="No such file"):
        hold(tmp_path / "nowhere" / "lock")


@pytest.mark.slow
def test_lock_is_held_while_other_processes_query_it(tmp_path: Path) -> None:
    """Many processes that ask never stop one that holds and releases."""
    asking = """
import sys; from pathlib import Path; from ingestor.state.files import is_held
print(flush=True)
while True: is_held(Path(sys.argv[1]))
"""
    hold(tmp_path / "lock").release()
    command = [sys.executable, "-c", asking, str(tmp_path / "lock")]
    with ExitStack() as stack:
        for _ in range(2):
            asker = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(asker.kill)
            assert asker.stdout and asker.stdout.readline()
        for _ in range(3000):
            hold(tmp_path / "lock").release()
