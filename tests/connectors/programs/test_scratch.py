import subprocess
import sys
from pathlib import Path

import pytest

from ingestor.connectors.programs import loading as spool
from ingestor.connectors.programs.loading import Scratch

MADE_AND_KILLED = """
import os, signal
from ingestor.connectors.programs.loading import Scratch
scratch = Scratch()
(scratch.path / "secret").write_text("s3cret")
print(scratch.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _in_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def killed() -> Path:
    done = subprocess.run([sys.executable, "-c", MADE_AND_KILLED], capture_output=True, text=True)
    return Path(done.stdout.strip())


def test_scratch_of_a_killed_program_is_removed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    left, mine = killed(), Scratch()
    assert (left / "secret").exists(), "too young: it might be one that is just being made"
    monkeypatch.setattr(spool, "_YOUNG", -1.0)
    other = Scratch()
    assert not left.exists()
    assert mine.path.is_dir()
    assert other.path != mine.path
    assert mine.path.stat().st_mode & 0o777 == 0o700


def test_folder_goes_when_it_is_told_to_or_nobody_has_it_any_more() -> None:
    one, two = Scratch(), Scratch()
    paths = one.path, two.path
    (one.path / "inside").mkdir()
    one.remove()
    del two
    assert [path.exists() for path in paths] == [False, False]


def test_foreign_folders_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_YOUNG", -1.0)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"{spool._PREFIX}link").symlink_to(elsewhere)
    (tmp_path / "ingestor-other").mkdir()
    assert Scratch().path.name.startswith(spool._PREFIX)
    assert elsewhere.is_dir()
    assert (tmp_path / "ingestor-other").is_dir()
