"""Recall of our default and of LangChain's pipeline, by corpus.

``python -m benchmarks found [TOKENS]``: all-MiniLM-L6-v2, exact search, recall in percent within 500 and 150
tokens, and the 95 % interval of the difference from LangChain's pipeline (recursive 200, vectors, the same
text), paired and clustered by document. Every folder is a collection. The corpora:

- *report*: three corpora of Chroma's report, and their questions;
- *sentences*, *titles*: documents of 250 to 9,000 tokens of the folders in ``INGESTOR_MANUALS``, in the order
  of a digest of their names, until they have TOKENS tokens (45,000). Asked are the questions that ``ingestor
  evaluate`` makes, and headings that stand in a folder once, for the beginning of their sections;
- *FAQ*: manuals in reStructuredText of the folders in ``INGESTOR_FAQS``. Headings of files or folders called
  ``faq…`` are questions, for the sections to which their answers link by ``:ref:``. Searched are the
  documents with these sections, and others up to TOKENS tokens, but not the FAQ itself;
- *code*: modules of Python's standard library up to TOKENS tokens, without the docstrings of their functions.
  These are the questions, and the functions the answers.

Filings have a table of their own: ``python -m benchmarks financebench``. Vectors are kept under ``.cache/``.
"""

import ast
import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path

import numpy as np

from benchmarks._needs import Missing, need
from benchmarks.converters.environments import environment
from benchmarks.evaluate import SOURCE, corpora, cut_by
from benchmarks.financebench import PEER
from benchmarks.retrieval import model, tokens
from ingestor.evaluate.comparison import Floats, compare
from ingestor.evaluate.made_questions import make_questions
from ingestor.evaluate.ranking import Chunks, describe, search
from ingestor.evaluate.sample import Sample, SampledDocument
from ingestor.evaluate.scores import ChunkPlace, EvalQuestion, Excerpt, score, within
from ingestor.model import Blob, Document, Item
from ingestor.parsers.shared import detect
from ingestor.ports import BadDocument, Unsupported
from ingestor.registry import find
from ingestor.search.values import Mode
from ingestor.text.sections import headings
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span

LANGCHAIN = "LangChain, recursive 200"
PIPELINES: dict[str, tuple[Mode, ...]] = {
    "changepoint": ("hybrid", "dense"),
    "changepoint:vectors=encoded": ("dense",),
    "structure": ("hybrid", "dense"),
    "recursive:size=200": ("dense",),
}
BUDGETS = (500, 150)
DEPTH = 60  # hits of a question
_COUNT = 300  # questions of a kind, of each collection
_SMALLEST, _LARGEST = 250, 9000  # tokens of a document
_FEWEST, _BEGINNING = 25, 700  # words and characters of the beginning of a section
_TITLE, _ASKED = range(2, 15), range(4, 99)  # words of a title, and of a question of an FAQ
_SHORTEST, _LONGEST = 80, 2000  # characters of a section; only the beginning of a longer section is asked for
_WORD = re.compile(r"\w[\w'’-]*")
_ROLE = re.compile(r":[\w:+-]+:`([^`<]*)(<[^`]*)?`")
_NUMBER = re.compile(r"^[\d.]+\s+")
_REFERENCE = re.compile(r":ref:`(?:[^`<]*<)?([\w.:/+-]+)>?`")
_LABEL = re.compile(r"^[ \t]*\.\. _([\w.:/+-]+):[ \t]*$", re.MULTILINE)

Asked = tuple[str, list[Document], list[EvalQuestion]]  # the name of a corpus, its documents and questions


def main(most: int = 45_000) -> None:
    known: dict[str, list[tuple[dict[str, Floats], list[int]]]] = {}
    for make in (report, manuals, faqs, code):
        try:
            for name, documents, questions in make(most):
                rows = measure(documents, questions)
                about = [question.excerpts[0].document for question in questions]
                show(f"{name}, {len(documents)} documents", rows, about)
                known.setdefault(name.split(": ")[0], []).append((rows, about))
        except Missing as missing:
            print(f"left out: {missing}")
    for kind, parts in known.items():
        if len(parts) > 1:
            of_all = {each: np.concatenate([rows[each] for rows, _ in parts], axis=1) for each in parts[0][0]}
            about = [1000 * at + number for at, (_, numbers) in enumerate(parts) for number in numbers]
            show(f"{kind}: all", of_all, about)


