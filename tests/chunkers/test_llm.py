"""A language model chooses the borders: whatever it says, the text stays the document's own."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.chunkers.llm import PLUGIN, question, read
from ingestor.llm.client import Messages
from ingestor.model import Chunk, Document
from tests.chunkers.laws import cut, essay, laws, searching, texts
from tests.chunkers.scripted import ENDPOINT, Remembering, Say, Scripted, every, pieces, speaking

REFUSAL = "I'm sorry, but I can't help with that."


def split(text: str | Document, say: Say, **more: Any) -> tuple[tuple[Chunk, ...], Scripted]:
    answers = Scripted(say)
    return cut(speaking(PLUGIN, answers), text, **{**ENDPOINT, "window": 200, **more}), answers


TestLlm = laws(speaking(PLUGIN, Scripted(every(2))), {**ENDPOINT, "window": 100})
# The same way as above, and more calls.
TestLlmThatRefuses = laws(
    speaking(PLUGIN, Scripted(lambda messages: REFUSAL)),
    {**ENDPOINT, "window": 100},
    test_text_of_five_megabytes_is_cut=None,
)
# Windows are cut one by one, so the time is linear as above.
TestLlmThatFallsBackToCluster = laws(
    speaking(PLUGIN, Scripted(lambda messages: None)),
    {**ENDPOINT, "window": 100, "fallback": "cluster"},
    test_text_of_five_megabytes_is_cut=None,
)


answers = st.one_of(
    st.text(max_size=40),
    st.lists(st.integers(-2, 12), max_size=6).map(lambda found: f"split_after: {', '.join(map(str, found))}"),
)


@searching
@given(texts, st.lists(answers, min_size=1, max_size=5))
def test_laws_hold_for_any_answer_of_the_model(text: str, said: Sequence[str]) -> None:
    waiting = list(said)
    plugin = speaking(PLUGIN, Scripted(lambda messages: waiting.pop() if waiting else REFUSAL))
    TestLlm().check(text, cut(plugin, text, **TestLlm.options))


def test_answers_of_known_forms_are_parsed() -> None:
    for answer, expected in [
        ("split_after: 3, 5", [3, 5]), ("split_after:7", [7]),
        ("Sure! Here you are:\n\n**split_after:** 1,2 , 7.", [1, 2, 7]), ("SPLIT_AFTER = 4; 6", [4, 6]),
        ("<think>split_after: 9, 1</think>split_after: 2\n", [2]), ('{"split_after": [2, 4]}', [2, 4]),
    ]:  # fmt: skip
        assert read(answer, 7) == expected


def test_chunks_end_where_the_model_answers() -> None:
    text = essay(6)
    chunks, answers = split(text, lambda messages: "split_after: 1, 3", window=10_000)
    (asked,) = answers.asked
    shown = pieces(asked)
    assert [chunk.text.split() for chunk in chunks] == [
        shown[0].split(),
        " ".join(shown[1:3]).split(),
        " ".join(shown[3:]).split(),
    ]
    assert {chunk.extra for chunk in chunks} == {()}


def test_next_window_begins_after_the_last_split() -> None:
    _, answers = split(essay(20), lambda messages: "split_after: 2")
    windows = [pieces(asked) for asked in answers.asked]
    followed = [following[0] == window[2] for window, following in pairwise(windows)]
    assert sum(followed) > 3
    assert all(
        follows or following[0] not in window  # but at an anchor
        for follows, (window, following) in zip(followed, pairwise(windows), strict=True)
    )


def test_few_pieces_are_one_chunk_without_a_request() -> None:
    text = " ".join(essay(1).split()[:100])
    chunks, answers = split(text, every(1))
    assert [chunk.text for chunk in chunks] == [text]
    assert answers.asked == []


def test_bad_answer_is_requested_again_with_the_reason() -> None:
    said = ["split_after: 3, 2", "", "split_after: 2"]
    chunks, answers = split(
        essay(6), lambda messages: said.pop(0) if said else "split_after: 1", window=10_000
    )
    assert len(answers.asked) == 3
    assert [role for role, _ in answers.asked[2]] == ["system", "user", *["assistant", "user"] * 2]
    assert "must ascend" in answers.asked[1][-1][1]
    assert "the answer has no line" in answers.asked[2][-1][1]
    assert answers.asked[2][:4] == answers.asked[1]
    assert len(chunks) == 2
    assert chunks[0].extra == ()


@pytest.mark.parametrize("fallback", ["recursive", "cluster"])
def test_window_without_valid_answer_is_cut_by_fallback(fallback: str) -> None:
    refused: list[str] = []

    def say(messages: Messages) -> str:
        refused.append(messages[1][1])
        return REFUSAL if messages[1][1] == refused[0] else every(2)(messages)

    chunks, answers = split(essay(12), say, fallback=fallback)
    marked = [chunk for chunk in chunks if chunk.extra]
    assert 1 <= len(marked) < len(chunks) - 3
    assert {chunk.extra for chunk in marked} == {
        (("fallback", f"{fallback}: the model gave no valid answer"),)
    }
    assert sum(asked[1][1] == refused[0] for asked in answers.asked) == 3
    assert all(chunk.text.split()[0] in refused[0] for chunk in marked)


def test_question_does_not_depend_on_the_place_of_its_text() -> None:
    text = "One here. Two there."
    assert question(text, [(0, 9), (10, 20)]) == question(f"Before. {text}", [(8, 17), (18, 28)])


LONG = essay(60)


@settings(searching, max_examples=10)
@given(st.integers(0, 59), st.sampled_from(["", "A new sentence came in. ", "# A heading\n\n"]))
def test_edit_requests_again_only_nearby(paragraph: int, new: str) -> None:
    answers = Remembering(every(3))
    plugin = speaking(PLUGIN, answers)
    cut(plugin, LONG, **ENDPOINT, window=200)
    whole = len(answers.asked)
    paragraphs = LONG.split("\n\n")
    paragraphs[paragraph] = new + paragraphs[paragraph][7:]
    cut(plugin, "\n\n".join(paragraphs), **ENDPOINT, window=200)
    assert whole > 25
    assert len(answers.asked) - whole <= 8


def test_unchanged_document_sends_no_request_again() -> None:
    answers = Remembering(lambda messages: every(3)(messages) if len(messages) > 2 else REFUSAL)
    plugin = speaking(PLUGIN, answers)
    first = cut(plugin, essay(30), **ENDPOINT)
    asked = len(answers.asked)
    assert cut(plugin, essay(30), **ENDPOINT) == first
    assert cut(plugin, "# Title\n\n" + essay(30), **ENDPOINT)
    assert asked > 3
    assert len(answers.asked) - asked <= 4
