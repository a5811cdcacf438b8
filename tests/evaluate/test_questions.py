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
def test_refusal_has_a_reason(quotation: str, reason: str) -> None:
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
def test_file_that_is_no_csv_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
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
    assert len({each.text for each in questions}) == len(questions) >= 90
    names, texts = [str(number) for number in range(len(documents))], [each.text for each in documents]
    quoted = [[texts[e.document][e.start : e.end] for e in question.excerpts] for question in questions]
    question_file.write_rows(tmp_path / "q.csv", question_file.to_rows(questions, quoted, names))
    back, refused = question_file.resolve(
        question_file.read_rows(tmp_path / "q.csv"), {name: int(name) for name in names}, texts
    )
    assert (back, refused) == (questions, [])


def test_made_questions_are_about_prose_that_occurs_once() -> None:
    twice = "If the bell rings twice at night, everybody leaves the house by the back door."
    code = "If the code is a sentence of many words, nobody wants to be asked about it here."
    once = "If the crane fails on a Saturday, two members pull the boats out by hand."
    documents = [
        Document(twice),
        Document(f"{code}\n\n{twice}\n\n{once}", (Block("code", 0, len(code)),)),
    ]
    found = make_questions(documents, 10)
    place = (documents[1].text.index(twice), len(documents[1].text))
    assert [(each.text, each.excerpts) for each in found] == [
        ("What happens if the crane fails on a Saturday?", (Excerpt(1, *place),))
    ]


SENTENCES = [
    ("If the north wind is too strong, the crane stays where it is.",
     "What happens if the north wind is too strong?"),
    ("If you lose your key, tell the warden at the gate at once.", "What should I do if I lose my key?"),
    ("When the tide turns early, boats of the club leave first.", "What happens when the tide turns early?"),
    ("To reset the password, open the page of the office and sign in.", "How do I reset the password?"),
    ("In order to measure fair value, we use the prices of the market.",
     "How does the company measure fair value?"),
    ("Use the option in the menu to print a report.", "How do I print a report?"),
    ("You can check the status of a service with the command line.",
     "How can I check the status of a service?"),
    ("The old gate is closed in winter because of the ice on the stairs.",
     "Why is the old gate closed in winter?"),
    ("In fiscal 2019, net sales were $52.3 billion, more than before.",
     "What were net sales in fiscal 2019?"),
    ("Operating income decreased by 12 % in 2018, for which prices are to blame.",
     "By how much did operating income decrease in 2018?"),
    ("There are 12 reading rooms in the library, all on the first floor.",
     "How many reading rooms are there in the library?"),
    ("The harbour has 40 guest berths, and most of them are for small boats.",
     "How many guest berths does the harbour have?"),
    ("The crane was built in 1908, a year after the great storm.", "When was the crane built?"),
    ("Clean the filter of the pump every month, or the water turns green.",
     "How often should I clean the filter of the pump?"),
    ("The spare keys are kept in the drawer of the desk at the door.", "Where are the spare keys kept?"),
    ("A conffile is a file that the maintainer of a package marks as such.", "What is a conffile?"),
    ("The annual fee includes a berth and the use of the crane on Saturdays.",
     "What does the annual fee include?"),
    ("Sales of boats depend on the weather and on the price of fuel.", "What do sales of boats depend on?"),
    ("Registered members can book the crane a week before all others.", "What can registered members book?"),
    ("Registered members can go home a week before all others.", "What can registered members do?"),
    ("The warden closes the gate at dusk because no one dares to climb the tower.",
     "Why does the warden close the gate at dusk?"),
    ("The reading room holds 40 chairs in winter, and fewer in summer.",
     "How many chairs does the reading room hold in winter?"),
    ("Clean the hull with two coats of tar before the frost comes.", "How do I clean the hull?"),
    ("Nobody steps onto the long pier after the second bell has rung.",
     "What happens after the second bell has rung?"),
    ("The pilot comes aboard only if the harbour master has given the word.",
     "What happens if the harbour master has given the word?"),
    ("By the old office at the bridge, nobody ever writes down such things.",
     "How is the old office related to the bridge?"),
    ("By an alias for the old office, nobody ever writes down such long things.",
     "What does an alias have to do with the old office?"),
    ("A member brings the boat, and the harbour master writes the list.", "What does a member bring?"),
    ("The clubs of the town built the pier before the war.", "What did the clubs of the town build?"),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "question"), SENTENCES)
def test_made_question_turns_sentence_around(sentence: str, question: str) -> None:
    words = "net sales, operating income, a clean filter, sales, registered members"  # no names
    made, *_ = make_questions([Document(f"{sentence}\n\n({words})")], 9)
    assert made.text == question


