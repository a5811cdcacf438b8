"""Questions by a language model: asked for, checked, refused with reasons, and filtered."""

import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ingestor.evaluate.asking import (
    LONGEST,
    QuestionRequests,
    duplicates,
    filter_questions,
    messages,
    misfits,
    passages,
    read_question,
    write_questions,
)
from ingestor.evaluate.scores import EvalQuestion, Excerpt
from ingestor.llm.client import Messages
from ingestor.text.sentences import sentences

TEXT = "The mill stands by the river.\n\nIts wheel was built in 1840\nby the miller. It turns. Nobody asks.\n"
PLACES = sentences(TEXT)
LATER = "Another mill has no wheel. The wind drives it."


def answer(question: str, *numbers: int) -> str:
    return json.dumps({"question": question, "sentences": numbers})


def requests(ask: Callable[[Messages], str | None], threads: int = 1) -> QuestionRequests:
    return QuestionRequests(ask, threads, lambda: None, lambda: None)


def test_neighbouring_sentences_are_one_excerpt() -> None:
    said = answer(" When was the wheel\nbuilt? ", 4, 1, 2, 2)
    question = read_question(f"<think>hm</think>Here:\n{said}", 1, PLACES, [LATER, TEXT], [])
    assert (question.text, question.origin) == ("When was the wheel built?", "model")
    assert [TEXT[e.start : e.end] for e in question.excerpts] == [
        TEXT[: TEXT.index(" It turns")],
        "Nobody asks.",
    ]
    assert {e.document for e in question.excerpts} == {1}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("no", "not a JSON object"),
        ("{" * 100_000 + "}", "not a JSON object"),
        (json.dumps({"sentences": [1]}), "`question` must be a text of 1 to"),
        (
            json.dumps({"question": "When?", "sentences": "2"}),
            "`sentences` must be a list of the numbers of sentences",
        ),
        (
            json.dumps({"question": "When?", "sentences": [True]}),
            "`sentences` must be a list of the numbers of sentences",
        ),
        (answer("When?"), "`sentences` must be a list of the numbers of sentences"),
        (answer("When?", 1, 2, 3, 4, 5, 6), "at most 5 sentences"),
        (answer("When?", 2, 5), "`sentences` must be from 1 to 4"),
        (answer("When?", 0), "`sentences` must be from 1 to 4"),
        (answer("When?", 1, 3), "the text of sentence 3 occurs more than once"),
        (answer("Asked?", 2), "repeats an earlier"),
    ],
)
def test_answer_against_the_rules_is_refused_with_the_rule(said: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_question(said, 1, PLACES, [f"{LATER} It turns.", TEXT], ["Asked?"])


def test_model_gets_earlier_questions_and_the_reason_of_a_refusal() -> None:
    asked: list[Messages] = []
    replies = iter(
        [
            answer("When?", 2),
            answer("When?", 2),
            answer("Who?", 2),
            "?",
            "?",
            "?",
        ]
    )

    def ask(given: Messages) -> str:
        asked.append(given)
        return next(replies)

    questions, refused = write_questions([TEXT], {0: [(0, len(TEXT))] * 3}, requests(ask))
    assert [question.text for question in questions] == ["When?", "Who?"]
    assert [each.reason for each in refused] == [
        "no valid answer of the model: the answer is not a JSON object"
    ]
    assert asked[0] == messages([TEXT[a:b] for a, b in PLACES], [])
    assert "\n[2] Its wheel was built in 1840 by the miller.\n[3] It turns.\n" in asked[0][1][1]
    assert "asked before" not in asked[0][1][1]
    assert "- When?\n" in asked[1][1][1]
    assert "the question repeats an earlier one" in asked[2][-1][1]
    assert len(asked) == 6


def test_documents_are_requested_in_parallel_and_returned_in_order() -> None:
    def ask(given: Messages) -> str:
        return answer("A?" if "river" in given[1][1] else "B?", 1)

    questions, refused = write_questions(
        [TEXT, LATER], {0: [(0, 50)], 1: [(0, 40)]}, requests(ask, threads=2)
    )
    assert [question.text for question in questions] == ["A?", "B?"]
    assert refused == []


def test_passages_are_in_proportion_and_stay_when_more_are_drawn() -> None:
    texts = ["x" * 100, "word " * 2000, "word " * 8000, "other " * 600]
    few, many = passages(texts, 12), passages(texts, 60)
    assert 0 not in few
    assert sum(map(len, few.values())) == 12
    assert sum(map(len, many.values())) == 60
    for at, spans in few.items():
        assert many[at][: len(spans)] == spans
        assert all(0 <= a < b <= len(texts[at]) and b - a <= LONGEST for a, b in spans)
        assert all(a == 0 or texts[at][a - 1] == " " for a, _ in spans)
    assert len(many[2]) == pytest.approx(4 * len(many[1]), rel=0.2)
    assert passages(texts[:2], 5)[1] == passages(texts, 60)[1][:5]


def unit(*rows: Sequence[float]) -> np.ndarray:  # type: ignore[type-arg]
    found = np.array(rows, np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_near_duplicates_are_omitted_whatever_the_model() -> None:
    random = np.random.default_rng(0)
    for shared in (0.0, 3.0):  # models whose cosines begin at 0, and those whose cosines are all high
        vectors = random.normal(0, 1, (12, 40)) + shared
        vectors[7] = vectors[2] + random.normal(0, 0.05, 40)
        assert duplicates(unit(*vectors)) == {7: 2}


def test_questions_whose_excerpt_is_foreign_are_omitted() -> None:
    random = np.random.default_rng(1)
    questions = random.normal(0, 1, (12, 40))
    excerpts = questions + random.normal(0, 0.5, (12, 40))
    excerpts[4] = random.normal(0, 1, 40)
    assert misfits(unit(*questions), unit(*excerpts), range(12), [0] * 12) == {4}
    assert (
        misfits(unit(*questions), unit(*excerpts), range(12), range(12)) == set()
    )  # nothing to compare with


def test_refused_question_has_a_reason() -> None:
    random = np.random.default_rng(2)
    known = {str(at): random.normal(0, 1, 40) for at in range(12)}
    questions = [EvalQuestion(f"q{at}", (Excerpt(0, at, at + 1),), "model") for at in range(9)]
    questions.append(EvalQuestion("q8 again", (Excerpt(0, 8, 9),), "model"))
    text = "012345678"

    def embed(texts: Sequence[str]) -> np.ndarray:  # type: ignore[type-arg]
        return unit(*(known[each] for each in texts))

    def embed_questions(texts: Sequence[str]) -> np.ndarray:  # type: ignore[type-arg]
        return unit(*(known[each[1]] if each != "q3" else known["11"] for each in texts))

    kept, refused = filter_questions(questions, [text], embed, embed_questions)
    assert [each.text for each in kept] == [f"q{at}" for at in range(9) if at != 3]
    assert [(each.question, each.reason) for each in refused] == [
        ("q3", "an excerpt fits the question badly"),
        ("q8 again", "the question nearly repeats another"),
    ]
