"""Chunks rewritten as a collection grows, by strategies whose cuts depend on all of it.

``python -m benchmarks drift [TOKENS]``: the three corpora in documents of about 500 tokens, added one by one
in five random orders, with all-MiniLM-L6-v2. After each addition the documents whose interval the
collection's statistic has left are cut again, as in the engine. For each added document, *disturbed* counts
earlier documents that were cut again, and *rewritten* counts their changed chunks. The next columns have the
same for the second half of the documents. *stale* is the share of final chunks that a fresh run would not
make. Vectors are kept under ``.cache/``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import numpy.typing as npt

from benchmarks.retrieval import Strategy, load, model, tokens
from ingestor.model import Chunking, Document, Sums, Vectors
from ingestor.ports import Chunker, Collective
from ingestor.registry import find

Counts = npt.NDArray[np.int64]  # shape (documents, 2): disturbed, rewritten

ORDERS = 5
STRATEGIES = [
    Strategy("cluster", {"max_tokens": 400}),
    Strategy("cluster", {"max_tokens": 400, "drift": 0.01}),
    Strategy("cluster", {"max_tokens": 400, "scope": "document"}),
    Strategy("changepoint", {"target": 125}),
    Strategy("changepoint", {"target": 125, "drift": 0.01}),
    Strategy("changepoint", {"target": 125, "drift": 0.1}),
    Strategy("changepoint", {"target": 125, "scope": "document"}),
]


@dataclass
class Collection:
    """Collection whose documents are cut as in the engine."""

    chunker: Chunker
    documents: dict[int, Document] = field(default_factory=dict)
    made: dict[int, Chunking] = field(default_factory=dict)
    total: Sums | None = None

    def add(self, number: int, document: Document) -> tuple[int, int]:
        """Add a document; return the numbers of disturbed documents and rewritten chunks."""
        self.documents[number] = document
        self.made[number] = self.chunker.chunk(document, embed, self.total)
        self.total = _plus(self.total, self.made[number].sums)
        due = self._due()
        return len(due), sum(self._again(number) for number in due)

    def stale(self) -> float:
        """Return the share of chunks that a fresh run would not make."""
        return sum(map(self._again, self.documents)) / sum(len(made.chunks) for made in self.made.values())

    def _due(self) -> list[int]:
        if not isinstance(self.chunker, Collective) or self.total is None:
            return []
        value, intervals = self.chunker.value(self.total), {n: made.interval for n, made in self.made.items()}
        return [n for n, found in intervals.items() if found and not found[0] <= value <= found[1]]

    def _again(self, number: int) -> int:
        """Cut a document again; return the number of changed chunks."""
        before = self.made[number]
        others = None if self.total is None or before.sums is None else self.total - before.sums
        after = self.made[number] = self.chunker.chunk(self.documents[number], embed, others)
        return len(set(after.chunks) - set(before.chunks))


def _plus(total: Sums | None, own: Sums | None) -> Sums | None:
    return own if total is None or own is None else total + own


def documents(size: int) -> list[Document]:
    """Return the corpora in parts of up to ``size`` tokens."""
    plugin = find("chunkers", "recursive")
    chunker = plugin.build(plugin.options(size=size), tokens())
    return [
        Document(chunk.text)
        for corpus in load()[0].values()
        for chunk in chunker.chunk(corpus, embed, None).chunks
    ]


_VECTORS: dict[str, Vectors] = {}


def embed(texts: Sequence[str]) -> Vectors:
    missing = [text for text in dict.fromkeys(texts) if text not in _VECTORS]
    _VECTORS.update(zip(missing, model().embed(missing), strict=True))
    return np.array([_VECTORS[text] for text in texts])


def grown(strategy: Strategy, order: Sequence[Document]) -> tuple[Collection, Counts]:
    """Return the collection of all documents, and the effect of each addition on earlier documents."""
    plugin = find("chunkers", strategy.kind)
    collection = Collection(plugin.build(plugin.options(**strategy.options), tokens()))
    return collection, np.array([collection.add(number, document) for number, document in enumerate(order)])


def row(strategy: Strategy, found: Sequence[Document]) -> str:
    effects, stale, chunks = [], [], []
    for seed in range(ORDERS):
        collection, counts = grown(strategy, Random(seed).sample(found, len(found)))
        effects.append(counts)
        chunks.append(sum(len(made.chunks) for made in collection.made.values()))
        stale.append(collection.stale())
    mean = np.mean(effects, axis=(0, 1))
    late = np.mean([counts[len(found) // 2 :] for counts in effects], axis=(0, 1))
    cells = " ".join(f"{cell:9.2f}" for cell in (*mean, *late))
    return f"{strategy.name:42} {np.mean(chunks):6.0f} {cells} {100 * np.mean(stale):7.1f} %"


def main(size: int = 500) -> None:
    found = documents(size)
    print(f"{len(found)} documents; for each one added:")
    heads = " ".join(f"{head:>9}" for head in ("disturbed", "rewritten", "disturbed", "rewritten", "stale"))
    print(f"{'strategy':42} {'chunks':>6} {heads}")
    for strategy in STRATEGIES:
        print(row(strategy, found), flush=True)
