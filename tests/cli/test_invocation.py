import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ingestor.cli.usage import command, quote


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a program in a virtual environment there, and nothing on the PATH."""
    for script in (".venv/bin/ingestor", "else where/ingestor"):
        path = tmp_path / script
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


@pytest.mark.parametrize(
    ("called", "within", "on_path", "said"),
    [
        (".venv/bin/ingestor", ".", "/nowhere", ".venv/bin/ingestor sync"),
        ("{place}/.venv/bin/ingestor", ".", "/nowhere", ".venv/bin/ingestor sync"),
        ("{place}/.venv/bin/ingestor", "work", "/nowhere", "{place}/.venv/bin/ingestor sync"),
        ("{place}/.venv/bin/ingestor", "work", "{place}/.venv/bin", "ingestor sync"),
        ("{place}/.venv/bin/ingestor", ".", "{place}/else where", ".venv/bin/ingestor sync"),
        ("{place}/else where/ingestor", ".", "/nowhere", "'else where/ingestor' sync"),
        ("ingestor", "work", "/nowhere", "ingestor sync"),
    ],
)
def test_command_names_the_called_program(
    place: Path, monkeypatch: pytest.MonkeyPatch, called: str, within: str, on_path: str, said: str
) -> None:
    monkeypatch.chdir(within)
    monkeypatch.setenv("PATH", on_path.format(place=place))
    monkeypatch.setattr(sys, "argv", [called.format(place=place)])
    assert command("sync") == said.format(place=place)


def test_command_with_other_config_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ingestor"])
    assert command("plan", Path("my config.yaml")) == "ingestor plan --config 'my config.yaml'"
    assert command("plan", Path("config.yaml")) == "ingestor plan"


@pytest.mark.parametrize("text", ["How long?", "it's", 'say "hi"', "$HOME", "`ls`", "a\\b", "wow!", ""])
def test_quoted_text_survives_a_shell(text: str) -> None:
    said = subprocess.run(
        ["sh", "-c", f"printf %s {quote(text)}"], capture_output=True, text=True, check=True
    )
    assert (said.stdout, shlex.split(quote(text))) == (text, [text])