@pytest.mark.parametrize("sentence", [
    "If it is too strong for them, the crane stays where it is.",  # what is too strong?
    "If you stay, go or leave, tell somebody at once, or somebody else.",  # a list, no main clause
    "However much the boats cost, nobody was asked about these things.",
    "Yes, no, maybe, perhaps, whatever, anyway, still, and so on.",
])  # fmt: skip
def test_made_question_without_sense_is_omitted(sentence: str) -> None:
    assert make_questions([Document(sentence)], 9) == []


def test_made_questions_never_hold_all_words_of_their_sentence() -> None:
    for sentence, question in SENTENCES:
        kept = set(re.findall(r"\w+", question.lower()))
        left = [word for word in re.findall(r"\w+", sentence.lower()) if word not in kept]
        assert len(left) >= 3, sentence


def test_made_question_is_the_documents_own_question() -> None:
    text = "# May I bring a dog?\n\nYes, on a lead.\n\n# Fees\n\nThey are due in May."
    document = find("parsers", "markdown").build(NoOptions()).parse(Blob(text.encode(), "a.md"))
    (question,) = make_questions([document], 9)
    assert question.text == "May I bring a dog?"
    assert [document.text[each.start : each.end] for each in question.excerpts] == ["Yes, on a lead."]


@pytest.mark.parametrize(
    ("heading", "question"),
    [
        ("Booking the crane", "How do I book the crane?"),
        ("2.1 How to find your berth", "How do I find my berth?"),
        ("Check the old ropes", "How do I check the old ropes?"),
        ("Opening hours", "What should I know about opening hours?"),
        ("Berths in winter", "What should I know about Berths in winter?"),
        ("Ropes need oil", None),
        ("Fees", None),
        ("Overview of the section", None),
    ],
)
def test_made_question_asks_for_the_text_below_a_heading(heading: str, question: str | None) -> None:
    text = f"## {heading}\n\nSee the crane and the book: opening at nine."
    document = find("parsers", "markdown").build(NoOptions()).parse(Blob(text.encode(), "a.md"))
    made = {each.text: each.excerpts for each in make_questions([document], 9)}
    assert [*made] == [*filter(None, [question])]
    for ((_, start, end),) in ([(e.document, e.start, e.end) for e in places] for places in made.values()):
        assert document.text[start:end] == "See the crane and the book: opening at nine."


def test_made_question_that_two_sentences_answer_is_omitted() -> None:
    one, two = ("If the pump fails, call the warden at once.", "If the pump fails, close the valve by hand.")
    assert make_questions([Document(one), Document(two)], 9) == []


HANDBOOK = """# The harbour

If the north wind is too strong, the crane stays where it is. A boat of nine metres pays forty euros a month.

To book the crane, write your name on the list at the gate.
The crane was built in 1908, after the great storm.
"""


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


def test_sentence_whose_two_phrases_share_their_noun_is_not_asked_for() -> None:
    text = "By the application of a new application, nobody ever writes down such long things."
    assert make_questions([Document(text)], 9) == []


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("Per i soci https://t2d.example.org/a/71f9 conserva ogni nuova ricevuta.",
         "soci conserva ogni nuova ricevuta"),
        ("Wer im Hafen 2026 bleibt, fragt a.b@c.de oder ruft den Hafenmeister an.",
         "Hafen bleibt fragt oder Hafenmeister"),
    ],
)  # fmt: skip
def test_keywords_of_a_question_have_no_addresses_or_digits(sentence: str, question: str) -> None:
    (asked,) = make_questions([Document(sentence, language="xx")], 9)
    assert asked.text == question


def test_made_question_in_another_language_is_the_rarest_words_of_a_sentence() -> None:
    text = (
        "Der Hafen liegt im Norden der Stadt, und die Boote liegen dort im Winter sicher vor dem Sturm. "
        "Die Gebühr der Stadt für ein Boot im Winter beträgt in dem Hafen der Stadt genau vierzig Euro."
    )
    asked = [question.text for question in make_questions([Document(text, language="de")], 9)]
    assert sorted(asked) == ["Gebühr Boot beträgt genau vierzig", "liegt Norden Boote liegen sicher"]


def test_another_seed_makes_other_questions() -> None:
    documents = [Document(HANDBOOK + essay(30))]
    first, again, other = (make_questions(documents, 20, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_excerpt_ends_where_another_part_begins() -> None:
    one, *others = (
        f"If the sentence {n} of the first part is read, nobody says a word about it." for n in range(7)
    )
    heading = "\n\n# The second part\n\n"
    text = one + heading + " ".join(others)
    at = len(one) + 2
    document = Document(text, (Block("heading", at, at + len(heading.strip()), 1, "The second part"),))
    found = {text[e.start : e.end] for question in make_questions([document], 9) for e in question.excerpts}
    assert found
    assert all(each == one or heading.strip() not in each for each in found)
    assert max(each.count("the sentence") for each in found) == 3  # one on either side


def test_sample_holds_of_each_stratum_its_share() -> None:
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
