"""Cuts sampled documents by a strategy, embeds the chunks, and estimates costs for the whole collection."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain
from time import perf_counter

import numpy as np

from ingestor.chunkers.by_type import build_chunker
from ingestor.chunkers.options import ChunkerOptions
from ingestor.evaluate.sample import Progress, Sample
from ingestor.evaluate.scores import ChunkPlace
from ingestor.evaluate.strategies import Strategy
from ingestor.llm.client import Answers, Asking, Completion, Prompt
from ingestor.model import Chunking, Document, SourceName, Sums, Vectors
from ingestor.pipeline.prepare import Tools, texts_to_embed, vectors_at
from ingestor.ports import Chunker, Collective, Embed
from ingestor.queries import needs
from ingestor.queries.plan import look_alikes
from ingestor.text.context import Lines, contexts
from ingestor.text.tokens import Tokens


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Use of language models: number of requests, tokens of requests and answers, and their price.

    The price is 0 if the config has no prices.
    """

    calls: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: "ModelUse") -> "ModelUse":
        return ModelUse(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def over(self, share: float) -> "ModelUse":
        """Extrapolate this use to all documents.

        ``share``: the share of documents it was measured on, 0 to 1.
        """
        tokens = round(self.prompt_tokens / share), round(self.answer_tokens / share)
        return ModelUse(round(self.calls / share), *tokens, self.cost / share)


@dataclass(frozen=True, slots=True)
class StrategyCosts:
    """Costs of a strategy for the whole collection.

    ``embedded``: tokens that the embedder reads. ``passes``: how often the embedder reads each token.
    ``seconds``: time for cutting and embedding, without waits for a language model. ``asked``: requests to
    language models. ``money``: price of the embedder and the language model; None if unknown. ``disk``: bytes
    of Chroma and the journal, as ``ingestor plan`` estimates them.
    """

    records: int
    embedded: int
    passes: float
    seconds: float
    asked: ModelUse
    money: float | None
    disk: int


def price(amount: float) -> str:
    """Format a price with two decimals, or with two digits below a tenth."""
    return f"{amount:,.2f}" if amount >= 0.1 else f"{amount:.2g}"


AllTools = Mapping[SourceName, Tools]  # parsers and chunker of each source

_NARROW = 64  # dimensions of substitute vectors in a rehearsal


@dataclass(frozen=True, slots=True, eq=False)
class SampleCut:
    """Chunks into which a strategy cuts the sampled documents, with their vectors.

    ``sample``: the documents as this strategy parses them. ``places``: documents and spans of the chunks.
    ``texts``, ``lines``: texts of the chunks and their context lines. ``embedded_tokens``: tokens that the
    embedder reads for this strategy. ``asked``: requests of this strategy to language models. ``seconds``:
    time for cutting, without embedding and without waits for language models.
    """

    strategy: Strategy
    sample: Sample
    places: Sequence[ChunkPlace]
    texts: Sequence[str]
    lines: Sequence[Lines]
    vectors: Vectors
    embedded_tokens: int
    seconds: float
    asked: ModelUse

    @property
    def mean_characters(self) -> float:
        return sum(map(len, self.texts)) / max(1, len(self.texts))

    @property
    def mean_tokens(self) -> float:
        return sum(place.tokens for place in self.places) / max(1, len(self.places))


def extrapolate(cut: SampleCut, tokens: int, seconds: float, share: float, price: float) -> StrategyCosts:
    """Extrapolate the costs of a strategy from the sample to the whole collection.

    ``tokens``: tokens of the sampled documents. ``seconds``: time to cut and embed the sample. ``share``:
    share of the collection's documents that the sample tried to read, 0 to 1. ``price``: price of embedding a
    million tokens; 0 if unknown.
    """
    text = sum(len(each.encode()) for each in cut.texts)
    records, embedded = round(len(cut.places) / share), round(cut.embedded_tokens / share)
    asked = cut.asked.over(share)
    disk = needs.disk(records, round(text / share), 0, cut.vectors.shape[1])
    return StrategyCosts(
        records,
        embedded,
        passes=cut.embedded_tokens / max(1, tokens),
        seconds=seconds / share,
        asked=asked,
        money=embedded * price / 1e6 + asked.cost if price or asked.cost else None,
        disk=disk.chroma + disk.journal,
    )


class RecordedEmbed:
    """Embedding function that records the embedded texts, and the total time of its calls."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self.texts: set[str] = set()
        self.waited = 0.0  # seconds

    def __call__(self, texts: Sequence[str]) -> Vectors:
        begun = perf_counter()
        self.texts.update(texts)
        vectors = self._embed(texts)
        self.waited += perf_counter() - begun
        return vectors


class RecordedAnswers:
    """Answers requests to language models, and records their use (see ``Answers``).

    Equal requests count once. Requests with and without an answer are counted separately. If the answer is
    unknown, its length is estimated: as long as the request, or the longest allowed answer if that is
    shorter.
    """

    def __init__(self, answers: Answers, count: Callable[[list[str]], list[int]]) -> None:
        self._answers, self._count = answers, count
        self._uses = dict[tuple[bool, str], ModelUse]()
        self.waited = 0.0  # seconds

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str | None:
        begun = perf_counter()
        reply = self._answers.answer(question, ask)
        self.waited += perf_counter() - begun
        read = sum(self._count([text for _, text in question.messages]))
        written = min(read, question.answer_tokens) if reply is None else self._count([reply])[0]
        cost = (read * question.prompt_price + written * question.answer_price) / 1e6
        self._uses[reply is not None, question.key] = ModelUse(1, read, written, cost)
        return reply

    def wait(self, seconds: float) -> None:
        self._answers.wait(seconds)

    def use(self, *, answered: bool) -> ModelUse:
        """Return the use of language models by requests with an answer, or by those without."""
        return sum((use for (known, _), use in self._uses.items() if known == answered), ModelUse())


def rehearse(
    strategies: Iterable[Strategy], sample: Sample, tools: AllTools, tokens: Tokens, answers: RecordedAnswers
) -> None:
    """Cut the sample by some strategies without calling a model, to learn which requests they would send.

    The requests are recorded in ``answers``.
    """
    embed = look_alikes(_NARROW)
    for strategy in strategies:
        cutters = _cutters(strategy, tools, embed, tokens, answers)
        for each in sample.documents:
            cutters[each.source].chunker.chunk(each.document, embed, None)


def cut(
    strategy: Strategy, sample: Sample, tools: AllTools, tokens: Tokens, answers: Answers, progress: Progress
) -> SampleCut:
    """Cut the sample by a strategy, and embed the chunks.

    Raises the errors of the chunker and the embedder.
    """
    begun = perf_counter()
    recording = RecordedEmbed(next(iter(tools.values())).embed)
    asking = RecordedAnswers(answers, tokens.counts)
    cutters = _cutters(strategy, tools, recording, tokens, asking)
    documents = [(cutters[each.source], each.document) for each in sample.documents]
    chunkings = _chunk(documents, lambda at: progress(sample.documents[at].item.key))
    chunks = [(at, chunk) for at, chunking in enumerate(chunkings) for chunk in chunking.chunks]
    lines = [
        contexts(document, chunking.chunks, own.context)
        for (own, document), chunking in zip(documents, chunkings, strict=True)
    ]
    vectors = []
    for (own, _), chunking, before in zip(documents, chunkings, lines, strict=True):
        embedded = texts_to_embed(chunking.chunks, before, own.exceeds_window)
        vectors.append(vectors_at(range(len(chunking.chunks)), embedded, chunking, own))
    seconds = perf_counter() - begun - recording.waited - asking.waited
    texts = [chunk.text for _, chunk in chunks]
    counts = tokens.counts(texts)
    places = [
        ChunkPlace(at, chunk.spans or ((chunk.start, chunk.end),), count)
        for (at, chunk), count in zip(chunks, counts, strict=True)
    ]
    read, asked = sum(tokens.counts(list(recording.texts))), asking.use(answered=True)
    every, whole = list(chain.from_iterable(lines)), np.concatenate(vectors)
    return SampleCut(strategy, sample, places, texts, every, whole, read, seconds, asked)


def _cutters(
    strategy: Strategy, tools: AllTools, embed: Embed, tokens: Tokens, answers: Answers
) -> dict[SourceName, Tools]:
    """Return the tools of each source with the strategy's chunker, the given embedder and the answers."""
    cutters = dict[SourceName, Tools]()
    for name, own in tools.items():
        choice = strategy.of(name)
        chunker: Chunker = build_chunker(choice.plugin, choice.options, tokens)
        if isinstance(chunker, Asking):
            chunker = chunker.through(answers)
        options = choice.options if isinstance(choice.options, ChunkerOptions) else ChunkerOptions()
        cutters[name] = replace(
            own, chunker=chunker, describing=replace(own.describing, strategy=choice.plugin.kind),
            embed=embed, context=options.context, neighbours=options.neighbours,
        )  # fmt: skip
    return cutters


def _chunk(documents: Sequence[tuple[Tools, Document]], progress: Callable[[int], None]) -> list[Chunking]:
    """Chunk the documents as if they were all documents of a collection.

    Some chunkers use statistics of the collection. They cut each document twice: first to compute its sums,
    and then with the sums of all other documents.
    """
    alone = list[Chunking]()
    totals: defaultdict[str, Sums] = defaultdict(lambda: np.zeros(1, np.int64))
    for at, (tools, document) in enumerate(documents):
        progress(at)
        alone.append(tools.chunker.chunk(document, tools.embed_whole, None))
        sums = alone[-1].sums
        if sums is not None:
            totals[_statistic(tools)] = totals[_statistic(tools)] + sums
    return [
        tools.chunker.chunk(document, tools.embed_whole, totals[_statistic(tools)] - made.sums)
        if made.sums is not None and len(documents) > 1
        else made
        for (tools, document), made in zip(documents, alone, strict=True)
    ]


def _statistic(tools: Tools) -> str:
    """Return the name of the statistic of the collection that the chunker uses; "" if it uses none."""
    return tools.chunker.statistic if isinstance(tools.chunker, Collective) else ""
