import pytest

from ingestor.queries.reading import rank


@pytest.mark.parametrize(
    ("titles", "question"),
    [
        ([], None),
        (["", "7."], "7."),
        (["x" * 61], None),
        (["Salt", "Bread, in numbers"], "Bread, in numbers"),
        (["A rather long heading of a section", "3. Is it open?"], "Is it open?"),
        (["How long?", "How long may I keep a book?", "2.1 Why?"], "How long may I keep a book?"),
        (["b?", "a?"], "a?"),
        (["It came without bits. Is that so?", "Is it open?"], "Is it open?"),
    ],
)
def test_suggested_question_is_best_heading(titles: list[str], question: str | None) -> None:
    assert next(iter(rank(titles)), None) == question
