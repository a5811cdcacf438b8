"""Judged answers: what is asked, what counts as a verdict, what follows; and as a person runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.judging import (
    JudgedAnswer,
    Judgement,
    answer_request,
    compare_judgements,
    context,
    describe_judgements,
    judge_request,
    read_verdict,
)
from ingestor.evaluate.scores import ChunkPlace
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.endpoint import Endpoint, Reply, said, serving
from tests.evaluate.scripted_model import BAD, model, parts, set_language_model

GOOD = "recursive:size=100"


# --- what is asked ------------------------------------------------------------------------------------------


def cut(*texts: str) -> SampleCut:
    places = [ChunkPlace(0, ((0, len(text)),), len(text.split())) for text in texts]
    return SampleCut(None, None, places, texts, [], None, 0, 0.0, None)  # type: ignore[arg-type]


def test_context_fills_its_budget_and_no_more() -> None:
    found = cut("one two three four", "five six", "seven")
    assert context(found, [1, 0, 2], 100) == "five six\n\none two three four\n\nseven"
    assert context(found, [1, 0, 2], 4) == "five six\n\none two t"
    assert context(found, [0], 2) == "one two t"


def test_second_judgement_has_the_same_parts_in_another_order() -> None:
    one, other = (
        judge_request("Q?", "Ref.", "Con.", "Ans.", turned=turned)[1][1] for turned in (False, True)
    )
    assert one != other
    assert parts(one) == parts(other) == {
        "Question": "Q?", "Reference": "Ref.", "Context": "Con.", "Answer to judge": "Ans.",
    }  # fmt: skip
    assert answer_request("Q?", "Con.")[1][1] == "Excerpts:\nCon.\n\nQuestion: Q?"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("5", "not a JSON object"),
        ('{"correctness": 5}', "must have the keys"),
        ('{"correctness": 5, "relevant": true, "faithful": true, "why": "so"}', "must have the keys"),
        ('{"correctness": 6, "relevant": true, "faithful": true}', "from 1 to 5"),
        ('{"correctness": 4.5, "relevant": true, "faithful": true}', "from 1 to 5"),
        ('{"correctness": true, "relevant": true, "faithful": true}', "from 1 to 5"),
        ('{"correctness": 4, "relevant": 1, "faithful": true}', "true or false"),
        ('{"correctness": 4, "relevant": true, "faithful": "yes"}', "true or false"),
    ],
)
def test_answer_without_a_verdict_is_refused_with_a_reason(answer: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_verdict(answer)


def test_verdict_is_read_with_words_around_it() -> None:
    answer = 'I think {} so.\n</think>```json\n{"correctness": 2, "relevant": true, "faithful": false}\n```'
    assert read_verdict(answer) == JudgedAnswer(2, True, False)


# --- what follows -------------------------------------------------------------------------------------------


def rows(*correctness: list[int | None]) -> list[list[Judgement]]:
    return [
        [Judgement(None if each is None else JudgedAnswer(each, True, True), similarity=0.5) for each in row]
        for row in correctness
    ]


def test_strategies_are_compared_by_questions_that_all_have_judged() -> None:
    found = compare_judgements(rows([5, 5, None, 1], [1, 3, 5, None]), [0, 1, 2, 3])
    assert (found.questions, found.compared, found.unjudged) == (4, 2, (1, 1))
    assert [each.mean for each in found.comparisons["correctness"].means] == [5, 2]
    assert found.comparisons["correctness"].difference(0, 1).interval.mean == 3
    assert found.agreement is None


def test_no_judged_answer_is_reported() -> None:
    found = compare_judgements(rows([None], [5]), [0])
    assert (found.compared, found.comparisons) == (0, {})
    assert describe_judgements(found, ["A", "B"], 0, 1) == "No answer could be judged."


def test_agreement_of_the_judge_with_itself() -> None:
    pairs = [
        ((5, True, True), (5, True, False)),
        ((4, True, True), (3, False, True)),
        ((1, True, True), (5, True, True)),
    ]
    row = [Judgement(JudgedAnswer(*one), JudgedAnswer(*other)) for one, other in pairs]
    found = compare_judgements([row, rows([2, 2, 2])[0]], [0, 1, 2])
    assert found.agreement is not None
    shares = (found.agreement.correctness, found.agreement.correctness_within_1, found.agreement.relevancy)
    assert found.agreement.count == 3
    assert (*shares, found.agreement.faithfulness) == pytest.approx((1 / 3, 2 / 3, 2 / 3, 2 / 3))


@pytest.mark.parametrize(("gain", "clear"), [(0, False), (2, True)])
def test_differences_clear_and_unclear_are_distinguished(gain: int, clear: bool) -> None:
    low = [1 + at % 3 for at in range(60)]
    found = compare_judgements(rows([each + gain for each in low], low), list(range(60)))
    said = describe_judgements(found, ["A", "B"], 0, 1)
    assert ("no clear difference" not in said) == clear
    assert said.startswith("Answers from the context of A were judged")


def test_sentence_about_the_judge_states_its_agreement() -> None:
    twice = Judgement(JudgedAnswer(4, True, True), JudgedAnswer(4, True, True))
    sentence = describe_judgements(compare_judgements([[twice]], [0]), ["A"], 0, None)
    assert sentence.endswith("the same relevancy, and 100 % the same faithfulness.")


# --- as a person runs it ------------------------------------------------------------------------------------


def evaluation(ask: Ask, *words: str) -> Any:
    return answered(ask("evaluate", "--json", "--strategies", f"{GOOD},{BAD}", "--make", "60", *words))


@pytest.mark.slow
def test_answers_are_judged_counted_and_requested_once(ask: Ask, endpoint: Endpoint, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = evaluation(ask, "--judge", "40", "--html", str(page))
    calls = endpoint.calls
    assert evaluation(ask, "--judge", "40")["language_model"]["calls"] == 0
    assert endpoint.calls == calls
    fewer = evaluation(ask, "--judge", "20")
    assert endpoint.calls == calls  # of the same questions
    good, bad = (each["judged"] for each in found["strategies"])
    assert good["correctness"]["mean"] > bad["correctness"]["mean"] + 0.3
    assert 1 <= bad["correctness"]["low"] <= bad["correctness"]["mean"] <= bad["correctness"]["high"] <= 5
    assert good["faithfulness"]["mean"] == bad["faithfulness"]["mean"] == 100
    assert good["similarity"]["mean"] > bad["similarity"]["mean"]
    whole = found["judged"]
    assert (whole["questions"], whole["compared"], whole["unjudged"], whole["budget"]) == (40, 40, 0, 500)
    assert whole["agreement"]["count"] > 5
    assert whole["agreement"]["correctness"] == 100
    assert {each["metric"] for each in whole["differences"]} == {
        "correctness", "relevancy", "faithfulness", "similarity",
    }  # fmt: skip
    assert "Answers from the context of recursive:size=100 were judged" in found["recommendation"]["text"]
    sent = found["language_model"]
    assert sent["calls"] == calls <= sent["expected"]["calls"]
    assert sent["cost"] == pytest.approx(calls * (10 * 2 + 2 * 10) / 1e6)
    assert fewer["judged"]["questions"] == 20
    assert "5 correct" in page.read_text("utf-8")


def test_judge_biased_or_malformed_is_detected(samples: Project, ask: Ask) -> None:
    """It likes answers that it reads before the reference, and has no valid verdict on some."""

    def biased(body: dict[str, Any]) -> Reply:
        task, asked = (message["content"] for message in body["messages"][:2])
        if "You judge" not in task:
            return model(body)
        if len(parts(asked)["Question"]) % 3 == 0:
            return said("It is good.")
        first = asked.index("Answer to judge") < asked.index("Reference")
        return said(json.dumps({"correctness": 5 if first else 2, "relevant": True, "faithful": True}))

    with serving(biased) as endpoint:
        set_language_model(samples, endpoint.base_url)
        found = evaluation(ask, "--judge", "40")
    whole = found["judged"]
    assert (whole["agreement"]["correctness"], whole["agreement"]["correctness_within_1"]) == (0, 0)
    assert whole["agreement"]["relevancy"] == 100
    assert whole["unjudged"] > 0
    assert whole["compared"] == 40 - whole["unjudged"] / 2
    assert [each["judged"]["correctness"]["mean"] for each in found["strategies"]] == [2, 2]
    asked = [
        json.dumps(body["messages"][:2]) for body in endpoint.bodies if "You judge" in str(body["messages"])
    ]
    assert max(map(asked.count, asked)) == 2  # an invalid verdict is asked for once more
