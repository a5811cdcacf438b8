"""A language model rewrites the text: what is searched is the model's, where it is from is the document's."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.chunkers.llm import read
from ingestor.chunkers.proposition import PLUGIN, Placement, placements_of, statements_of
from ingestor.llm.client import Messages
from ingestor.model import Chunk, Document
from ingestor.text.sentences import sentences
from tests.chunkers.laws import TOKENS, Options, cut, essay, odd_texts, searching, texts
from tests.chunkers.scripted import ENDPOINT, Remembering, Say, Scripted, speaking

REFUSAL = "I'm sorry, but I can't help with that."
SMALL: Options = {**ENDPOINT, "passage": 60}


def is_placing(messages: Messages) -> bool:
    return messages[0][1].startswith("Put each numbered statement")


def rewritten(messages: Messages) -> str:
    """Every sentence, made recognisable."""
    passage = messages[1][1]
    return json.dumps([f"Fact: {' '.join(passage[a:b].split())}" for a, b in sentences(passage)])


def placed(messages: Messages) -> str:
    """By the first word that says what the statement is about; a chunk's title is that word."""
    shown = messages[1][1]
    known = dict(re.findall(r"^Chunk (\d+): (\w+)\. ", shown, re.M))
    found: dict[str, list[int]] = {}
    for number, subject in re.findall(
        r"^Statement (\d+): .*?(basil|nitrate|pump|light|river|wire|committee|$)", shown, re.M
    ):
        found.setdefault(subject or "other", []).append(int(number))
    chunk_of = {title: int(number) for number, title in known.items()}
    return json.dumps(
        [
            {"chunk": chunk_of[subject], "statements": numbers}
            if subject in chunk_of
            else {"chunk": "new", "title": subject, "summary": f"About {subject}.", "statements": numbers}
            for subject, numbers in found.items()
        ]
    )


def able(messages: Messages) -> str:
    return placed(messages) if is_placing(messages) else rewritten(messages)


def propose(text: str | Document, say: Say, **more: Any) -> tuple[tuple[Chunk, ...], Scripted]:
    answers = Scripted(say)
    return cut(speaking(PLUGIN, answers), text, **{**SMALL, **more}), answers


def check(text: str, chunks: Sequence[Chunk], most: int) -> None:
    """What holds whatever the model says."""
    covered: set[int] = set()
    for chunk in chunks:
        spans = chunk.spans or ((chunk.start, chunk.end),)
        assert spans == tuple(sorted(set(spans)))
        assert (chunk.start, chunk.end) == (spans[0][0], spans[-1][1])
        assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
        assert chunk.text == chunk.text.strip() != ""
        assert TOKENS.count(chunk.text) <= most
        chunk.text.encode()
        if chunk.rewritten:
            assert dict(chunk.extra)["passage"] == "\n\n".join(text[start:end] for start, end in spans)
        else:
            assert chunk.text == text[chunk.start : chunk.end]
            assert "fallback" in dict(chunk.extra)
        covered |= {at for start, end in spans for at in range(start, end)}
    assert not "".join(character for at, character in enumerate(text) if at not in covered).strip()
    assert all(first.start <= second.start for first, second in pairwise(chunks))


@settings(searching, max_examples=15)
@given(texts | odd_texts, st.booleans())
def test_every_passage_is_in_some_chunk(text: str, group: bool) -> None:
    chunks, _ = propose(text, able, group=group, max_tokens=40)
    check(text, chunks, 40)
    assert bool(chunks) == bool(text.strip())


answers = st.one_of(
    st.text(max_size=40),
    st.lists(st.text(max_size=90), max_size=4).map(json.dumps),
    st.lists(
        st.fixed_dictionaries(
            {
                "chunk": st.sampled_from([1, 2, 9, "new", None]),
                "statements": st.lists(st.integers(0, 3), max_size=3),
            },
            optional={"title": st.text(max_size=5), "summary": st.none() | st.text(max_size=5)},
        ),
        max_size=3,
    ).map(json.dumps),
)


@searching
@given(texts, st.lists(answers, max_size=8))
def test_laws_hold_for_any_answer_of_the_model(text: str, said: Sequence[str]) -> None:
    waiting = list(said)
    chunks, _ = propose(text, lambda messages: waiting.pop() if waiting else able(messages), max_tokens=40)
    check(text, chunks, 40)


def test_statements_about_one_subject_share_a_chunk_with_all_their_passages() -> None:
    text = essay(4)
    chunks, answers = propose(text, able)
    topics = [dict(chunk.extra)["topic"] for chunk in chunks]
    assert len(set(topics)) == len(topics) >= 4
    several = [chunk for chunk in chunks if len(chunk.spans) > 1]
    assert several
    for chunk in several:
        assert chunk.rewritten
        assert chunk.text.count("Fact: ") >= len(chunk.spans)
        assert all(line.startswith("Fact: ") for line in chunk.text.splitlines())
    assert sum(map(is_placing, answers.asked)) == len(answers.asked) / 2