def measure(documents: Sequence[Document], questions: Sequence[EvalQuestion]) -> dict[str, Floats]:
    """Return the recall of each pipeline, LangChain's first: a row for each budget."""
    texts = [question.text for question in questions]
    asked = model().embed(texts)

    def recalls(places: Sequence[ChunkPlace], order: Sequence[Sequence[int]]) -> Floats:
        scored = [
            [score(q.excerpts, list(within([places[at] for at in best], most))).recall for most in BUDGETS]
            for q, best in zip(questions, order, strict=True)
        ]
        return np.array(scored, np.float64).T

    rows: dict[str, Floats] = {}
    if peer := langchain(documents):
        places, chunks = peer
        rows[LANGCHAIN] = recalls(places, search("dense", texts, asked, chunks, DEPTH))
    items = [Item(str(at), "", str(at)) for at in range(len(documents))]
    sampled = tuple(SampledDocument(SOURCE, *each) for each in zip(items, documents, strict=True))
    for strategy, modes in PIPELINES.items():
        made = cut_by(strategy, Sample(sampled, len(sampled)))
        numbers = [place.document for place in made.places]
        chunks = Chunks(made.texts, made.vectors, numbers, describe(made))
        for mode in modes:
            order = search(mode, texts, asked, chunks, DEPTH)
            rows[f"{strategy}, {mode}"] = recalls(made.places, order)
    return rows


def langchain(documents: Sequence[Document]) -> tuple[list[ChunkPlace], Chunks] | None:
    """Return the chunks that LangChain's splitter makes of the texts; None if pip cannot install it."""
    script = str(Path(__file__).with_name("_langchain.py"))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.txt" for number in range(len(documents))]
        for path, document in zip(paths, documents, strict=True):
            path.write_text(document.text, "utf-8", newline="")
        try:
            command = [environment(PEER), script, "200", *map(str, paths)]
        except subprocess.CalledProcessError:
            return None
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    made = [(int(Path(path).stem), at, text) for path, at, text in map(json.loads, done.stdout.splitlines())]
    texts = [text for _, _, text in made]
    places = [
        ChunkPlace(number, ((at, at + len(text)),), size)
        for (number, at, text), size in zip(made, tokens().counts(texts), strict=True)
    ]
    return places, Chunks(texts, model().embed(texts), [place.document for place in places], [])


def show(name: str, rows: Mapping[str, Floats], about: Sequence[int]) -> None:
    """Print a row for each pipeline, with differences from the first."""
    print(f"\n{name}: {len(about)} questions; recall at {BUDGETS[0]} and {BUDGETS[1]} tokens")
    base = next(iter(rows.values()))
    for pipeline, row in rows.items():
        cells = []
        for at in range(len(BUDGETS)):
            gained = compare(np.array([row[at], base[at]]), about).difference(0, 1).interval
            ends = f"{100 * gained.mean:+5.1f} ({100 * gained.low:+.1f} to {100 * gained.high:+.1f})"
            cells.append(f"{100 * row[at].mean():5.1f} {ends:>24}")
        print(f"  {pipeline:36} {'   '.join(cells)}", flush=True)


def report(most: int) -> Iterator[Asked]:
    asked, sample = corpora()
    yield "report", [each.document for each in sample.documents], asked


def manuals(most: int) -> Iterator[Asked]:
    for folder in _folders("INGESTOR_MANUALS", "manuals, such as docs of Django's source"):
        read = list(_documents(folder, most))
        need(read, f"{folder} has no documents of {_SMALLEST} to {_LARGEST} tokens")
        for kind, questions in (("sentences", make_questions(read, _COUNT)), ("titles", _titles(read))):
            if questions:
                yield f"{kind}: {folder.name}", read, questions


def faqs(most: int) -> Iterator[Asked]:
    for folder in _folders("INGESTOR_FAQS", "manuals and their FAQs, such as doc of SQLAlchemy"):
        read, questions = _collection(folder, most)
        need(questions, f"{folder} has no FAQ whose answers link to sections by :ref:")
        yield f"FAQ: {folder.name}", read, questions


