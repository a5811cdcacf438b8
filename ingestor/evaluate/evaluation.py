"""``ingestor evaluate``: a sample is cut by each strategy, and asked questions.

Neither a collection nor the journal is written to, so it works beside a daemon. Vectors are kept in the
cache: a run that was interrupted goes on where it was.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from ingestor.app.queries import BadRequest
from ingestor.config.models import Config
from ingestor.evaluate import strategies
from ingestor.evaluate.cutting import Cut, cut
from ingestor.evaluate.intervals import Comparison, compare
from ingestor.evaluate.questions import csv_file, made
from ingestor.evaluate.questions.csv_file import Refused
from ingestor.evaluate.ranking import Scores, scores
from ingestor.evaluate.reading import Sample
from ingestor.evaluate.scores import Question
from ingestor.evaluate.strategies import Strategy
from ingestor.evaluate.verdict import Apart, Facts, Verdict, apart, verdict, words
from ingestor.evaluate.workplace import Progress, Workplace, opened, read_questions, same_documents
from ingestor.model import CollectionName
from ingestor.ports import BadDocument

_MEASURED = 64  # texts; fewer do not tell how fast the model reads


@dataclass(frozen=True, slots=True)
class Request:
    """``strategies``: those named, none for the configured one and what is worth comparing with it.

    ``budgets``: tokens; the first decides. ``questions``: a file to read; ``keep``: one to write.
    """

    collection: CollectionName
    strategies: tuple[Strategy, ...] = ()
    questions: Path | None = None
    keep: Path | None = None
    sample: int = 100
    make: int = 240
    budgets: tuple[int, ...] = (500, 1000, 2000)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Of one strategy. ``seconds``: of cutting, and of embedding at the speed measured here."""

    cut: Cut
    scores: Scores
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """``comparisons``: of recall, by budget. ``apart``: sources for which another strategy is better."""

    request: Request
    sample: Sample
    questions: Sequence[Question]
    refused: Sequence[Refused]
    outcomes: Sequence[Outcome]
    comparisons: dict[int, Comparison]
    verdict: Verdict
    apart: Sequence[Apart]
    text: str


def evaluate(config: Config, request: Request, progress: Progress) -> Evaluation:
    """Raises BadRequest for a question that makes no sense, and what sources and the embedder raise."""
    with opened(config, request.collection, request.sample, request.questions, progress) as place:
        questions, refused = _questions(request, place.sample)
        cuts = list(_cuts(config, request, place))
        progress(f"asking {len(questions):,} questions")
        asked = place.parts.query_vectors([question.text for question in questions])
        speed = _speed(place, cuts)
        outcomes = [
            Outcome(
                each,
                scores(questions, asked, each.places, each.vectors, request.budgets),
                each.seconds + each.embedded_tokens / speed,
            )
            for each in cuts
        ]
        return _concluded(request, place.sample, questions, refused, outcomes)


def _questions(request: Request, sample: Sample) -> tuple[list[Question], list[Refused]]:
    documents = [each.document for each in sample.documents]
    refused: list[Refused] = []
    if request.questions is not None:
        found, refused = read_questions(request.questions, sample)
    else:
        found = made.made(documents, request.make)
    if not found:
        raise BadRequest(
            "no question can be made: the documents hold no sentences of 8 to 80 words; use --questions"
        )
    if request.keep is not None:
        csv_file.write(request.keep, found, sample.names, [document.text for document in documents])
    return found, refused


def _cuts(config: Config, request: Request, place: Workplace) -> Iterator[Cut]:
    """The configured one first: how large its chunks are decides what is worth comparing with it."""
    chosen = list(request.strategies)
    if not chosen:
        own = {s.name: s.chunking for s in config.sources if s.collection == request.collection}
        base = strategies.configured(own)
        first = _cut(base, place, "")
        yield first
        documents = [each.document for each in place.sample.documents]
        chosen = strategies.worth_comparing(base, first.mean_tokens, documents)
    for number, strategy in enumerate(chosen, start=1):
        yield _cut(strategy, place, f" ({number} of {len(chosen)})")


def _cut(strategy: Strategy, place: Workplace, which: str) -> Cut:
    def progress(key: str) -> None:
        embedded = f", {place.embedding.tokens:,} tokens embedded" if place.embedding.tokens else ""
        place.progress(f"cutting by {strategy.name}{which}: {key}{embedded}")

    try:
        found = cut(strategy, place.sample, place.tools, place.parts.tokens, place.answers, progress)
    except BadDocument as error:
        raise BadRequest(f"{strategy.name}: {error}") from error
    if not found.places:
        raise BadRequest(f"{strategy.name} makes no chunks of these documents")
    return found


def _speed(place: Workplace, cuts: Sequence[Cut]) -> float:
    """Tokens that the model reads in a second: as in this run, or measured where the cache knew most."""
    if place.embedding.texts >= _MEASURED:
        return place.embedding.tokens / max(1e-6, place.embedding.seconds)
    texts = list(cuts[0].texts[:_MEASURED])
    begun = perf_counter()
    place.parts.embedder.embed(texts)
    return max(1, sum(place.parts.tokens.counts(texts))) / max(1e-6, perf_counter() - begun)


def _concluded(
    request: Request,
    sample: Sample,
    questions: Sequence[Question],
    refused: Sequence[Refused],
    outcomes: Sequence[Outcome],
) -> Evaluation:
    about = same_documents(questions)
    comparisons = {
        budget: compare(np.array([each.scores.at[budget] for each in outcomes]), about)
        for budget in request.budgets
    }
    cuts = [each.cut for each in outcomes]
    current = next((at for at, each in enumerate(cuts) if each.strategy.configured), None)
    decisive = comparisons[request.budgets[0]]
    found = verdict(decisive, current)
    exceptions = apart(_by_source(outcomes, questions, sample, request.budgets[0]), found.pick)
    facts = Facts(
        [each.strategy.name for each in cuts],
        [each.embedded_tokens for each in cuts],
        current,
        len(questions),
        sum(question.made for question in questions),
        request.budgets[0],
    )
    text = words(found, decisive, facts, exceptions)
    return Evaluation(request, sample, questions, refused, outcomes, comparisons, found, exceptions, text)


def _by_source(
    outcomes: Sequence[Outcome], questions: Sequence[Question], sample: Sample, budget: int
) -> dict[str, Comparison]:
    """Recall, of the questions about each source; nothing where there is only one source."""
    about = np.array(same_documents(questions))
    sources = np.array([sample.documents[at].source for at in about])
    recall = np.array([each.scores.at[budget] for each in outcomes])
    names = sorted(set(sources.tolist()))
    if len(names) < 2 or len(outcomes) < 2:
        return {}
    return {
        name: compare(recall[:, sources == name], about[sources == name].tolist(), len(names))
        for name in names
    }
