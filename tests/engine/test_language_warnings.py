"""Warnings about languages and tokens that a source's model does not know."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ingestor.engine.notes import LanguageWarnings
from ingestor.pipeline.language import ModelLanguages
from ingestor.state.editions import Notices
from ingestor.state.journal import Journal

ENGLISH = ModelLanguages("small-en", frozenset({"en"}))


def test_language_warnings_count_each_document_once_by_source_and_model(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite3")
    warnings, notices = LanguageWarnings(journal), Notices(journal)

    def add(source: str, row: int, *, model: str = "old", unknown: int = 0) -> None:
        tools = SimpleNamespace(
            languages=ENGLISH, vocabulary=SimpleNamespace(model="small-en"), embedder_recipe=model
        )
        record = SimpleNamespace(metadata={"language": "de"})
        prepared = SimpleNamespace(records=(record,), tokens=(unknown, 100))
        entry = SimpleNamespace(source=source, row=row)
        warnings.add(cast(Any, entry), cast(Any, prepared), cast(Any, SimpleNamespace(tools=tools)))

    for row in (1, 2, 1, 2, 2):
        add("a", row)
    add("a", 3, model="new")
    add("b", 3)
    assert not notices.all("language"), "three documents of one source and model are needed"
    add("a", 3)
    assert [*notices.all("language")] == ["a"]
    assert str(notices.get("language", "a")).startswith("3 of 3 documents are in a language")
    for _ in range(3):
        add("c", 1, unknown=40)
    assert notices.get("tokens", "c") is None
    add("c", 2, unknown=40)
    assert str(notices.get("tokens", "c")).startswith(
        "80 of 200 sampled tokens (40 %) are unknown to small-en"
    )
    journal.close()
