"""Questions: found back in the text, made of it, kept in a file; and which documents they are asked about."""

import re
from pathlib import Path

import pytest

from ingestor.evaluate import question_file
from ingestor.evaluate.made_questions import make_questions
from ingestor.evaluate.question_file import Searchable, locate_excerpt
from ingestor.evaluate.sample import sort_by_digest
from ingestor.evaluate.scores import Excerpt
from ingestor.model import Blob, Block, Document, Item, SourceName
from ingestor.queries.access import BadRequest
from ingestor.registry import Options as NoOptions
from ingestor.registry import find
from tests.chunkers.laws import essay
from tests.e2e.test_looking import SAMPLES

TEXT = "The “blue”\n  door — opens at 7:30, every day.\nThe ﬁre door stays shut.\n"


@pytest.mark.parametrize(
    ("quotation", "found"),
    [
        ("door — opens at 7:30", "door — opens at 7:30"),
        ('The "blue" door - opens at 7.30', "The “blue”\n  door — opens at 7:30"),
        ("THE FIRE DOOR STAYS SHUT", "The ﬁre door stays shut"),
        ("  every day.  ", "every day."),
        ("blue,", None),  # too short to be found but exactly
        ("The red door opens at 7:30", None),
        ("", None),
        ("   ", None),
    ],
)
def test_excerpts_are_found_exactly_or_whatever_their_spaces_and_punctuation(
    quotation: str, found: str | None
) -> None:
    place = Searchable(TEXT).find(quotation)
    assert (TEXT[slice(*place)] if place else None) == found


@pytest.mark.parametrize(
    ("quotation", "reason"),
    [
        ("stays shut", "is in 2 documents: name one"),
        ("nowhere at all", "is not in the text"),
        (" ", "is empty"),
    ],
)
def test_a_refusal_says_why(quotation: str, reason: str) -> None:
    found = locate_excerpt(quotation, [(0, Searchable(TEXT)), (1, Searchable(TEXT))])
    assert isinstance(found, str)
    assert reason in found


