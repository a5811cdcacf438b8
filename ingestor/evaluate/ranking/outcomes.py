"""Search results, scores and costs of each strategy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ingestor.evaluate.costs import Measured, StrategyCosts, costs
from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.intervals import Floats
from ingestor.evaluate.ranking.reranked import Reranking, rerank_best
from ingestor.evaluate.ranking.searched import Chunks, search
from ingestor.evaluate.scores import EvalQuestion, Scores, count_tokens, enough, scores
from ingestor.evaluate.workplace import Workplace
from ingestor.model import Metadata, Vectors
from ingestor.pipeline.language import identified
from ingestor.pipeline.metadata import title_of
from ingestor.search.values import Mode
from ingestor.units import counted

_MEASURED = 64  # texts; fewer do not tell how fast the model reads


@dataclass(frozen=True, slots=True, eq=False)
class StrategyOutcome:
    """Outcome of one strategy. ``questions``: with excerpts as placed in the strategy's reading.

    ``seconds``: time to cut the sample and to embed it at the speed measured here.
    ``rerank_seconds``: the reranker's mean time for a question; None without a reranker.
    ``costs``: costs for the whole collection. ``similarity``: cosine of each question and its first chunk.
    ``by_tokens``: recall and IoU of the nearest five chunks for each question, by tokens.
    """

    cut: SampleCut
    questions: Sequence[EvalQuestion]
    scores: Scores
    seconds: float
    rerank_seconds: float | None
    costs: StrategyCosts
    similarity: Floats
    by_tokens: tuple[Floats, Floats]
    model: str | None = None  # if models are compared

    @property
    def name(self) -> str:
        return self.cut.strategy.name + (f" by {self.model}" if self.model else "")

    @property
    def mode(self) -> Mode:
        return self.cut.strategy.beside.search or "dense"


def score_cuts(
    place: Workplace,
    cuts: Sequence[SampleCut],
    questions: Mapping[tuple[str, ...], Sequence[EvalQuestion]],
    budgets: Sequence[int],
) -> list[StrategyOutcome]:
    """Search, rerank and score every cut. ``questions``: by ``Strategy.reading``.

    Raises the errors of the embedder and the reranker.
    """
    texts = [question.text for question in questions[()]]
    place.progress(f"asking {counted(len(texts), 'question')}")
    asked, speed = place.parts.query_vectors(texts), _speed(place, cuts)
    outcomes = list[StrategyOutcome]()
    for cut in cuts:
        own = questions[cut.strategy.reading]
        best = _rank(place, cut, texts, asked, enough(cut.places, max(budgets)))
        anew = _rerank(place, cut, texts, best)
        rated = scores(own, anew.ranked if anew else best, cut.places, budgets)
        seconds = cut.seconds + cut.embedded_tokens / speed
        took = anew.seconds if anew else None
        offsets = [place.parts.tokens.offsets(text).tolist() for text in cut.sample.texts]
        cosines = [
            float(vector @ cut.vectors[best[0]]) if best else 0.0
            for vector, best in zip(asked, rated.ranked, strict=True)
        ]
        outcomes.append(
            StrategyOutcome(
                cut, own, rated, seconds, took, _costs(place, cut, seconds),
                similarity=np.array(cosines),
                by_tokens=count_tokens(own, rated.ranked, cut.places, offsets),
            )
        )  # fmt: skip
    return outcomes


def _rank(
    place: Workplace, cut: SampleCut, texts: Sequence[str], asked: Vectors, count: int
) -> list[list[int]]:
    """Numbers of chunks for each question, best first; enough of them for a reranker."""
    mode, rerank = cut.strategy.beside.search or "dense", cut.strategy.beside.rerank
    numbers = [each.document for each in cut.places]
    chunks = Chunks(cut.texts, cut.vectors, numbers, describe(cut) if mode != "dense" else [])
    return search(mode, texts, asked, chunks, max(count, rerank.hits if rerank else 0))


def _rerank(
    place: Workplace, cut: SampleCut, texts: Sequence[str], rankings: Sequence[Sequence[int]]
) -> Reranking | None:
    rerank = cut.strategy.beside.rerank
    if rerank is None:
        return None

    def progress(at: int) -> None:
        place.progress(f"reranking by {cut.strategy.name}: {at + 1:,} of {counted(len(texts), 'question')}")

    return rerank_best(rerank, texts, cut.texts, rankings, place.cache, progress)


def _costs(place: Workplace, cut: SampleCut, seconds: float) -> StrategyCosts:
    text = sum(len(each.encode()) for each in cut.texts)
    tokens = sum(place.parts.tokens.counts(cut.sample.texts))
    width = cut.vectors.shape[1]
    measured = Measured(len(cut.places), text, cut.embedded_tokens, tokens, seconds, width, cut.asked)
    return costs(measured, place.sample.share, place.parts.config.rechunk.price)


def describe(cut: SampleCut) -> list[Metadata]:
    """Return the metadata of each chunk that words need."""
    known = [
        {"language": identified(each.document).language, "title": title_of(each.document, each.item)}
        for each in cut.sample.documents
    ]
    return [
        {**known[place.document], "context": "\n".join(lines)}
        for place, lines in zip(cut.places, cut.lines, strict=True)
    ]


def _speed(place: Workplace, cuts: Sequence[SampleCut]) -> float:
    """Tokens that the model reads in a second: as in this run, or measured where the cache knew most."""
    if place.embedding.texts >= _MEASURED:
        return place.embedding.tokens / max(1e-6, place.embedding.seconds)
    texts = list(cuts[0].texts[:_MEASURED])
    begun = perf_counter()
    place.parts.embedder.embed(texts)
    return max(1, sum(place.parts.tokens.counts(texts))) / max(1e-6, perf_counter() - begun)
