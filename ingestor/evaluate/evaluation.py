"""``ingestor evaluate``: a sample is cut by each strategy, and asked questions.

Neither a collection nor the journal is written to, so it works beside a daemon. Vectors are kept in the
cache: a run that was interrupted goes on where it was.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from ingestor.app.estimate import journal_or_blank
from ingestor.app.queries import BadRequest
from ingestor.app.wiring import Parts, made_by
from ingestor.config.models import Config
from ingestor.core.entries import EditionName
from ingestor.engine.workers import Embedding, Embeddings
from ingestor.evaluate import made_questions, question_file, reading, strategies
from ingestor.evaluate.cutting import Cut, cut
from ingestor.evaluate.intervals import Comparison, compare
from ingestor.evaluate.question_file import Refused
from ingestor.evaluate.ranking import Scores, scores
from ingestor.evaluate.reading import Sample
from ingestor.evaluate.scores import Question
from ingestor.evaluate.strategies import Strategy
from ingestor.evaluate.verdict import Facts, Verdict, verdict, words
from ingestor.model import CollectionName, SourceName
from ingestor.pipeline.answers import CachedAnswers
from ingestor.pipeline.prepare import Tools
from ingestor.ports import BadDocument, NeedsHuman
from ingestor.state import file_permissions
from ingestor.state.cache.parses import Parses
from ingestor.state.cache.store import VectorCache
from ingestor.state.files import cache_path

Progress = Callable[[str], None]

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
    """``comparisons``: of recall, by budget."""

    request: Request
    sample: Sample
    questions: Sequence[Question]
    refused: Sequence[Refused]
    outcomes: Sequence[Outcome]
    comparisons: dict[int, Comparison]
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class _Workplace:
    """What is open while strategies are compared."""

    parts: Parts
    tools: dict[SourceName, Tools]
    sample: Sample
    embedding: Embedding
    answers: CachedAnswers
    progress: Progress


def evaluate(config: Config, request: Request, progress: Progress) -> Evaluation:
    """Raises BadRequest for a question that makes no sense, and what sources and the embedder raise."""
    with _opened(config, request, progress) as place:
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


@contextmanager
def _opened(config: Config, request: Request, progress: Progress) -> Iterator[_Workplace]:
    file_permissions.make(config.state, lambda name: False)
    with journal_or_blank(config) as journal:
        made = made_by(journal)
    with ExitStack() as stack:
        parts = Parts(config, made)
        cache = VectorCache(cache_path(config), config.cache_size)
        stack.callback(cache.close)
        embeddings = Embeddings(cache, parts.tokens.counts)
        stack.callback(embeddings.close)
        embedding = embeddings.of(parts.embedder_recipe, lambda: parts.embedder)
        stack.callback(parts.isolation.close)
        answers = CachedAnswers(cache)
        anywhere = EditionName("")  # nothing is written
        sources = parts.sources(request.collection, anywhere, embedding, answers, Parses(cache, learns=False))
        sample = reading.take(
            sources, request.sample, _named(request.questions), lambda key: progress(f"reading {key}")
        )
        if not sample.documents:
            why = "".join(f"\n  {name}: {reason}" for name, reason in sample.unread[:5])
            raise NeedsHuman(f"no document of collection {request.collection!r} could be read{why}")
        tools = {source.name: source.tools for source in sources}
        yield _Workplace(parts, tools, sample, embedding, answers, progress)


def _named(questions: Path | None) -> set[str]:
    """Documents that the file names: they must be in the sample."""
    return {row.document for row in question_file.read(questions)} - {""} if questions else set()


def _questions(request: Request, sample: Sample) -> tuple[list[Question], list[Refused]]:
    documents = [each.document for each in sample.documents]
    texts = [document.text for document in documents]
    refused: list[Refused] = []
    if request.questions is not None:
        found, refused = question_file.resolve(question_file.read(request.questions), sample.numbers, texts)
    else:
        found = made_questions.made(documents, request.make)
    if not found:
        raise BadRequest(_no_questions(request, sample, refused))
    if request.keep is not None:
        question_file.write(request.keep, found, sample.names, texts)
    return found, refused


def _no_questions(request: Request, sample: Sample, refused: Sequence[Refused]) -> str:
    if request.questions is None:
        return "no question can be made: the documents hold no sentences of 8 to 80 words; use --questions"
    more = (
        ""
        if sample.whole
        else f"; only {len(sample.documents)} of {sample.listed} documents were read (--sample)"
    )
    lines = "".join(f"\n  line {each.line}: {each.reason}" for each in refused[:5])
    return f"{request.questions} holds no question that can be used{more}{lines}"


def _cuts(config: Config, request: Request, place: _Workplace) -> Iterator[Cut]:
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


def _cut(strategy: Strategy, place: _Workplace, which: str) -> Cut:
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


def _speed(place: _Workplace, cuts: Sequence[Cut]) -> float:
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
    about = [question.excerpts[0].document for question in questions]
    comparisons = {
        budget: compare(np.array([each.scores.at[budget] for each in outcomes]), about)
        for budget in request.budgets
    }
    cuts = [each.cut for each in outcomes]
    current = next((at for at, each in enumerate(cuts) if each.strategy.configured), None)
    decisive = comparisons[request.budgets[0]]
    found = verdict(decisive, current)
    facts = Facts(
        [each.strategy.name for each in cuts],
        [each.embedded_tokens for each in cuts],
        current,
        len(questions),
        sum(question.made for question in questions),
        request.budgets[0],
    )
    return Evaluation(
        request, sample, questions, refused, outcomes, comparisons, found, words(found, decisive, facts)
    )
