"""A process starts when it is needed, says why it does not, and ends with its parent."""

import errno
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from ingestor.model import Blob
from ingestor.ports import Transient
from ingestor.registry import Options
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from tests.waiting import wait

pytestmark = pytest.mark.usefixtures("bad_parser")

PARENT = """
import os, sys
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from ingestor.model import Blob
from ingestor.registry import Options, find, kinds
isolation = Isolation(Limits(seconds=1, processes=2))
print(isolation.parse("bad", Options(), Blob(b"pid", "a")).text, flush=True)
isolation.parse("bad", Options(), Blob(sys.argv[1].encode(), "a"))
sys.stdin.read()
"""


SLOW = [pytest.param(doing, marks=pytest.mark.slow) for doing in ("hang", "sleep")]


@pytest.mark.parametrize("doing", ["nothing", *SLOW])
def test_processes_end_with_a_parent_that_is_killed(doing: str) -> None:
    command = [sys.executable, "-c", PARENT, doing]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    wait(lambda: not _alive(pid), 60)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_started_before_it_is_needed() -> None:
    before = set(_children())
    isolation = Isolation(Limits())
    assert set(_children()) == before
    isolation.close()


def _children() -> list[str]:
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()


def test_process_that_does_not_start_is_retried_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no python here >&2\nexit 5\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    isolation = Isolation(Limits(processes=1))
    with pytest.raises(Transient, match=r"does not start: .*exit status 5: no python here"):
        isolation.parse("bad", Options(), Blob(b"", "a"))
    isolation.close()


def test_why_a_process_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text("raise ImportError('this pydantic is broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    isolation = Isolation(Limits(processes=1))
    with pytest.raises(Transient, match=r"does not start: .*this pydantic is broken"):
        isolation.parse("bad", Options(), Blob(b"", "a"))
    isolation.close()


def test_without_a_temporary_folder_people_are_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    isolation = Isolation(Limits(processes=1))
    with pytest.raises(Transient, match=r"can't be started: No usable .*make room .* or set TMPDIR"):
        isolation.parse("bad", Options(), Blob(b"", "a"))
    isolation.close()