def test_ungrouped_each_statement_is_a_chunk_and_its_passage_is_at_hand() -> None:
    text = essay(4)
    chunks, answers = propose(text, able, group=False)
    assert len(chunks) == len(sentences(text))
    assert not any(map(is_placing, answers.asked))
    for chunk in chunks:
        assert chunk.text.removeprefix("Fact: ") in " ".join(text[chunk.start : chunk.end].split())
        assert chunk.spans == ()


def test_small_chunks_are_joined_and_large_ones_cut_between_statements() -> None:
    text = essay(6)
    joined, _ = propose(text, able, group=False, min_tokens=60, max_tokens=120)
    sizes = TOKENS.counts([chunk.text for chunk in joined])
    assert all(60 <= size <= 120 for size in sizes[:-1])
    cut_up, _ = propose(text, able, max_tokens=30)
    assert all(line.startswith("Fact: ") for chunk in cut_up for line in chunk.text.splitlines())
    assert max(TOKENS.counts([chunk.text for chunk in cut_up])) <= 30


def test_passage_not_rewritten_stays_with_fallback_note() -> None:
    chunks, answers = propose(essay(2), lambda messages: REFUSAL)
    assert {chunk.extra for chunk in chunks} == {
        (("fallback", "the passage: the model gave no valid statements"),)
    }
    assert len(answers.asked) == 3 * len(chunks)
    assert "the answer is not a JSON list" in answers.asked[1][-1][1]


def test_statements_that_are_not_placed_stay_with_their_passage() -> None:
    chunks, answers = propose(
        essay(2), lambda messages: REFUSAL if is_placing(messages) else rewritten(messages)
    )
    assert {dict(chunk.extra)["fallback"] for chunk in chunks} == {
        "its passage: the model did not say where the statements belong"
    }
    assert all(chunk.rewritten and chunk.spans == () for chunk in chunks)
    assert len(answers.asked) == 4 * len(chunks)


@settings(searching, max_examples=8)
@given(st.integers(0, 59))
def test_edit_requests_again_only_nearby(paragraph: int) -> None:
    answers, before = Remembering(able), essay(60)
    cut(speaking(PLUGIN, answers), before, **SMALL)
    whole = len(answers.asked)
    placing = sum(map(is_placing, answers.asked))
    paragraphs = before.split("\n\n")
    paragraphs[paragraph] = "A new sentence came in. " + paragraphs[paragraph]
    cut(speaking(PLUGIN, answers), "\n\n".join(paragraphs), **SMALL)
    again = list(map(is_placing, answers.asked[whole:]))
    assert min(placing, whole - placing) > 30
    assert again.count(False) <= 4
    assert again.count(True) <= placing / 2


def test_unchanged_document_sends_no_request_again() -> None:
    answers = Remembering(lambda messages: able(messages) if len(messages) > 2 else REFUSAL)
    plugin = speaking(PLUGIN, answers)
    first = cut(plugin, essay(5), **SMALL)
    asked = len(answers.asked)
    assert cut(plugin, essay(5), **SMALL) == first
    assert len(answers.asked) == asked


@pytest.mark.parametrize("text", ["", " \n\n"])
def test_empty_text_sends_no_request(text: str) -> None:
    chunks, answers = propose(text, able)
    assert chunks == ()
    assert answers.asked == []


def test_statements_of_known_forms_are_parsed() -> None:
    for answer, expected in [
        ('["One.", "Two."]', ["One.", "Two."]), ('Here:\n```json\n["One."]\n```', ["One."]),
        ('<think>["no"]</think>["One."]', ["One."]), ('["  One\\n two. ", "", "One two."]', ["One two."]),
        ('["\\ud800One\\u0000."]', ["One."]), ('["水は。"]', ["水は。"]),
    ]:  # fmt: skip
        assert statements_of(answer) == expected


def test_placements_are_parsed() -> None:
    answer = '[{"chunk": 2, "statements": [3, 1]}, {"chunk": "new", "title": " A  b", "statements": [2]}]'
    assert placements_of(answer, 3, 2) == [Placement(2, (3, 1)), Placement(None, (2,), "A b", "")]


READERS: dict[str, Callable[[str], object]] = {
    "borders": lambda answer: read(answer, 7),
    "statements": statements_of,
    "placements": lambda answer: placements_of(answer, 2, 2),
}


def test_invalid_answers_of_a_model_are_refused() -> None:
    """Each row of ``answers.tsv`` has the kind of answer, the answer and words of the reason."""
    path = Path(__file__).parent / "answers.tsv"
    for kind, answer, words in (line.split("\t") for line in path.read_text("utf-8").splitlines()):
        with pytest.raises(ValueError, match=words):
            READERS[kind](json.loads(answer))
    for kind, answer in (("borders", "split_after: " + "9" * 5000), ("statements", "[" * 100_000)):
        with pytest.raises(ValueError, match=r"must be from 1 to 7|is not a JSON list"):
            READERS[kind](answer)
