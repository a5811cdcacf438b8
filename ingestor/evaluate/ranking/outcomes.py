"""What each strategy finds, and what it costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from ingestor.evaluate.costs import Measured, StrategyCosts, costs
from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.ranking.scored import Scores, enough, scores
from ingestor.evaluate.ranking.searched import Chunks, searched
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.workplace import Workplace
from ingestor.model import Vectors
from ingestor.pipeline.language import identified
from ingestor.rerankers.configured import scores_of
from ingestor.search.reranking import Reranker, best_first
from ingestor.search.values import Mode

_PATIENCE = 60.0  # seconds; an evaluation waits longer for a reranker than a search does
_MEASURED = 64  # texts; fewer do not tell how fast the model reads


@dataclass(frozen=True, slots=True, eq=False)
class StrategyOutcome:
    """Of one strategy. ``questions``: as they are in what it reads.

    ``seconds``: of cutting the sample, and of embedding it at the speed measured here. ``costs``: of the
    whole collection.
    """

    cut: SampleCut
    questions: Sequence[EvalQuestion]
    scores: Scores
    seconds: float
    costs: StrategyCosts

    @property
    def name(self) -> str:
        return self.cut.strategy.name

    @property
    def mode(self) -> Mode:
        return self.cut.strategy.beside.search or "dense"


def scored(
    place: Workplace,
    cuts: Sequence[SampleCut],
    questions: Mapping[tuple[str, ...], Sequence[EvalQuestion]],
    budgets: Sequence[int],
) -> list[StrategyOutcome]:
    """``questions``: by ``Strategy.reading``. Raises what the embedder and the reranker raise."""
    texts = [question.text for question in questions[()]]
    place.progress(f"asking {len(texts):,} questions")
    asked, speed = place.parts.query_vectors(texts), _speed(place, cuts)
    found = list[StrategyOutcome]()
    for cut in cuts:
        own = questions[cut.strategy.reading]
        ranked = _ranked(place, cut, texts, asked, enough(cut.places, max(budgets)))
        seconds = cut.seconds + cut.embedded_tokens / speed
        rated = scores(own, ranked, cut.places, budgets)
        found.append(StrategyOutcome(cut, own, rated, seconds, _costs(place, cut, seconds)))
    return found


def _ranked(
    place: Workplace, cut: SampleCut, texts: Sequence[str], asked: Vectors, count: int
) -> list[list[int]]:
    """Numbers of chunks for each question, best first."""
    mode, rerank = cut.strategy.beside.search or "dense", cut.strategy.beside.rerank
    chunks = Chunks(cut.texts, cut.vectors, _languages(cut, mode))
    found = searched(mode, texts, asked, chunks, max(count, rerank.hits if rerank else 0))
    if rerank is None:
        return found
    reranker = Reranker(
        scores_of(rerank.model_copy(update={"timeout": _PATIENCE}), patient=True), rerank.hits
    )
    for at, text in enumerate(texts):
        place.progress(f"reranking by {cut.strategy.name}: {at + 1:,} of {len(texts):,} questions")
        order = best_first(reranker, text, [cut.texts[number] for number in found[at][: rerank.hits]])
        found[at] = [*(found[at][number] for number in order), *found[at][rerank.hits :]]
    return found


def _costs(place: Workplace, cut: SampleCut, seconds: float) -> StrategyCosts:
    text = sum(len(each.encode()) for each in cut.texts)
    tokens = sum(place.parts.tokens.counts(cut.sample.texts))
    measured = Measured(len(cut.places), text, cut.embedded_tokens, tokens, seconds, cut.vectors.shape[1])
    return costs(measured, place.sample.share, place.parts.config.rechunk.price)


def _languages(cut: SampleCut, mode: Mode) -> list[str | None]:
    """Of each chunk; they matter to words alone."""
    if mode == "dense":
        return [None] * len(cut.places)
    known = [identified(each.document).language for each in cut.sample.documents]
    return [known[each.document] for each in cut.places]


def _speed(place: Workplace, cuts: Sequence[SampleCut]) -> float:
    """Tokens that the model reads in a second: as in this run, or measured where the cache knew most."""
    if place.embedding.texts >= _MEASURED:
        return place.embedding.tokens / max(1e-6, place.embedding.seconds)
    texts = list(cuts[0].texts[:_MEASURED])
    begun = perf_counter()
    place.parts.embedder.embed(texts)
    return max(1, sum(place.parts.tokens.counts(texts))) / max(1e-6, perf_counter() - begun)
