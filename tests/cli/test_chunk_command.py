"""``ingestor chunk``, driven as a person would, and as a program would."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from ingestor.cli import chunk_command
from ingestor.cli.look import chunk
from ingestor.cli.main import app
from ingestor.config.models import ConfigError
from ingestor.ports import BadDocument
from ingestor.queries.access import BadRequest
from ingestor.registry import kinds
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits

INGESTOR = Path(sys.executable).with_name("ingestor")
TEXTS = Path(__file__).parents[1] / "chunkers/golden/texts"
CONFIG = {
    "embedding": {"kind": "hashing", "dimensions": 64},
    "chunking": {"strategy": "fixed", "size": 70},
    "sources": [
        {"name": "a", "kind": "folder", "path": "./docs", "exclude": ["*.txt"], "collection": "docs"},
        {
            "name": "b",
            "kind": "folder",
            "path": "./notes",
            "collection": "docs",
            "chunking": {"strategy": "sentence", "max_sentences": 2, "overlap": 1},
        },
    ],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and no config, where one is at work."""
    for folder in ("docs", "notes"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "soil.md").write_bytes((TEXTS / "hydroponics.md").read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_chunk_without_config_prints_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(place.rglob("*"))
    words = ("docs/soil.md", "--strategy", "fixed", "--option", "size=50", "--option", "overlap=10")
    done = CliRunner().invoke(app, ["chunk", *words, "--json", "--compare", "paragraph"])
    both = json.loads(done.stdout)
    assert sorted(place.rglob("*")) == before
    assert [each["strategy"] for each in both] == ["fixed", "paragraph"]
    alone = both[0]
    assert set(alone) == {"strategy", "chunks"}
    chunk(Path("docs/soil.md"), "fixed", ["size=50", "overlap=10"], [], as_json=True)
    assert said(capsys) == alone, "one strategy is no list"
    text = (TEXTS / "hydroponics.md").read_text("utf-8")
    for number, each in enumerate(alone["chunks"]):
        assert set(each) == {"start", "end", "text", "metadata"}
        assert text[each["start"] : each["end"]] == each["text"]
        assert each["metadata"]["chunk_index"] == number
        assert each["metadata"]["token_count"] <= 50
        assert each["metadata"]["title"] == "Growing without soil"
        assert not each["metadata"].keys() & {"document_id", "relationships", "recipe"}
    assert alone["chunks"][1]["start"] < alone["chunks"][0]["end"], "no overlap"


def test_chunks_with_gaps_have_spans(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    chunk(place / "docs/soil.md", strategy="kmeans", option=["clusters=3"], compare=[], as_json=True)
    text = (TEXTS / "hydroponics.md").read_text("utf-8")
    for each in said(capsys)["chunks"]:
        assert "\n".join(text[start:end] for start, end in each["spans"]) == each["text"]


def test_chunk_keeps_limits_of_config_or_names_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Limits] = []

    def isolation(limits: Limits) -> Isolation:
        found.append(limits)
        return Isolation(limits)

    def refuse(*given: object) -> None:
        raise BadDocument("took more than 60 s; raise parsing.seconds, or exclude it")

    monkeypatch.setattr("ingestor.preview.preview.Isolation", isolation)
    monkeypatch.setattr("ingestor.preview.preview.parser", refuse)
    with pytest.raises(
        BadDocument, match=r"raise parsing\.seconds, or exclude it \(in a config, named with --con"
    ):
        chunk(Path("docs/soil.md"))
    config = {**CONFIG, "parsing": {"memory": "300MB", "seconds": 7}}
    (place / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(BadDocument, match=r"or exclude it$"):
        chunk(Path("docs/soil.md"))
    assert found[1] == Limits(300_000_000, 7, processes=1)


@pytest.mark.parametrize(
    ("file", "strategy", "option", "expected"),
    [
        ("docs/soil.md", None, [], ("fixed", 70)),
        ("docs/soil.md", None, ["size=30"], ("fixed", 30)),
        ("docs/soil.md", "fixed", [], ("fixed", 200)),  # named: it begins with its own defaults
        ("notes/soil.md", None, [], ("sentence", None)),
        ("notes/../docs/soil.md", None, [], ("fixed", 70)),
        ("docs/../notes/soil.md", "fixed", ["size=30"], ("fixed", 30)),
        ("elsewhere.md", None, [], ("fixed", 70)),
    ],
)
def test_chunk_of_configured_file_uses_its_source(
    place: Path, capsys: pytest.CaptureFixture[str],
    file: str, strategy: str | None, option: list[str], expected: tuple[str, int | None],
) -> None:  # fmt: skip
    (place / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    (place / "elsewhere.md").write_bytes((TEXTS / "hydroponics.md").read_bytes())
    chunk(Path(file), strategy=strategy, option=option, compare=[], as_json=True)
    found = said(capsys)
    largest = max(each["metadata"]["token_count"] for each in found["chunks"])
    kind, size = expected
    assert found["strategy"] == kind
    assert size is None or size - 8 < largest <= size


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"strategy": "fixd"}, ConfigError, "unknown strategy 'fixd'; did you mean 'fixed'? installed: auto, "),
    ({"option": ["size"]}, BadRequest, "'size' is not KEY=VALUE, as in size=100"),
    ({"option": ["=3"]}, BadRequest, "'=3' is not KEY=VALUE"),
    ({"strategy": "fixed", "option": ["size=big"]}, ConfigError, "size: must be a whole number, not 'big'"),
    ({"strategy": "recursive", "option": ["separators=[a"]}, ConfigError, "separators: not valid YAML: "),
    (
        {"strategy": "recursive", "option": ["context=${NOT_SET_HERE}"]}, ConfigError,
        "environment variable NOT_SET_HERE is not set",
    ),
    ({"compare": ["fixed,nope"]}, ConfigError, "--compare nope: unknown strategy 'nope'"),
    ({"compare": ["fixed:size=0"]}, ConfigError, "--compare fixed: size: must be at least 4, not 0"),
    ({"compare": ["fixed:size"]}, BadRequest, "--compare fixed: 'size' is not KEY=VALUE"),
    ({"config": Path("none.yaml")}, ConfigError, "none.yaml: does not exist"),
    ({"html": Path("docs/soil.md")}, BadRequest, "--html would overwrite the document itself"),
    ({"file": Path("docs/none.md")}, BadRequest, "'docs/none.md' is missing: name a file"),
    ({"file": Path("docs")}, BadRequest, "'docs' is a folder: name a file"),
    ({"file": Path("binary")}, BadDocument, "binary: "),
]  # fmt: skip


