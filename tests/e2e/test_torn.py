"""Chroma's files are harmed while a daemon runs: it notices by itself, and writes anew without embedding."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chroma.harm import mislead
from tests.e2e.project import Daemon, Project
from tests.e2e.test_daemon import chroma_pid
from tests.e2e.test_sync import long_document
from tests.waiting import wait


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "which counting shows": ("index_metadata.pickle", _cut),
    "which a search shows": ("data_level0.bin", lambda file: file.write_bytes(b"")),
    "which crashes Chroma at every load": ("data_level0.bin", mislead),
}


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_torn_collection_is_written_anew(project: Project, daemon: Daemon, damage: str) -> None:
    """Nobody writes meanwhile: that Chroma died is all that the daemon has to go by."""
    name, harm = DAMAGES[damage]
    for n in range(4):
        (project.docs / f"{n}.txt").write_text(long_document(900, n))
    wait(lambda: project.settled(4))
    before = project.json("status")
    assert before["collections"]["docs"]["records"] > 1200, "Chroma has files only beyond a thousand"

    os.kill(daemon.process.pid, signal.SIGSTOP)  # lest it starts Chroma before the harm is done
    os.kill(chroma_pid(daemon) or 0, signal.SIGKILL)
    harm(max((project.folder / "chroma").glob(f"*/{name}"), key=lambda file: file.stat().st_size))
    os.kill(daemon.process.pid, signal.SIGCONT)

    wait(lambda: "rebuilding collection docs:" in daemon.said())
    wait(lambda: project.settled(4))
    wait(lambda: project.json("status")["collections"] == before["collections"])  # its words come last
    assert project.json("status")["embedded_texts"] == before["embedded_texts"], "vectors are cached"
    assert daemon.said().count("rebuilding collection") == 1
    assert daemon.stop() == 0
    verified = project.json("verify", code=None)
    assert verified["checked"] == before["collections"]["docs"]["records"]
    assert not any(verified[kind] for kind in ("missing", "orphaned", "stale", "wrong_metadata", "words"))
    assert verified["unreachable"] <= 2  # search is approximate; a few of so many near twins may be missed


@pytest.mark.slow  # tests/chroma/test_backend.py has such a segment in the default tests
@pytest.mark.timeout(280)
@pytest.mark.parametrize("mended_by", [("sync",), ("verify", "--repair")])
def test_one_command_survives_a_segment_that_crashes_chroma(
    project: Project, mended_by: tuple[str, ...]
) -> None:
    for n in range(4):
        (project.docs / f"{n}.txt").write_text(long_document(900, n))
    records = project.json("sync")["records"]["added"]
    mislead(max((project.folder / "chroma").glob("*/data_level0.bin"), key=lambda file: file.stat().st_size))

    broken = project.json("verify", code=4)["broken"]["docs"]
    assert broken == "Chroma can't read it: it ended by SIGSEGV"
    assert project.call(*mended_by).returncode == 0
    assert project.json("verify")["checked"] == records
    assert project.json("sync")["embedded"]["texts"] == 0
