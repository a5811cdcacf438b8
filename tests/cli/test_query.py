"""`ingestor query` over several collections, without a daemon; and `ingestor help`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingestor.cli.main import app

pytestmark = pytest.mark.usefixtures("forked_chroma")
CONFIG = """
state: ./state
chroma: {path: ./chroma, embedded: true}
embedding: {kind: hashing, dimensions: 64}
sources:
  - {name: docs, kind: folder, path: ./docs, collection: docs}
  - {name: mail, kind: folder, path: ./mail, collection: mail}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    for name in ("docs", "mail"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# Herons\n\nHerons of the {name} stand in water.\n")
    assert CliRunner().invoke(app, ["sync", "-q"]).exit_code == 0
    return tmp_path


def test_query_of_several_collections_merges_hits(here: Path) -> None:
    def found(*words: str) -> set[str]:
        said = CliRunner().invoke(app, ["query", "herons", *words, "--json"])
        assert said.exit_code == 0, said.output
        return {hit["collection"] for hit in json.loads(said.stdout)["hits"]}

    assert found("--collection", "*") == {"docs", "mail"}
    assert found("--collection", "docs", "--collection", "mail") == {"docs", "mail"}
    assert found("--collection", "mail") == {"mail"}
    wrong = CliRunner().invoke(app, ["query", "herons", "--collection", "docs", "--collection", "nil"])
    assert str(wrong.exception) == "there is no collection 'nil'; known: docs, mail"


def test_help_command_shows_options_of_a_command() -> None:
    every = CliRunner().invoke(app, ["help"])
    assert every.exit_code == 0
    assert "rollback" in every.output
    one = CliRunner().invoke(app, ["help", "query"])
    assert one.exit_code == 0
    assert "--collection" in one.output
    assert CliRunner().invoke(app, ["help", "nothing"]).exit_code == 2