def test_rows_with_one_question_are_its_excerpts_and_one_bad_row_refuses_it(tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    file.write_text(
        "question,excerpt,document\n"
        "When?,opens at 7:30,a.txt\n"
        "When?,every day,a.txt\n"
        "Which?,stays shut,a.txt\n"
        "Which?,is not here,a.txt\n"
        "Who?,stays shut,b.txt\n",
        "utf-8",
    )
    questions, refused = question_file.resolve(question_file.read_rows(file), {"a.txt": 0}, [TEXT])
    assert [(each.text, [TEXT[e.start : e.end] for e in each.excerpts]) for each in questions] == [
        ("When?", ["opens at 7:30", "every day"])
    ]
    assert [(each.line, each.reason) for each in refused] == [
        (5, "the excerpt is not in the text that was read"),
        (6, "document 'b.txt' is not among those that were read"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"text\nx\n", "no column 'question'"), (b"\xff\xfe\x00", "not a CSV file"), (None, "cannot be read")],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "questions.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadRequest, match=message):
        question_file.read_rows(file)


def sample_documents() -> list[Document]:
    return [Document(path.read_text("utf-8")) for path in sorted(SAMPLES.rglob("*.md"))]


def test_made_questions_are_the_same_every_time_and_come_back_from_their_file(tmp_path: Path) -> None:
    documents = sample_documents()
    questions = make_questions(documents, 100)
    assert questions == make_questions(documents, 100)
    assert len({each.text for each in questions}) == 100
    names, texts = [str(number) for number in range(len(documents))], [each.text for each in documents]
    quoted = [[texts[e.document][e.start : e.end] for e in question.excerpts] for question in questions]
    question_file.write_rows(tmp_path / "q.csv", question_file.to_rows(questions, quoted, names))
    back, refused = question_file.resolve(
        question_file.read_rows(tmp_path / "q.csv"), {name: int(name) for name in names}, texts
    )
    assert (back, refused) == (questions, [])


def test_made_questions_ask_about_what_stands_once_and_is_prose() -> None:
    twice = "This sentence stands in two documents and so it could be found in either of them."
    code = "for each in range(10): print(each, each, each, each, each, each, each, each)"
    once = "Only this sentence, which has enough words in it, can be asked about without doubt."
    documents = [
        Document(twice),
        Document(f"{code}\n\n{twice}\n\n{once}", (Block("code", 0, len(code)),)),
    ]
    end = len(documents[1].text)
    found = make_questions(documents, 10)
    assert [each.excerpts for each in found] == [(Excerpt(1, documents[1].text.index(twice), end),)]
    opening, about = found[0].text.split(" about ")
    assert opening in ("What is said", "What is known", "What should I know")
    assert set(re.findall(r"\w+", about)) - {"and"} <= set(re.findall(r"\w+", once))
    assert about.endswith("?")


HANDBOOK = """# The harbour

## Fees

A boat of nine metres pays forty euros a month, and a visitor pays by the night at the office.

The crane lifts boats for 12 members every Saturday, unless the north wind is too strong.
"""


def test_made_question_names_the_heading_or_what_a_figure_counts() -> None:
    document = find("parsers", "markdown").build(NoOptions()).parse(Blob(HANDBOOK.encode(), "a.md"))
    asked = {question.text for seed in range(12) for question in make_questions([document], 9, seed)}
    assert any(text.startswith("What does “Fees” say about ") for text in asked)
    figures = {text for text in asked if text.startswith("How many members are there, with regard to ")}
    assert figures
    assert not any(character.isdigit() for text in figures for character in text)
    assert all(text.endswith("?") and "  " not in text for text in asked)


def test_made_question_asks_for_the_term_of_a_definition() -> None:
    items = "<dt>--force</dt><dd>Overwrites a file that is there already.</dd><dt>Berth</dt><dd>A place.</dd>"
    page = f"<dl>{items}</dl>"
    document = (
        find("parsers", "html").build(find("parsers", "html").options()).parse(Blob(page.encode(), "a.html"))
    )
    found = {question.text: question.excerpts for question in make_questions([document], 9)}
    assert {"What does --force do?", "What is Berth?"} <= set(found)
    (excerpt,) = found["What does --force do?"]
    assert document.text[excerpt.start : excerpt.end].split() == (
        ["--force", "Overwrites", "a", "file", "that", "is", "there", "already."]
    )


def test_made_question_in_another_language_is_half_of_the_words() -> None:
    text = "Der Hafen liegt im Norden der Stadt, und die Boote liegen dort im Winter sicher vor dem Sturm."
    (question,) = make_questions([Document(text, language="de")], 9)
    assert set(question.text.split()) <= set(re.findall(r"\w+", text))


def test_another_seed_makes_other_questions() -> None:
    documents = [Document(HANDBOOK + essay(30))]
    first, again, other = (make_questions(documents, 20, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_an_excerpt_ends_where_another_part_begins() -> None:
    words = "has so many words that it can be asked about by half of them"
    one, *others = (f"Sentence {n} of the first part {words}." for n in range(7))
    heading = "\n\n# The second part\n\n"
    text = one + heading + " ".join(others)
    at = len(one) + 2
    document = Document(text, (Block("heading", at, at + len(heading.strip()), 1, "The second part"),))
    found = {text[e.start : e.end] for question in make_questions([document], 9) for e in question.excerpts}
    assert found
    assert all(each == one or heading.strip() not in each for each in found)
    assert max(each.count("Sentence") for each in found) == 4  # one on either side of two


def test_a_sample_holds_of_each_stratum_its_share() -> None:
    names = [f"{number}.md" for number in range(80)] + [f"{number}.txt" for number in range(19)] + ["a.pdf"]
    listed = [(SourceName("docs"), Item(name, "1", name)) for name in names]
    order = [item.key for _, item in sort_by_digest(listed)]
    assert sorted(order) == sorted(item.key for _, item in sort_by_digest(listed, 1))
    assert order != [item.key for _, item in sort_by_digest(listed, 1)]
    assert sorted(order) == sorted(names)
    for count in (3, 10, 50):
        taken = order[:count]
        assert "a.pdf" in taken
        assert abs(sum(name.endswith(".md") for name in taken) - 0.8 * count) <= 2
