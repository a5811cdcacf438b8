"""What each strategy finds, searched in each way, and how long it takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from ingestor.evaluate.costs import Measured, StrategyCosts, costs
from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.ranking.scored import Scores, enough, scores
from ingestor.evaluate.ranking.searched import Chunks, searched
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.workplace import Workplace
from ingestor.pipeline.language import identified
from ingestor.search.values import Mode

_MEASURED = 64  # texts; fewer do not tell how fast the model reads


@dataclass(frozen=True, slots=True, eq=False)
class StrategyOutcome:
    """Of one strategy, searched in one way.

    ``name``: of the strategy, and of the way where several are compared. ``seconds``: of cutting the sample,
    and of embedding it at the speed measured here. ``costs``: of the whole collection.
    """

    name: str
    mode: Mode
    cut: SampleCut
    scores: Scores
    seconds: float
    costs: StrategyCosts


def scored(
    place: Workplace,
    cuts: Sequence[SampleCut],
    questions: Sequence[EvalQuestion],
    modes: Sequence[Mode],
    budgets: Sequence[int],
) -> list[StrategyOutcome]:
    """Strategy by strategy, each in all ways. Raises what the embedder raises."""
    place.progress(f"asking {len(questions):,} questions")
    texts = [question.text for question in questions]
    asked, speed = place.parts.query_vectors(texts), _speed(place, cuts)
    languages, tokens = _languages(place, modes), _tokens(place)
    found = list[StrategyOutcome]()
    for cut in cuts:
        chunks = Chunks(cut.texts, cut.vectors, [languages[each.document] for each in cut.places])
        for mode in modes:
            ranked = searched(mode, texts, asked, chunks, enough(cut.places, max(budgets)))
            name = cut.strategy.name if len(modes) == 1 else f"{cut.strategy.name} ({mode})"
            seconds = cut.seconds + cut.embedded_tokens / speed
            rated = scores(questions, ranked, cut.places, budgets)
            found.append(
                StrategyOutcome(name, mode, cut, rated, seconds, _costs(place, cut, tokens, seconds))
            )
    return found


def _tokens(place: Workplace) -> int:
    return sum(place.parts.tokens.counts([each.document.text for each in place.sample.documents]))


def _costs(place: Workplace, cut: SampleCut, tokens: int, seconds: float) -> StrategyCosts:
    text = sum(len(each.encode()) for each in cut.texts)
    measured = Measured(len(cut.places), text, cut.embedded_tokens, tokens, seconds, cut.vectors.shape[1])
    return costs(measured, place.sample.share, place.parts.config.rechunk.price)


def _languages(place: Workplace, modes: Sequence[Mode]) -> list[str | None]:
    """Of each document; they matter to words alone."""
    documents = [each.document for each in place.sample.documents]
    if set(modes) == {"dense"}:
        return [None] * len(documents)
    return [identified(document).language for document in documents]


def _speed(place: Workplace, cuts: Sequence[SampleCut]) -> float:
    """Tokens that the model reads in a second: as in this run, or measured where the cache knew most."""
    if place.embedding.texts >= _MEASURED:
        return place.embedding.tokens / max(1e-6, place.embedding.seconds)
    texts = list(cuts[0].texts[:_MEASURED])
    begun = perf_counter()
    place.parts.embedder.embed(texts)
    return max(1, sum(place.parts.tokens.counts(texts))) / max(1e-6, perf_counter() - begun)
