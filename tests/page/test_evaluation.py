"""The last evaluation of a collection, on a page."""

from pathlib import Path

import httpx

from ingestor.evaluate import stored_report
from tests.page.conftest import evaluation
from tests.page.test_pages import get

PAGE = "/page/evaluation?collection=docs"


def test_recommendation_and_what_was_compared_are_shown(client: httpx.Client) -> None:
    page = get(client, PAGE)
    text = page.text
    assert "It stays." in text
    assert text.count("changepoint") == 2  # what it finds, and what it costs
    assert "chunking: {}" in text
    assert "71.2 % 64 to 78" in text
    for figure in ("240 questions", "1,740", "21,459", "18.0 MB", "0.25", "0.41 s"):
        assert figure in text


def test_overview_links_to_the_evaluation(client: httpx.Client, empty: httpx.Client) -> None:
    assert PAGE in [one.get("href") for one in get(client, "/").all("a")]
    assert "/page/evaluation" not in empty.get("/").text


def test_collection_without_evaluation_names_the_command(client: httpx.Client) -> None:
    assert "ingestor evaluate" in get(client, "/page/evaluation?collection=other", 404).text
    assert get(client, "/page/evaluation", 404)


def test_last_report_of_each_collection_is_stored_and_damaged_files_are_skipped(tmp_path: Path) -> None:
    for text in ("first", "second"):
        stored_report.write(tmp_path, evaluation(text), 5.0)
    stored_report.write(tmp_path, {**evaluation("third"), "collection": "other"}, 6.0)
    for content in (
        "{",
        "[]",
        '{"at": 1, "report": {}}',
        '{"at": 1, "report": null}',
        '{"format": 0, "at": 1, "report": {"collection": "x"}}',
    ):
        (tmp_path / f"evaluation-{len(content)}.json").write_text(content)
    found = stored_report.read(tmp_path)
    assert {name: one.at for name, one in found.items()} == {"docs": 5.0, "other": 6.0}
    assert "second" in found["docs"].report["recommendation"]["text"]
    assert found["docs"].report["questions"]["refused"] == []