def code(most: int) -> Iterator[Asked]:
    sources = [path for path in sorted(Path(ast.__file__).parent.glob("*.py")) if path.stat().st_size > 8000]
    parser = find("parsers", "code").build(None)
    read, questions, total = list[Document](), list[EvalQuestion](), 0
    for path in sources[:: max(1, len(sources) // 20)]:
        text, asked = _without_docstrings(path.read_text("utf-8"), len(read))
        read.append(parser.parse(Blob(text.encode(), path.name)))
        questions += asked
        total += tokens().count(text)
        if total > most:
            break
    yield "code", read, questions


def _folders(variable: str, what: str) -> list[Path]:
    folders = [Path(folder) for folder in os.environ.get(variable, "").split(os.pathsep) if folder]
    need(folders, f"{variable} names no folders with {what}")
    return folders


def _documents(folder: Path, most: int) -> Iterator[Document]:
    """Yield documents until they have so many tokens. Documents with the same beginning are one."""
    total, seen = 0, set[str]()
    for path in _ordered(folder):
        document = _parsed(path)
        size = tokens().count(document.text) if document else 0
        if document is None or document.text[:3000] in seen or not _SMALLEST <= size <= _LARGEST:
            continue
        seen.add(document.text[:3000])
        yield document
        total += size
        if total > most:
            return


def _ordered(folder: Path) -> list[Path]:
    def rank(path: Path) -> str:
        return blake2b(f"{path.name}/{path.parent.name}".encode(), digest_size=8).hexdigest()

    return sorted((path for path in folder.rglob("*") if path.is_file()), key=rank)


def _parsed(path: Path) -> Document | None:
    blob = Blob(path.read_bytes(), path.name.replace(".rst.txt", ".rst"))
    try:
        plugin = find("parsers", detect.parser_kind(detect.content_type(blob)))
        document: Document = plugin.build(plugin.options()).parse(blob)
    except (BadDocument, Unsupported):
        return None
    return document


def _titles(read: Sequence[Document]) -> list[EvalQuestion]:
    """Return headings as questions for the beginning of their sections."""
    asked = [
        (title, EvalQuestion(title, (Excerpt(number, *answer),)))
        for number, document in enumerate(read)
        for title, answer in _beginnings(document)
    ]
    times = Counter(title.lower() for title, _ in asked)
    return [question for title, question in asked if times[title.lower()] == 1][:_COUNT]


def _beginnings(document: Document) -> Iterator[tuple[str, Span]]:
    """Yield titles with the place where the text under each begins, if there is enough of it."""
    blocks = [block for block in document.blocks if block.kind == "heading" and block.title]
    places = headings(document)
    ends = [*(place.start for place in places), len(document.text)][1:]
    for place, end in zip(places, ends, strict=True):
        own = next((block.title or "" for block in blocks if place.start <= block.start < place.end), "")
        title = _NUMBER.sub("", re.sub(r"[`*_=]+", " ", _ROLE.sub(r"\1", own))).strip()
        stated = sentences(document.text, (place.end, end))
        close = [stop for _, stop in stated if stop - stated[0][0] <= _BEGINNING] or [
            s[1] for s in stated[:1]
        ]
        if close and len(_WORD.findall(title)) in _TITLE:
            answer = stated[0][0], close[-1]
            if len(_WORD.findall(document.text[slice(*answer)])) >= _FEWEST:
                yield title, answer


def _collection(folder: Path, most: int) -> tuple[list[Document], list[EvalQuestion]]:
    """Return the documents that are searched for an FAQ, and the FAQ's questions."""
    whole = [(path, document) for path in _ordered(folder) if (document := _parsed(path)) is not None]
    of_faq = [
        each
        for path, each in whole
        if any(part.lower().startswith("faq") for part in path.relative_to(folder).parts)
    ]
    manual = [(each, dict(_labelled(each))) for _, each in whole if each not in of_faq]
    asked = [
        (title, [label.lower() for label in _REFERENCE.findall(each.text[start:end])])
        for each in of_faq
        for title, _, (start, end) in _sections(each)
        if len(title.split()) in _ASKED
    ]
    wanted = {label for _, labels in asked for label in labels}
    kept = [pair for pair in manual if wanted & pair[1].keys()]
    left = most
    for pair in (pair for pair in manual if not wanted & pair[1].keys()):
        left -= tokens().count(pair[0].text)
        if left < 0:
            break
        kept.append(pair)
    answers = {label: Excerpt(at, *span) for at, (_, own) in enumerate(kept) for label, span in own.items()}
    known = [(title, [answers[label] for label in labels if label in answers]) for title, labels in asked]
    questions = [EvalQuestion(title, tuple(dict.fromkeys(each))) for title, each in known if each]
    return [each for each, _ in kept], questions


def _labelled(document: Document) -> Iterator[tuple[str, Span]]:
    """Yield labels, which stand above their headings, and the sections that they name."""
    for _, heading, (start, end) in _sections(document):
        start += len(document.text[start:end]) - len(document.text[start:end].lstrip())
        own = document.text[start : min(end, start + _LONGEST)].rstrip()
        if len(own) >= _SHORTEST:
            for label in _LABEL.findall(document.text[slice(*heading)]):
                yield label.lower(), (start, start + len(own))


def _sections(document: Document) -> Iterator[tuple[str, Span, Span]]:
    """Yield each title, the place of its heading, and that of the text up to the next heading."""
    places = headings(document)
    ends = [*(place.start for place in places), len(document.text)][1:]
    for place, end in zip(places, ends, strict=True):
        lines = document.text[place.start : place.end].strip().splitlines()
        words = (line.strip() for line in lines if any(map(str.isalnum, line)) and not _LABEL.match(line))
        yield next(words, "").replace("``", ""), (place.start, place.end), (place.end, end)


def _without_docstrings(text: str, number: int) -> tuple[str, list[EvalQuestion]]:
    """Return the text without the docstrings of functions, and a question of each that has six words."""
    lines, asked = text.splitlines(keepends=True), list[tuple[str, int, int]]()
    for node in ast.walk(ast.parse(text)):
        stated = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
        if stated and len(node.body) > 2:  # type: ignore[attr-defined]
            first = node.body[0]  # type: ignore[attr-defined]
            lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
            words = stated.split("\n\n")[0].split()
            if 6 <= len(words) <= 40:
                asked.append((" ".join(words), node.lineno - 1, node.end_lineno))  # type: ignore[attr-defined]
    starts = [0, *accumulate(map(len, lines))]
    return "".join(lines), [
        EvalQuestion(words, (Excerpt(number, starts[first], starts[last]),)) for words, first, last in asked
    ]
