"""Has answers generated from each strategy's context, and judged, by the language model of the config.

Each strategy's context has the same budget of tokens. Equal requests are sent once: strategies that find the
same get the same answer. All answers are cached.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from ingestor.core.fingerprint import text_digest
from ingestor.evaluate.asking.expecting import TWICE
from ingestor.evaluate.asking.judgements import Judged, Judgement, compare_judgements
from ingestor.evaluate.asking.prompts import answer_request, context, judge_request, verdict
from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.workplace import Workplace, same_documents
from ingestor.llm.at_once import in_parallel
from ingestor.llm.client import Ask, LanguageModel
from ingestor.llm.options import Endpoint
from ingestor.llm.valid import ask_until_valid
from ingestor.ports import Stop
from ingestor.units import counted

_TIMES = 2  # attempts to get a valid verdict
Ranked = Sequence[Sequence[int]]  # for each question, numbers of chunks, best first


def judge(
    place: Workplace,
    endpoint: Endpoint,
    questions: Sequence[EvalQuestion],
    references: Sequence[str],
    rankings: Sequence[tuple[SampleCut, Ranked]],
    number: int,
    budget: int,
) -> Judged:
    """Have the model answer ``number`` questions from each strategy's context, and judge the answers.

    The same questions are chosen every time. ``references``: for each question, the excerpts that answer it.
    ``budget``: tokens of a context. Raises Transient or NeedsHuman.
    """
    chosen = _choose(questions, number)
    model, done = LanguageModel(endpoint, place.answers), count(1)
    pairs = [(at, cut, ranked) for at in chosen for cut, ranked in rankings]

    def one(pair: tuple[int, SampleCut, Ranked]) -> tuple[str, Judgement]:
        at, cut, ranked = pair
        shown = context(cut, ranked[at], budget)
        made = _judgement(model, questions[at].text, references[at], shown)
        place.progress(f"asking {endpoint.model}: {next(done):,} of {counted(len(pairs), 'answer')}")
        return made

    made = in_parallel(one, pairs, endpoint.concurrency, Stop(), place.answers.stop)
    similar = _similarities(place, [answer for answer, _ in made], [references[at] for at, _, _ in pairs])
    judgements = [replace(each, similarity=value) for (_, each), value in zip(made, similar, strict=True)]
    rows = [judgements[at :: len(rankings)] for at in range(len(rankings))]
    return compare_judgements(rows, same_documents([questions[at] for at in chosen]))


def _choose(questions: Sequence[EvalQuestion], number: int) -> list[int]:
    """Choose ``number`` questions; a larger choice contains every smaller one."""
    order = sorted(range(len(questions)), key=lambda at: text_digest(questions[at].text))
    return sorted(order[:number])


def _judgement(model: Ask, question: str, reference: str, shown: str) -> tuple[str, Judgement]:
    """Return the answer ("" if there is none) and its judgement, still without similarity."""
    answer = (model(answer_request(question, shown)) or "").rpartition("</think>")[2].strip()
    if not answer:
        return "", Judgement(None)
    twice = int(text_digest(question), 16) % TWICE == 0
    verdicts = [
        ask_until_valid(
            model, judge_request(question, reference, shown, answer, turned=turned), verdict, _TIMES
        )
        for turned in ((False, True) if twice else (False,))
    ]
    return answer, Judgement(verdicts[0], verdicts[1] if twice else None)


def _similarities(place: Workplace, answers: Sequence[str], references: Sequence[str]) -> list[float]:
    """Return the cosine of each answer and its reference; 0 without an answer."""
    there = [at for at, answer in enumerate(answers) if answer]
    ours, theirs = (place.embedding([texts[at] for at in there]) for texts in (answers, references))
    cosines = dict(zip(there, (ours * theirs).sum(axis=1).tolist(), strict=True))
    return [float(cosines.get(at, 0.0)) for at in range(len(answers))]
