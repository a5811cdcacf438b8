"""Answers of query as people and programs see them; help."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from typer.testing import CliRunner

from ingestor.cli.main import app
from ingestor.cli.output.excerpt import LINES, excerpt, find_matches, show_hits, show_passages
from ingestor.model import Hit, RecordId
from ingestor.search.values import Answer, Copy, Found, Passage, Ranks, as_json

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


PROSE = "The library opens at nine on weekdays, and at ten on the days when the market is held."


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("one two", 40, ["one two"]),
        ("", 40, []),
        ("\x1b[2Ja\u202eb\u2069", 60, ["\\u001b[2Ja\\u202eb\\u2069"]),
        ("what an editor\nwrapped is\njoined", 40, ["what an editor wrapped is joined"]),
        ("one\n\ntwo\n  \nthree", 40, ["one", "two", "three"]),
        ("# Title\nText below.", 40, ["# Title", "Text below."]),
        ("before\n- one\n- two\n  goes on\n1. three", 40, ["before", "- one", "- two goes on", "1. three"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", 40, ["a   b", "─────", "1   2"]),
        (
            "| book       | kept until          |\n| ---------- | ------------------- |\n| atlas  | May |",
            30,
            ["book    kept until", "──────────────────", "atlas   May"],
        ),
        ("| a | b |\n| 1 | 2 \\| 3 |", 40, ["a   b", "1   2 | 3"]),
        (
            "| a |\n|---|\n| 0123456789012345678901234 | 2 |",
            24,
            ["a", "─" * 24, "01234567890123456789   2", "01234"],
        ),
        ("ell | b |\n| 1 | 2 |", 40, ["ell | b |", "| 1 | 2 |"]),
        ("| a | b | c | d | e | f |\n|---|---|---|---|---|---|", 40, None),
        ("run:\n\n    make run\n    make test", 40, ["run:", "    make run", "    make test"]),
        (
            "so:\n```sh\nmake run\nmake test\n```\nand\nso on",
            40,
            ["so:", "```sh", "make run", "make test", "```", "and so on"],
        ),
        ("> said\n> so", 40, ["> said", "> so"]),
        ("year 1990.\nfour", 40, ["year 1990. four"]),
        (
            PROSE,
            30,
            ["The library opens at nine on", "weekdays, and at ten on the", "days when the market is held."],
        ),
        ("水耕栽培" * 6, 20, ["水耕栽培水耕栽培水耕", "栽培水耕栽培水耕栽培", "水耕栽培"]),
        ("red \x1b[31m and \r return", 60, ["red \\u001b[31m and \\u000d return"]),
        ("[bold]kept[/]", 40, ["[bold]kept[/]"]),
    ],
)
def test_excerpt_joins_paragraphs_and_keeps_lines(text: str, width: int, shown: list[str] | None) -> None:
    """Excerpts fit a width. ``shown``: None for a table that is too wide, which stays as it is."""
    assert excerpt(text, width) == (text.splitlines() if shown is None else shown)


def test_excerpt_is_cut_at_a_word() -> None:
    shown = excerpt(f"{PROSE} " * 20, 40)
    assert len(shown) == LINES
    kept = " ".join(shown).removesuffix(" …")
    assert kept != " ".join(shown)
    assert f"{PROSE} " * 20 == f"{kept} " + (f"{PROSE} " * 20)[len(kept) + 1 :]


LONG = f"{PROSE} " * 4


@pytest.mark.parametrize(
    ("text", "question", "shown"),
    [
        (
            f"{LONG}\n\nLoans cost two euros. Ask at the desk.",
            "What does a loan cost?",
            "… Loans cost two euros.",
        ),
        (f"Loans cost two euros. {LONG}", "What does a loan cost?", "Loans cost two euros."),
        (f"{LONG}\n\n- Loans cost two euros.", "What does a loan cost?", "…\n- Loans cost two euros."),
        (f"{LONG}Die Ausleihe kostet zwei Euro.", "Was kosten Ausleihen?", "… Die Ausleihe kostet"),
        (f"{LONG}", "How is the weather?", "The library opens"),
        (
            "| item | cost |\n|---|---|\n" + "| visit | none |\n" * 9 + "| loan | two euros |",
            "Is a loan free?",
            "…\nitem   cost\n────────────────\nloan   two euros",
        ),
    ],
)
def test_excerpt_shows_the_sentence_that_matches(text: str, question: str, shown: str) -> None:
    (match,) = find_matches(question, [text], ["de" if "Euro." in text else "en"])
    assert "\n".join(excerpt(text, 40, match)).startswith(shown)


def test_words_in_every_hit_count_less_than_rare_ones() -> None:
    texts = ["The loan of the book. The fee is two euros.", "The loan of the map. The hours of the day."]
    fee, _ = find_matches("What is the fee of the loan?", texts, ["en", "en"])
    assert texts[0][slice(*fee)] == "The fee is two euros."


@given(st.text(max_size=400), st.integers(20, 100))
def test_excerpt_fits_width_and_escapes_controls(text: str, width: int) -> None:
    shown = excerpt(text, width)
    assert len(shown) <= LINES
    assert all(cell_len(row) <= width for row in shown)
    assert not any(ord(mark) < 32 or 127 <= ord(mark) < 160 for row in shown for mark in row)


HIT = Hit(
    RecordId("d#1"),
    0.5678,
    "Four weeks.",
    {"start_line": 3, "end_line": 5, "heading_path": "Questions > How long\nmay I?"},
)


def answer(*hits: Hit) -> Answer:
    found = tuple(Found(hit.id, hit.score, hit.text, hit.metadata, Ranks(1, None)) for hit in hits)
    return Answer(found, (), "dense", 0.1)


def with_source(source: str) -> Hit:
    return Hit(HIT.id, HIT.score, HIT.text, {**HIT.metadata, "source": source})


def test_hit_shows_score_place_heading_and_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    near, far = with_source(f"{tmp_path}/docs/faq.md"), with_source("https://example.org/faq")
    show_hits(answer(near, far))
    assert capsys.readouterr().out.splitlines() == [
        "0.568  docs/faq.md:3-5",
        "       Questions > How long\\nmay I?",
        "       Four weeks.",
        "",
        "0.568  https://example.org/faq:3-5",
        "       Questions > How long\\nmay I?",
        "       Four weeks.",
        "",
    ]


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [
        ("FAQ > Loans", "## Loans\n\nFour weeks.", "Four weeks."),
        ("FAQ > Loans", "# FAQ\n\n## Loans ##\n\nFour weeks.", "Four weeks."),
        ("Loans", "Loans\n=====\n\nFour weeks.", "Four weeks."),
        ("Loans", "Loans\nFour weeks.", "Four weeks."),
        ("FAQ > Loans", "## Fees\n\nNone.", "## Fees\nNone."),
        ("FAQ > Loans", "## Loans", "## Loans"),
        ("Loans", "Loans are free.", "Loans are free."),
        (None, "# Loans\n\nFour weeks.", "# Loans\nFour weeks."),
    ],
)
def test_text_is_shown_without_headings_printed_above(
    path: str | None, text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hit = Hit(HIT.id, HIT.score, text, {"source": "a.md", "heading_path": path})
    show_hits(answer(hit), question="How long?")
    printed = [row.strip() for row in capsys.readouterr().out.splitlines()[1:] if row.strip()]
    assert printed == [*filter(None, [path]), *shown.splitlines()]
    show_passages(
        Answer((), (Passage(text, "a.md", path, 0, len(text), None, None, (HIT.id,)),), "dense", 0.1), False
    )
    assert capsys.readouterr().out.split("\n")[1:-2] == [
        *filter(None, [path]), *text[text.index(shown.partition("\n")[0]) :].split("\n"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "label", "place"),
    [
        (2, "3", "a.pdf, page 3"),
        (3, "iv", "a.pdf, page 4 (iv)"),
        (0, None, "a.pdf, page 1"),
        (None, "00:01:30", "a.pdf:3-5"),
    ],
)
def test_hit_in_pdf_cites_page_without_lines(
    page: int | None, label: str | None, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hit = with_source("a.pdf")
    metadata = {**hit.metadata, "page": page, "page_label": label}
    show_hits(answer(Hit(hit.id, hit.score, hit.text, metadata)))
    assert capsys.readouterr().out.splitlines()[0] == f"0.568  {place}"


def test_passage_in_pdf_cites_page(capsys: pytest.CaptureFixture[str]) -> None:
    passage = Passage("Four weeks.", "a.pdf", None, 0, 11, (3, 5), 2, (HIT.id,))
    show_passages(Answer((), (passage,), "dense", 0.1))
    assert capsys.readouterr().out.splitlines()[0] == "a.pdf, page 3"


def test_answer_in_json_has_promised_keys() -> None:
    found = json.loads(json.dumps(as_json(answer(HIT))))
    assert set(found) >= {"hits", "passages", "mode", "seconds"}
    assert found["hits"] == [
        {
            "id": "d#1",
            "score": 0.5678,
            "document": "Four weeks.",
            "metadata": dict(HIT.metadata),
            "ranks": {"dense": 1, "lexical": None},
            "reranked": None,
            "also_in": [],
        }
    ]


@pytest.mark.parametrize(
    ("unsearchable", "said"),
    [
        (0, "nothing found"),
        (1, "nothing found; 1 new or changed document cannot be searched yet, see `ingestor status`"),
        (1200, "nothing found; 1,200 new or changed documents cannot be searched yet, see `ingestor status`"),
    ],
)
def test_empty_answer_names_pending_documents(
    unsearchable: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_hits(answer(), unsearchable)
    show_passages(answer(), unsearchable)
    assert capsys.readouterr().out.splitlines() == [said, said]


def test_hits_during_a_first_pass_name_documents_that_are_not_searchable_yet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_hits(answer(HIT), 74)
    said = capsys.readouterr()
    assert said.out.startswith("0.568")
    assert said.err == "74 new or changed documents cannot be searched yet, see `ingestor status`\n"


@pytest.mark.parametrize(
    ("fallback", "told"),
    [
        ("no words are indexed yet", "search by vectors only: no words are indexed yet"),
        ("not reranked: no answer", "not reranked: no answer"),
    ],
)
def test_fallback_of_search_is_reported(capsys: pytest.CaptureFixture[str], fallback: str, told: str) -> None:
    show_hits(Answer((), (), "lexical", 0.0, fallback))
    assert told in capsys.readouterr().err.splitlines()


def test_copies_are_named_below_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    copies = tuple(Copy(RecordId(f"c{at}#{at}"), "c", str(tmp_path / "old" / "faq.md")) for at in range(2))
    found = Found(HIT.id, 0.5, "Four weeks.", {}, Ranks(1, None), also_in=copies)
    passage = Passage("Four weeks.", "/d", None, None, None, None, None, (HIT.id,), also_in=copies)
    said = Answer((found,), (passage,), "dense", 0.1)
    for show in (show_hits, show_passages):
        show(said)
        assert capsys.readouterr().out.split()[-3:] == ["also", "in", "old/faq.md"]


@pytest.mark.parametrize("show", [show_hits, show_passages])
def test_budget_below_best_hit_names_option_to_raise(
    show: Callable[[Answer, int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    show(Answer((), (), "lexical", 0.1, None, 12), 3)
    assert capsys.readouterr().out == "the best hit has 12 tokens: raise --budget\n"
