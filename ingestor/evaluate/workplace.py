"""Opens everything that an evaluation needs: parsers, chunkers, embedder, cache and sampled documents."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ingestor.app.parts import Parts, embedder_recipes_of
from ingestor.config.models import Choice, Config
from ingestor.core.entries import EditionName
from ingestor.engine.embedding import Embedding, Embeddings
from ingestor.evaluate.question_file import RefusedQuestion, locate, read_rows
from ingestor.evaluate.sample import Progress, Sample, read_again, take_sample
from ingestor.evaluate.scores import EvalQuestion
from ingestor.evaluate.strategies import Strategy, StrategyExtras, most_common_strategy
from ingestor.llm.answers import CachedAnswers
from ingestor.model import CollectionName, SourceName
from ingestor.pipeline.prepare import Tools
from ingestor.ports import NeedsHuman
from ingestor.queries.access import BadRequest, journal_of
from ingestor.search.values import Mode
from ingestor.state import files
from ingestor.state.cache import Parses, VectorCache
from ingestor.state.files import cache_path
from ingestor.units import quantity

_ANYWHERE = EditionName("")  # edition of the parts: an evaluation writes none


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """Request to compare strategies on a collection.

    ``strategies``: empty for the configured strategy and strategies that are worth comparing with it.
    ``budgets``: numbers of retrieved tokens; recall at the first one decides. ``questions``: file of
    questions to read. ``keep``: file to write the questions to. ``ask_model``: whether the language model
    writes questions. ``judge``: number of questions whose answers the language model judges. ``modes``: modes
    of search, at least one. ``models``: embedders to compare, by their names in the report; empty for the
    configured embedder.

    Another ``seed`` samples other documents and makes other questions.
    """

    collection: CollectionName
    strategies: tuple[Strategy, ...] = ()
    questions: Path | None = None
    keep: Path | None = None
    sample: int = 100
    make: int = 240
    ask_model: bool = False
    judge: int = 0
    modes: tuple[Mode, ...] = ("dense",)
    budgets: tuple[int, ...] = (500, 1000, 2000)
    seed: int = 0
    models: Mapping[str, Choice] = field(default_factory=dict)


@dataclass(frozen=True)
class Workplace:
    """Everything that an evaluation needs, opened.

    ``tools``: parsers and chunker of each source.
    """

    collection: CollectionName
    parts: Parts
    tools: Mapping[SourceName, Tools]
    sample: Sample
    embedding: Embedding
    answers: CachedAnswers
    cache: VectorCache
    progress: Progress

    @property
    def strategy(self) -> Strategy:
        """Return the strategy that the config sets for this collection."""
        sources = (each for each in self.parts.config.sources if each.collection == self.collection)
        return most_common_strategy({each.name: each.chunking for each in sources})

    def read_by(self, beside: StrategyExtras) -> Sample:
        """Read the sampled documents again, parsed with the settings of a strategy."""
        config = self.parts.config
        other = replace(config, sources=tuple(map(beside.read, config.sources)))
        parts, memory = replace(self.parts, config=other), Parses(self.cache, learns=False)
        sources = parts.sources(
            self.collection, _ANYWHERE, self.embedding, answers=self.answers, memory=memory
        )
        return read_again(self.sample, sources, lambda key: self.progress(f"reading {key} again"))


@contextmanager
def open_workplace(config: Config, request: EvaluationRequest, progress: Progress) -> Iterator[Workplace]:
    """Open everything that an evaluation of a collection needs, and read a sample of its documents.

    Documents that a file of questions names are in the sample. Raises NeedsHuman if no document can be read,
    and the errors of sources and the embedder.
    """
    files.make(config.state, lambda name: False)
    collection, questions = request.collection, request.questions
    with journal_of(config, or_blank=True) as journal:
        made = embedder_recipes_of(journal)
    with ExitStack() as stack:
        parts = Parts(config, made)
        cache = VectorCache(cache_path(config), config.cache_size)
        stack.callback(cache.close)
        embeddings = Embeddings(cache, parts.tokens.counts)
        stack.callback(embeddings.close)
        embedding = embeddings.of(parts.embedder_recipe, lambda: parts.embedder)
        stack.callback(parts.isolation.close)
        answers = CachedAnswers(cache)
        memory = Parses(cache, learns=False)
        sources = parts.sources(collection, _ANYWHERE, embedding, answers=answers, memory=memory)
        named = {row.document for row in read_rows(questions)} - {""} if questions else set[str]()
        sample = take_sample(sources, request.sample, named, lambda k: progress(f"reading {k}"), request.seed)
        if not sample.documents:
            why = "".join(f"\n  {name}: {reason}" for name, reason in sample.unread[:5])
            raise NeedsHuman(
                f"no document of collection {collection!r} could be read, so nothing can be evaluated{why}"
            )
        tools = {source.name: source.tools for source in sources}
        yield Workplace(collection, parts, tools, sample, embedding, answers, cache, progress)


def read_questions(
    file: Path, samples: Sequence[Sample]
) -> tuple[list[list[EvalQuestion]], list[RefusedQuestion]]:
    """Read a file of questions, and find their excerpts in each sample.

    Return the questions for each sample, and the refused questions. ``samples``: the same documents, parsed
    with different settings. Raises BadRequest if no question of the file is usable.
    """
    questions, refused = locate(read_rows(file), samples, everywhere=False)
    if questions[0]:
        return questions, refused
    share = f"{len(samples[0].documents):,} of {quantity(samples[0].listed, 'document')}"
    more = "" if samples[0].is_whole else f"; only {share} were read (--sample)"
    lines = "".join(f"\n  line {each.line}: {each.reason}" for each in refused[:5])
    raise BadRequest(f"{file} holds no question that can be used{more}{lines}")


def same_documents(questions: Sequence[EvalQuestion]) -> list[int]:
    """Return the number of the document that each question is about.

    Comparisons treat questions about one document as related, because they resemble each other.
    """
    return [question.excerpts[0].document for question in questions]
