"""Token-level retrieval scores of every strategy, on three corpora and their 276 questions.

``python -m benchmarks retrieval`` [Smith & Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma
technical report, 2024]. All corpora are one collection, all-MiniLM-L6-v2, the 5 nearest chunks by exact
search, scores on character ranges. Scores are in percent: means over the questions, with +/- one standard
deviation. *omega* is the precision if every chunk with a token of the excerpts is retrieved. *first* is the
recall of the published code, which takes the first occurrence of a chunk's text as its place.

*read* is how often the model reads the text. *seconds* is the time for that at the speed measured on this
machine, plus the processor's time for cutting. Vectors are kept under ``.cache/``.
"""

import csv
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._needs import evaluation
from ingestor.chunkers.options import ChunkerOptions
from ingestor.model import Chunk, Chunking, Document, Vectors
from ingestor.ports import Chunker
from ingestor.registry import find, kinds
from ingestor.segmentation.pooling import mix
from ingestor.text.spans import Span
from ingestor.text.tokens import Tokens
from tests.minilm import CachedModel

NEAREST = 5
ASK_A_MODEL = {"llm", "proposition"}

Scores = npt.NDArray[
    np.float64
]  # shape (questions, 5): recall, precision, omega, IoU, recall at first occurrences


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    corpus: str
    excerpts: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a chunk: one span, or several."""

    corpus: str
    spans: tuple[Span, ...]

    @property
    def length(self) -> int:
        return sum(end - start for start, end in self.spans)


@dataclass(frozen=True, slots=True)
class Strategy:
    kind: str
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        return " ".join([self.kind, *(f"{key}={value}" for key, value in self.options.items())])


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A strategy's chunks of the corpora, and their cost."""

    places: Sequence[Place]
    firsts: Sequence[Place]
    vectors: Vectors
    sizes: Sequence[int]
    read: float
    seconds: float


REFERENCES = [
    Strategy("recursive", {"size": 200}),
    Strategy("recursive", {"size": 400}),
    Strategy("fixed", {"size": 250, "overlap": 125}),
    Strategy("fixed", {"size": 400, "overlap": 200}),
    Strategy("cluster", {"max_tokens": 200}),
    Strategy("cluster", {"max_tokens": 400}),
]
VARIANTS = [
    Strategy("recursive", {"size": 400, "neighbours": 0.3}),
    Strategy("cluster", {"max_tokens": 200, "neighbours": 0.3}),
    Strategy("cluster", {"max_tokens": 200, "vectors": "pooled"}),
    Strategy("cluster", {"max_tokens": 200, "scope": "document"}),
    Strategy("breakpoint", {"threshold": "standard_deviation"}),
    Strategy("breakpoint", {"threshold": "interquartile"}),
    Strategy("breakpoint", {"threshold": "gradient"}),
    Strategy("breakpoint", {"max_tokens": 400}),
    Strategy("breakpoint", {"max_tokens": 400, "vectors": "pooled"}),
    Strategy("double_pass", {"vectors": "pooled"}),
    Strategy("similarity", {"vectors": "pooled", "threshold": 0.4}),
    Strategy("changepoint", {"target": 100}),
    Strategy("changepoint", {"target": 125, "vectors": "encoded"}),
    Strategy("changepoint", {"target": 250}),
]


@cache
def model() -> CachedModel:
    return CachedModel()


@cache
def tokens() -> Tokens:
    return Tokens()


def load() -> tuple[dict[str, Document], list[Question]]:
    data = evaluation()
    texts = {path.stem: path.read_text("utf-8") for path in sorted(data.glob("*.md"))}
    with (data / "questions.csv").open(encoding="utf-8", newline="") as file:
        questions = [
            Question(
                row["question"],
                row["corpus_id"],
                tuple((found["start_index"], found["end_index"]) for found in json.loads(row["references"])),
            )
            for row in csv.DictReader(file)
            if row["corpus_id"] in texts
        ]
    return {name: Document(text) for name, text in texts.items()}, questions


class Reading:
    """Embeds texts, and counts their tokens; a repeated text counts once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self.waited = 0.0

    def embed(self, texts: Sequence[str]) -> Vectors:
        start = time.process_time()
        self._seen.update(texts)
        found = model().embed(texts)
        self.waited += time.process_time() - start
        return found

    @property
    def tokens(self) -> int:
        return sum(tokens().counts(list(self._seen)))


def run(strategy: Strategy, documents: Mapping[str, Document], speed: float) -> Run:
    """Run a strategy. ``speed``: tokens that the model reads in a second."""
    plugin, reading = find("chunkers", strategy.kind), Reading()
    options = plugin.options(**strategy.options)
    assert isinstance(options, ChunkerOptions)
    start = time.process_time()
    made = chunked(plugin.build(options, tokens()), documents, reading)
    cutting = time.process_time() - start - reading.waited
    found = [encoded(chunking, options, reading) for chunking in made.values()]
    chunks = [(name, chunk) for name, chunking in made.items() for chunk in chunking.chunks]
    whole = sum(tokens().counts([document.text for document in documents.values()]))
    return Run(
        [Place(name, chunk.spans or ((chunk.start, chunk.end),)) for name, chunk in chunks],
        [Place(name, (first_occurrence(documents[name].text, chunk),)) for name, chunk in chunks],
        np.concatenate(found),
        tokens().counts([chunk.text for _, chunk in chunks]),
        reading.tokens / whole,
        reading.tokens / speed + cutting,
    )


def chunked(chunker: Chunker, documents: Mapping[str, Document], reading: Reading) -> dict[str, Chunking]:
    """Chunk all documents as one collection, each with the sums of the others."""
    alone = {name: chunker.chunk(document, reading.embed, None) for name, document in documents.items()}
    made = {}
    for name, document in documents.items():
        others = [chunking.sums for other, chunking in alone.items() if other != name]
        sums = [found for found in others if found is not None]
        made[name] = chunker.chunk(document, reading.embed, np.sum(sums, axis=0)) if sums else alone[name]
    return made


def encoded(chunking: Chunking, options: ChunkerOptions, reading: Reading) -> Vectors:
    """Return the chunks' vectors like the pipeline (pipeline/prepare.py), without context."""
    if chunking.vectors is not None:
        return chunking.vectors
    return mix(reading.embed([chunk.text for chunk in chunking.chunks]), options.neighbours)


