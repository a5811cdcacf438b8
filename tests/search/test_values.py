import json

import pytest

from ingestor.model import RecordId
from ingestor.search.values import (
    Answer,
    BadQuestion,
    Found,
    Passage,
    Question,
    Ranks,
    as_json,
    below_header,
    heading_of,
    link_of,
    place_of,
    question_of,
)


def test_question_is_read() -> None:
    value = {
        "query": "words",
        "collection": "docs",
        "n": 3,
        "mode": "dense",
        "where": {"page": 1},
        "expand": "section",
    }
    assert question_of(value) == Question("words", "docs", 3, None, "dense", {"page": 1}, "section")
    assert question_of({"query": "words", "budget_tokens": 400}) == Question("words", budget_tokens=400)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "JSON object"),
        ({}, "query"),
        ({"query": " "}, "query"),
        ({"query": 3}, "query"),
        ({"query": "\ud800"}, "Unicode"),
        ({"query": "x" * 30_000}, "characters"),
        ({"query": "x", "n": 0}, "n must"),
        ({"query": "x", "n": True}, "n must"),
        ({"query": "x", "n": 10**9}, "n must"),
        ({"query": "x", "budget_tokens": -1}, "budget_tokens"),
        ({"query": "x", "mode": "magic"}, "hybrid, dense, lexical"),
        ({"query": "x", "expand": ["none"]}, "neighbours"),
        ({"query": "x", "where": "page"}, "where"),
        ({"query": "x", "collection": None}, "collection"),
        ({"query": "x", "colection": "docs"}, "colection"),
    ],
)  # fmt: skip
def test_bad_question_is_explained(value: object, why: str) -> None:
    with pytest.raises(BadQuestion, match=why):
        question_of(value)


def test_answer_is_json_of_a_stable_form() -> None:
    hit = Found("d#0", 0.5, "text", {"page": 1, "headings": ["A"]}, Ranks(1, None))  # type: ignore[arg-type]
    passage = Passage(
        "text", "/d", "A > B", 0, 4, (1, 1), 0, (RecordId("d#0"),), "d", None, "d.md", None, None, 0.5, None,
        RecordId("d#1"),
    )  # fmt: skip
    found = json.loads(json.dumps(as_json(Answer((hit,), (passage,), "hybrid", 0.25))))
    assert found == {
        "hits": [{
            "id": "d#0", "score": 0.5, "document": "text", "metadata": {"page": 1, "headings": ["A"]},
            "ranks": {"dense": 1, "lexical": None}, "reranked": None, "also_in": [],
        }],
        "passages": [{
            "text": "text", "source": "/d", "heading_path": "A > B", "start": 0, "end": 4, "lines": [1, 1],
            "page": 0, "ids": ["d#0"], "document_id": "d", "title": None, "path": "d.md", "link": None,
            "author": None, "score": 0.5, "previous": None, "next": "d#1", "also_in": [],
            "table_header": None,
        }],
        "mode": "hybrid", "fallback": None, "seconds": 0.25, "needed_tokens": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "heading"),
    [
        ({}, None),
        (
            {"heading_path": "Notes > Caution", "title": "Pumps", "file_name": "a.html"},
            "Pumps > Notes > Caution",
        ),
        ({"heading_path": "FAQ > Loans", "title": "FAQ", "file_name": "a.md"}, "FAQ > Loans"),
        ({"heading_path": "faq > Loans", "title": "FAQ ", "file_name": "a.md"}, "faq > Loans"),
        ({"heading_path": "Loans", "title": "rules", "file_name": "rules.md"}, "Loans"),
        ({"title": "rules", "file_name": "rules.md"}, None),
        ({"title": "Your\nloan", "file_name": "1795582549.M958622P"}, "Your loan"),
    ],
)
def test_title_comes_first_if_the_path_lacks_it(metadata: dict[str, str], heading: str | None) -> None:
    assert heading_of(metadata) == heading


@pytest.mark.parametrize(
    ("metadata", "place"),
    [
        ({"page": 3, "page_label": "iv", "start_line": 2}, "page 4 (iv)"),
        ({"start_line": 2, "end_line": 5, "chunk_index": 1, "chunk_count": 9}, "lines 2-5"),
        ({"chunk_index": 1, "chunk_count": 9}, "chunk 2 of 9"),
        ({"chunk_index": 0, "chunk_count": 1}, ""),
        ({}, ""),
    ],
)
def test_place_is_page_else_lines_else_chunk(metadata: dict[str, int], place: str) -> None:
    assert place_of(metadata) == place


@pytest.mark.parametrize(
    ("source", "text", "link"),
    [
        (
            "https://a.org/x",
            "## Fees\n\n**A loan** costs two euros a week.",
            "https://a.org/x#:~:text=costs%20two%20euros%20a%20week",
        ),
        ("https://a.org/x", "| 1 | 2 |", "https://a.org/x"),
        ("https://a.org/x#part", "A loan costs two euros.", "https://a.org/x#part"),
        ("/srv/x.html", "A loan costs two euros.", None),
    ],
)
def test_link_of_a_web_page_scrolls_to_the_text(source: str, text: str, link: str | None) -> None:
    assert link_of({"source": source}, text) == link


@pytest.mark.parametrize(
    ("text", "header", "shown"),
    [
        ("plain", None, "plain"),
        ("| fax | 1 |", "| What | Price |\n|---|---|", "| What | Price |\n|---|---|\n| fax | 1 |"),
        ("| fax | 1 |", "| What | Price |", "| What | Price |\n|---|---|\n| fax | 1 |"),
        (
            "ax | 1 |\n| scan | 2 |",
            "| What | Price |",
            "ax | 1 |\n\n| What | Price |\n|---|---|\n| scan | 2 |",
        ),
        ("fax,1", "what,price", "what,price\nfax,1"),
    ],
)
def test_text_inside_a_table_is_shown_below_its_header(text: str, header: str | None, shown: str) -> None:
    assert below_header(text, header) == shown
