"""``ingestor try``: a sample is indexed and asked, and nothing of it is left."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from ingestor.cli import trial
from ingestor.cli.main import app
from ingestor.connectors.folder.connector import Folder
from ingestor.model import Item
from ingestor.ports import PartialScan
from tests.waiting import wait

INGESTOR = Path(sys.executable).with_name("ingestor")
NAMES = ("a [1].md", "#b.md", "!c.md", "ü $x.md", "sub/${HOME}.md", "star*.md", "broken.pdf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(NAMES):
        file = tmp_path / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Where does mill {number} stand?\n\nMill {number} stands at the river.\n")
    (tmp_path / "notes/broken.pdf").write_bytes(b"%PDF-1.4 nothing behind it")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "empty").mkdir()
    return tmp_path


def begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [INGESTOR, "try", *words],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in (folder / "tmp").iterdir()]


def test_trial_answers_estimates_and_leaves_nothing(folder: Path) -> None:
    before = set(folder.rglob("*"))
    running = begin(folder, "notes", "--ask", "Where is mill 4?", "--json")
    out, err = running.communicate(timeout=500)
    assert running.returncode == 0, err
    found = json.loads(out)
    assert (found["documents"], found["kinds"]) == (7, {".md": 6, ".pdf": 1})
    assert (found["indexed"], [*found["problems"]]) == (6, ["broken.pdf"])
    assert len(found["questions"]) == 3
    assert all(question.startswith("Where does mill") for question in found["questions"])
    assert "Mill 4 stands" in found["answer"]["hits"][0]["document"]
    assert found["whole"]["documents"] == 7
    assert found["whole"]["records"] == found["chunks"] >= 6
    assert found["whole"]["disk"] > 0
    assert set(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "number",
    [
        *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGINT, signal.SIGTERM)),
        signal.SIGKILL,
    ],
)
def test_trial_that_is_ended_leaves_nothing(folder: Path, number: signal.Signals) -> None:
    running = begin(folder, "notes")
    wait(lambda: any((folder / "tmp").glob(f"{trial.PREFIX}*/state")) or running.poll() is not None)
    running.send_signal(number)
    running.communicate(timeout=500)
    assert running.returncode != 0
    wait(lambda: not left(folder))


@pytest.mark.slow
def test_trial_stops_at_its_budget_and_estimates_the_rest(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "notes/broken.pdf").unlink()
    monkeypatch.setattr(trial, "FIRST", 2)
    monkeypatch.setattr(trial, "BUDGET", -1000.0)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    trial.try_folder(folder / "notes", "Where?", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["indexed"] < found["documents"] == found["whole"]["documents"] == 6
    assert found["whole"]["records"] == 6
    assert left(folder) == []


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["none"], "is no folder", 2),
        (["notes", "--ask", " "], "--ask needs a question", 2),
        (["empty"], "has no documents", 4),
    ],
)
def test_trial_without_documents_names_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str, code: int
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    ended = CliRunner().invoke(app, ["try", *words])
    assert (ended.exit_code, type(ended.exception)) == (code, SystemExit)
    assert said in ended.stderr
    assert left(folder) == []


def test_trial_without_text_names_unread_kinds_and_folders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "empty/a.bin").write_bytes(bytes(range(256)))
    listed = Folder.scan

    def scan(self: Folder) -> Iterator[Item]:
        yield from listed(self)
        raise PartialScan("could not list closed", ["closed"])

    monkeypatch.setattr(Folder, "scan", scan)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    ended = CliRunner().invoke(app, ["try", "empty"])
    assert ended.exit_code == 4
    assert "closed/: could not be listed; make it readable; 1 .bin: no parser reads them" in ended.stderr


def test_progress_adds_up_over_both_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(progress: Callable[[object], None], **options: object) -> None:
        for texts in (3, 5, 0, 2):  # the second work of a sync begins at zero again
            progress(SimpleNamespace(texts=texts, records=0))

    monkeypatch.setattr(trial, "_project", lambda *of: SimpleNamespace(sync=sync))
    notes, items = list[str](), [Item(str(number), "1", "/x") for number in range(trial.FIRST + 1)]
    trial._index(Path("folder"), Path("place"), items, math.inf, notes.append)
    counts = [int(words.split()[0]) for words in notes]
    assert counts == sorted(counts)
    assert notes[-1] == "14 texts embedded"