@pytest.mark.parametrize(("words", "error", "message"), MISTAKES)
def test_chunk_with_bad_words_names_mistake(
    place: Path, words: dict[str, Any], error: type[Exception], message: str
) -> None:
    (place / "binary").write_bytes(b"\x7fELF\x00\x01\x02\x03" * 9)
    given = {"file": Path("docs/soil.md"), "strategy": None, "option": [], "compare": []} | words
    with pytest.raises(error, match=re.escape(message)):
        chunk(**given)


def test_option_values_are_read_as_yaml(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    levels = (
        "levels=[{name: all, unit: section, max_tokens: 500}, {name: few, unit: sentence, max_tokens: 30}]"
    )
    given = [levels, "max_tokens=null", "neighbours=0.25", "context=headings"]
    chunk(Path("docs/soil.md"), strategy="hierarchical", option=given, compare=[], as_json=True)
    found = [each["metadata"] for each in said(capsys)["chunks"]]
    assert {(each["parent_level"], each["level"]) for each in found} == {("all", "few")}
    assert max(each["token_count"] for each in found) <= 30


def test_chunk_outside_terminal_prints_plain_text(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk(Path("docs/soil.md"), strategy="fixed", option=["size=60"], compare=["paragraph"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "=== fixed ===" in out
    assert "=== paragraph ===" in out
    assert re.search(r"^--- 2 of \d+: \d+ tokens, lines \d+-\d+, Growing without soil", out, re.MULTILINE)
    *_, first, second = out.splitlines()
    assert re.fullmatch(r"fixed +\d+ chunks; tokens: min \d+, mean \d+, max \d+; \d+\.\d\d s", first)
    assert second.startswith("paragraph  ")


def test_chunk_on_terminal_alternates_colours(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Console(
        highlight=False, soft_wrap=True, force_terminal=True, color_system="standard", width=100
    )
    monkeypatch.setattr(chunk_command, "out", terminal)
    chunk(Path("docs/soil.md"), strategy="fixed", option=["size=100", "overlap=20"], compare=[])
    shown = capsys.readouterr().out
    numbered = re.findall(r"\x1b\[2m(\d+) +(\d+) tokens", shown)
    assert [int(number) for number, _ in numbered] == list(range(1, 10))
    assert "\x1b[2mlines 1-15" in shown, "the margin is dim"
    cards = re.split(r"(?=\x1b\[2m\d+ +\d+ tokens)", shown)[1:]
    for number, card in enumerate(cards):
        own, other = ("36", "35") if number % 2 == 0 else ("35", "36")
        assert f"\x1b[{own}m" in card, "no colour"
        assert f"\x1b[{other}m" not in card
    assert "\x1b[2;3;36m" in cards[0], "what is repeated is set apart"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("\u202efdp.exe\u2066 and \u200f\u061c", "\\u202efdp.exe\\u2066 and \\u200f\\u061c"),
        ("red \x1b[31m and\r\nback\x07", "red \\u001b[31m and\nback\\u0007"),
    ],
)
def test_invisible_characters_are_escaped(
    place: Path, capsys: pytest.CaptureFixture[str], content: str, shown: str
) -> None:
    (place / "odd.txt").write_bytes(content.encode())
    for html in (None, place / "page.html"):
        chunk(place / "odd.txt", strategy="fixed", option=[], compare=[], html=html)
    printed = capsys.readouterr().out
    assert shown in printed
    assert not set("\u202e\u2066\u200f\u061c\x1b\x07") & set(printed + (place / "page.html").read_text())


def test_chunk_of_empty_file_reports_no_text(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "empty.md").write_bytes(b"")
    chunk(place / "empty.md", strategy=None, option=[], compare=["changepoint"], html=place / "out.html")
    out = capsys.readouterr().out
    assert out.count("no chunks: the document has no text") == 2
    assert "No chunks: the document has no text." in (place / "out.html").read_text("utf-8")


ASKING = {"llm", "proposition"}  # need an endpoint


@pytest.mark.parametrize("name", ["hydroponics.md", "pump.py", "scripts.txt"])
def test_every_strategy_cuts_every_kind_of_file(
    place: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (place / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    first, *others = strategies = [kind for kind in kinds("chunkers") if kind not in ASKING]
    page = place / "out.html"
    chunk(TEXTS / name, strategy=first, option=[], compare=others, as_json=True, html=page)
    found = said(capsys)
    assert [each["strategy"] for each in found] == strategies
    assert [each["strategy"] for each in found if not each["chunks"]] == []
    assert page.read_text("utf-8").count("<li ") == sum(len(each["chunks"]) for each in found)


def test_list_of_commands_fits_80_columns() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    commands = shown.partition("Commands:")[2]
    assert "chunk " in commands
    assert "..." not in commands
