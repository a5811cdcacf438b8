"""One writer at a time, with real processes."""

import fcntl
import os
import signal
import subprocess
import sys
import threading

import pytest

from ingestor.ports import NeedsHuman
from ingestor.state.files import Locked, hold, is_held, retry_until_free

HOLDER = """
import subprocess, sys, time
from pathlib import Path
from ingestor.state.files import hold
lock = hold(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, close_fds=False)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_second_lock_is_refused_and_names_the_holder(tmp_path):
    with hold(tmp_path / "lock"):
        with pytest.raises(NeedsHuman, match=rf"{tmp_path}.*process {os.getpid()}"):
            hold(tmp_path / "lock")
        hold(tmp_path / "other").release()
    hold(tmp_path / "lock").release()


def test_releasing_twice_is_harmless(tmp_path):
    lock = hold(tmp_path / "lock")
    lock.release()
    with hold(tmp_path / "lock"):
        lock.release()
        assert is_held(tmp_path / "lock")
    assert not is_held(tmp_path / "lock")


def test_lock_file_of_an_ended_process_holds_no_lock(tmp_path):
    (tmp_path / "lock").write_text("1\n")
    assert not is_held(tmp_path / "lock")
    with hold(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_lock_query_creates_no_file(tmp_path):
    assert not is_held(tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []


def test_lock_ends_with_its_process_even_if_a_child_lives_on(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    )
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
        holder.wait()
        holder.stdout.close()


def test_lock_query_refuses_no_holder(tmp_path):
    """Hold the lock for long, where ``is_held`` holds it for an instant."""
    with (tmp_path / "lock").open("w") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        waiting = threading.Timer(0.1, fcntl.flock, (asking, fcntl.LOCK_UN))
        waiting.start()
        hold(tmp_path / "lock").release()
        waiting.join()


def test_lock_is_awaited_for_the_given_time(tmp_path):
    first = hold(tmp_path / "lock")
    with pytest.raises(Locked, match=f"process {os.getpid()}"):
        retry_until_free(lambda: hold(tmp_path / "lock"), 0.1)
    giving_back = threading.Timer(1.0, first.release)  # later than one try takes to give up
    giving_back.start()
    retry_until_free(lambda: hold(tmp_path / "lock"), 20).release()
    giving_back.join()


def test_lock_in_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(NeedsHuman, match="No such file"):
        hold(tmp_path / "nowhere" / "lock")


@pytest.mark.slow
def test_lock_is_held_while_other_processes_query_it(tmp_path):
    """Many processes that ask never stop one that holds and releases."""
    asking = (
        "import sys; from pathlib import Path; from ingestor.state.files import is_held\n"
        "print(flush=True)\n"
        "while True: is_held(Path(sys.argv[1]))"
    )
    hold(tmp_path / "lock").release()
    command = [sys.executable, "-c", asking, str(tmp_path / "lock")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as one,
        subprocess.Popen(command, stdout=subprocess.PIPE) as other,
    ):
        try:
            for asker in (one, other):
                assert asker.stdout and asker.stdout.readline()
            for _ in range(3000):
                hold(tmp_path / "lock").release()
        finally:
            one.kill()
            other.kill()