def first_occurrence(text: str, chunk: Chunk) -> Span:
    at = text.find(chunk.text)
    return (at, at + len(chunk.text)) if at >= 0 else (chunk.start, chunk.end)


def scores(made: Run, questions: Sequence[Question]) -> Scores:
    asked = model().embed([question.text for question in questions])
    nearest = np.argsort(-(asked @ made.vectors.T), axis=1, kind="stable")[:, :NEAREST]
    rows = []
    for question, best in zip(questions, nearest.tolist(), strict=True):
        holding = [place for place in made.places if common(question, [place])]
        recall, precision, iou = score(question, [made.places[at] for at in best])
        first, _, _ = score(question, [made.firsts[at] for at in best])
        rows.append((recall, precision, score(question, holding)[1], iou, first))
    return np.array(rows) * 100


def score(question: Question, found: Sequence[Place]) -> tuple[float, float, float]:
    """Return recall, precision and IoU. Text retrieved twice counts once as right, and twice as retrieved."""
    hit, wanted = common(question, found), covered(question.excerpts)
    retrieved = sum(place.length for place in found)
    return hit / wanted, hit / retrieved if retrieved else 0.0, hit / (wanted + retrieved - hit)


def common(question: Question, found: Iterable[Place]) -> int:
    """Count the characters of the excerpts that are in one of the places."""
    spans = (span for place in found if place.corpus == question.corpus for span in place.spans)
    return covered(overlaps(spans, question.excerpts))


def overlaps(spans: Iterable[Span], excerpts: Sequence[Span]) -> Iterator[Span]:
    for start, end in spans:
        yield from ((max(start, a), min(end, b)) for a, b in excerpts if max(start, a) < min(end, b))


def covered(spans: Iterable[Span]) -> int:
    """Count the characters in at least one span."""
    total, at = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, at), 0)
        at = max(at, end)
    return total


def gain(better: Scores, than: Scores, column: int) -> str:
    """Return the mean difference of two strategies over the questions, with its 95 % bootstrap interval."""
    differences = better[:, column] - than[:, column]
    picks = np.random.default_rng(0).integers(len(differences), size=(10_000, len(differences)))
    low, high = np.percentile(differences[picks].mean(axis=1), [2.5, 97.5])
    return f"{differences.mean():+.1f} ({low:+.1f} to {high:+.1f})"


def measured_speed() -> float:
    """Measure tokens a second, with uncached chunks of 200 tokens."""
    chunker = Strategy("recursive", {"size": 200})
    document = next(iter(load()[0].values()))
    plugin = find("chunkers", chunker.kind)
    made = plugin.build(plugin.options(**chunker.options), tokens()).chunk(document, model().embed, None)
    texts = [chunk.text for chunk in made.chunks[:64]]
    model().fresh(texts[:8])
    start = time.perf_counter()
    model().fresh(texts)
    return sum(tokens().counts(texts)) / (time.perf_counter() - start)


def row(strategy: Strategy, made: Run, found: Scores) -> str:
    means, deviations = found.mean(axis=0), found.std(axis=0)
    cells = [f"{means[at]:5.1f} ± {deviations[at]:4.1f}" for at in range(4)]
    size = sum(made.sizes) / len(made.sizes)
    return (
        f"{strategy.name:48} {len(made.sizes):6} {size:6.0f} {'  '.join(cells)}  {means[4]:5.1f}"
        f" {made.read:5.1f} {made.seconds:8.1f}"
    )


def main() -> None:
    documents, questions = load()
    speed = measured_speed()
    print(f"{len(questions)} questions; the model reads {speed:,.0f} tokens a second")
    heads = ("recall", "precision", "omega", "IoU")
    columns = "  ".join(f"{head:^12}" for head in heads)
    print(f"{'strategy':48} {'chunks':>6} {'tokens':>6} {columns}  first  read  seconds")
    defaults = [Strategy(kind, {}) for kind in kinds("chunkers") if kind not in ASK_A_MODEL]
    results = {}
    for strategy in [*REFERENCES, *defaults, *VARIANTS]:
        made = run(strategy, documents, speed)
        found = scores(made, questions)
        results[strategy.name] = found
        print(row(strategy, made, found), flush=True)
        if strategy == REFERENCES[4]:
            size = round(sum(made.sizes) / len(made.sizes))
    equal = Strategy("changepoint", {"target": size})
    made = run(equal, documents, speed)
    found, cluster = scores(made, questions), results[REFERENCES[4].name]
    print(row(equal, made, found))
    print(f"\n{equal.name} against {REFERENCES[4].name}, with 95 % bootstrap intervals over the questions:")
    for column, name in enumerate(heads):
        print(f"  {name:10} {gain(found, cluster, column)}")
