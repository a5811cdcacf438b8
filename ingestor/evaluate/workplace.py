"""What is open while documents are cut, embedded and searched: parts, cache and a sample of the documents."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ingestor.app.building.parts import Parts, made_by
from ingestor.app.estimate import journal_or_blank
from ingestor.app.queries import BadRequest
from ingestor.config.models import Config
from ingestor.core.entries import EditionName
from ingestor.engine.embedding import Embedding, Embeddings
from ingestor.evaluate import reading
from ingestor.evaluate.questions import csv_file
from ingestor.evaluate.questions.csv_file import RefusedQuestion
from ingestor.evaluate.reading import Sample
from ingestor.evaluate.scores import EvalQuestion
from ingestor.model import CollectionName, SourceName
from ingestor.pipeline.answers import CachedAnswers
from ingestor.pipeline.prepare import Tools
from ingestor.ports import NeedsHuman
from ingestor.state import file_permissions
from ingestor.state.cache.parses import Parses
from ingestor.state.cache.store import VectorCache
from ingestor.state.files import cache_path

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Workplace:
    """``sample``: the documents that were read; ``tools``: by source."""

    parts: Parts
    tools: dict[SourceName, Tools]
    sample: Sample
    embedding: Embedding
    answers: CachedAnswers
    cache: VectorCache
    progress: Progress


@contextmanager
def opened(
    config: Config, collection: CollectionName, count: int, questions: Path | None, progress: Progress
) -> Iterator[Workplace]:
    """``count``: documents to read, besides those that the file ``questions`` names.

    Raises NeedsHuman if no document can be read, and what sources and the embedder raise.
    """
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
        sources = parts.sources(collection, anywhere, embedding, answers, Parses(cache, learns=False))
        named = {row.document for row in csv_file.read(questions)} - {""} if questions else set[str]()
        sample = reading.take(sources, count, named, lambda key: progress(f"reading {key}"))
        if not sample.documents:
            why = "".join(f"\n  {name}: {reason}" for name, reason in sample.unread[:5])
            raise NeedsHuman(f"no document of collection {collection!r} could be read{why}")
        tools = {source.name: source.tools for source in sources}
        yield Workplace(parts, tools, sample, embedding, answers, cache, progress)


def read_questions(file: Path, sample: Sample) -> tuple[list[EvalQuestion], list[RefusedQuestion]]:
    """Raises BadRequest if no question of the file can be used."""
    texts = [each.document.text for each in sample.documents]
    found, refused = csv_file.resolve(csv_file.read(file), sample.numbers, texts)
    if found:
        return found, refused
    more = (
        ""
        if sample.whole
        else f"; only {len(sample.documents)} of {sample.listed} documents were read (--sample)"
    )
    lines = "".join(f"\n  line {each.line}: {each.reason}" for each in refused[:5])
    raise BadRequest(f"{file} holds no question that can be used{more}{lines}")


def same_documents(questions: Sequence[EvalQuestion]) -> list[int]:
    """The document of each question, by number: questions about one document resemble each other."""
    return [question.excerpts[0].document for question in questions]
