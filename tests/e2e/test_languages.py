"""Documents in languages that the model does not know: sync, status and init say so."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingestor.app import parts
from ingestor.cli.main import app
from ingestor.config.file import load
from ingestor.embedders.hashing import HashingEmbedder
from ingestor.pipeline.language import ModelLanguages
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.parsers.files import docx

GERMAN = (
    "Der Hafen liegt im Norden der Stadt, und die Boote liegen dort den ganzen Winter sicher vor dem Sturm. "
    "Wer einen Liegeplatz sucht, fragt im Büro nach, das jeden Morgen um sieben geöffnet wird. Nummer {n}."
)


def write(folder: Path) -> None:
    for number in range(4):
        (folder / f"{number}.txt").write_text(GERMAN.format(n=number))


@pytest.mark.usefixtures("embedded")
def test_sync_warns_once_and_status_keeps_the_count_until_the_model_changes(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    english = ModelLanguages("small-en", frozenset({"en"}))
    monkeypatch.setattr(parts, "languages_of", lambda model: english)
    write(project.docs)
    first = ask("sync")
    assert first.code == 0
    assert len(re.findall("3 of 3 documents are in a language that small-en does not know", first.err)) == 1
    (source,) = answered(ask("status", "--json"))["sources"].values()
    assert source["language"].startswith(
        "4 of 4 documents are in a language that small-en does not know (de)"
    )
    assert "4 of 4 documents are in a language" in " ".join(ask("status").out.split())
    (project.docs / "new.txt").write_text(GERMAN.format(n=9))
    assert "a language that small-en" not in ask("sync").err
    monkeypatch.setattr(parts, "languages_of", lambda model: None)
    (project.docs / "newer.txt").write_text(GERMAN.format(n=10))
    assert ask("sync").code == 0
    (source,) = answered(ask("status", "--json"))["sources"].values()
    assert source["language"] is None


@pytest.mark.usefixtures("embedded")
def test_sync_warns_once_of_tokens_that_model_does_not_know(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_unknown(self: HashingEmbedder, texts: Sequence[str]) -> tuple[int, int]:
        words = [word for text in texts for word in text.split()]
        return sum("ä" in word or "ü" in word for word in words), len(words)

    monkeypatch.setattr(HashingEmbedder, "count_unknown", count_unknown, raising=False)
    monkeypatch.setattr(parts, "Vocabulary", HashingEmbedder)  # Python keeps which classes meet a protocol
    for number in range(20):
        text = "Die Bücher und die Gänge müssen über Nacht geprüft werden. " * 3
        (project.docs / f"{number}.txt").write_text(f"{text} {number}")
    first = ask("sync")
    assert len(re.findall("sampled tokens .* are unknown to", " ".join(first.err.split()))) == 1
    (source,) = answered(ask("status", "--json"))["sources"].values()
    assert re.match(r"\d+ of \d[\d,]* sampled tokens \(\d\d %\) are unknown to", source["tokens"])
    assert "sampled tokens" in " ".join(ask("status").out.split())
    (project.docs / "new.txt").write_text("Die Bücher müssen über Nacht geprüft werden. " * 30)
    assert "sampled tokens" not in ask("sync").err
    monkeypatch.undo()
    (project.docs / "newer.txt").write_text("Another text.")
    assert ask("sync").code == 0
    (source,) = answered(ask("status", "--json"))["sources"].values()
    assert source["tokens"] is None


def test_init_proposes_a_multilingual_model_for_folders_in_german(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("deutsch", "english", "berichte"):
        (tmp_path / name).mkdir()
    write(tmp_path / "deutsch")
    for number in range(3):
        report = "Der Hafen liegt im Norden der Stadt, und die Boote fahren jeden Morgen hinaus. " * 3
        body = f"<w:p><w:r><w:t>{report}</w:t></w:r></w:p>"
        (tmp_path / "berichte" / f"{number}.docx").write_bytes(docx(body))
    (tmp_path / "english" / "a.txt").write_text("The harbour is in the north of the town. " * 10)
    made = CliRunner().invoke(app, ["init", str(tmp_path / "deutsch")])
    assert "4 of 4 documents are in a language that all-MiniLM-L6-v2 does not know (de)" in made.stderr
    config = Path("config.yaml").read_text()
    assert load(Path("config.yaml"), {}).embedding.options.model == "all-MiniLM-L6-v2"  # type: ignore[attr-defined]
    assert "# model: intfloat/multilingual-e5-small" in config
    assert "\n  model: all-MiniLM-L6-v2" in config
    Path("config.yaml").unlink()
    assert "3 of 3 documents are" in CliRunner().invoke(app, ["init", str(tmp_path / "berichte")]).stderr
    Path("config.yaml").unlink()
    assert CliRunner().invoke(app, ["init", str(tmp_path / "english")]).stderr == ""
    assert "multilingual" not in Path("config.yaml").read_text()
