"""What ``structure`` does for manuals: recall of sentences and of titles, strategy by strategy.

``INGESTOR_MANUALS=FOLDER:FOLDER python -m benchmarks structure [TOKENS]`` takes documents of 250 to 9,000
tokens from each folder, in the order of a digest of their names, until they have TOKENS tokens (45,000), and
makes a collection of them. *Sentences* are the questions that ``ingestor evaluate`` makes. *Titles* are
headings of 2 to 14 words, each asked for the beginning of its own section; a title that stands in a
collection twice is left out. Recall is that within 500 and 150 tokens. Differences are from the default, and
for all collections together also from ``structure``, with paired 95 % intervals, clustered by document.
Vectors are kept under ``.cache/``.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from benchmarks._needs import need
from benchmarks.evaluate import SOURCE, cut_by
from benchmarks.retrieval import model, tokens
from ingestor.evaluate.comparison import Floats, compare
from ingestor.evaluate.made_questions import make_questions
from ingestor.evaluate.ranking import nearest
from ingestor.evaluate.sample import Sample, SampledDocument
from ingestor.evaluate.scores import ChunkPlace, EvalQuestion, Excerpt, enough, score, within
from ingestor.model import Blob, Document, Item
from ingestor.parsers.shared import detect
from ingestor.ports import BadDocument, Unsupported
from ingestor.registry import find
from ingestor.text.sections import headings
from ingestor.text.sentences import sentences

STRATEGIES = (
    "changepoint", "structure", "changepoint:structure=0", "changepoint:vectors=encoded", "recursive:size=200"
)  # fmt: skip
BUDGETS = (500, 150)
_COUNT = 300  # questions of a kind, of each collection
_SMALLEST, _LARGEST = 250, 9000  # tokens of a document
_FEWEST, _LONGEST = 25, 700  # words and characters of the beginning of a section
_WORDS = range(2, 15)  # of a title
_WORD = re.compile(r"\w[\w'’-]*")
_ROLE = re.compile(r":[\w:+-]+:`([^`<]*)(<[^`]*)?`")
_NUMBER = re.compile(r"^[\d.]+\s+")


def documents(folder: Path, most: int) -> Iterator[Document]:
    """Until they have so many tokens. Those with the same beginning are one."""
    found, seen = 0, set[str]()
    for path in sorted((path for path in folder.rglob("*") if path.is_file()), key=rank):
        document = parsed(path)
        size = tokens().count(document.text) if document else 0
        if document is None or document.text[:3000] in seen or not _SMALLEST <= size <= _LARGEST:
            continue
        seen.add(document.text[:3000])
        yield document
        found += size
        if found > most:
            return


def rank(path: Path) -> str:
    return blake2b(f"{path.name}/{path.parent.name}".encode(), digest_size=8).hexdigest()


def parsed(path: Path) -> Document | None:
    blob = Blob(path.read_bytes(), path.name.replace(".rst.txt", ".rst"))
    try:
        plugin = find("parsers", detect.parser_kind(detect.content_type(blob)))
        document: Document = plugin.build(plugin.options()).parse(blob)
    except (BadDocument, Unsupported):
        return None
    return document


def titles(found: Sequence[Document]) -> list[EvalQuestion]:
    asked = [
        (title, EvalQuestion(title, (Excerpt(number, *answer),)))
        for number, document in enumerate(found)
        for title, answer in _sections(document)
    ]
    times = Counter(title.lower() for title, _ in asked)
    return [question for title, question in asked if times[title.lower()] == 1][:_COUNT]


def _sections(document: Document) -> Iterator[tuple[str, tuple[int, int]]]:
    """Titles, and where the text under each begins and ends, of which there must be enough."""
    blocks = [block for block in document.blocks if block.kind == "heading" and block.title]
    places = headings(document)
    ends = [*(place.start for place in places), len(document.text)][1:]
    for place, end in zip(places, ends, strict=True):
        said = next((block.title or "" for block in blocks if place.start <= block.start < place.end), "")
        title = _NUMBER.sub("", re.sub(r"[`*_=]+", " ", _ROLE.sub(r"\1", said))).strip()
        stated = sentences(document.text, (place.end, end))
        close = [stop for _, stop in stated if stop - stated[0][0] <= _LONGEST] or [s[1] for s in stated[:1]]
        if close and len(_WORD.findall(title)) in _WORDS:
            answer = stated[0][0], close[-1]
            if len(_WORD.findall(document.text[slice(*answer)])) >= _FEWEST:
                yield title, answer


def recalls(questions: Sequence[EvalQuestion], places: Sequence[ChunkPlace], vectors: Floats) -> Floats:
    """One row a budget."""
    asked = model().embed([question.text for question in questions])
    ranked = nearest(asked, vectors.astype(np.float32), enough(places, max(BUDGETS)))
    rows = [
        [score(each.excerpts, list(within([places[at] for at in best], budget))).recall for budget in BUDGETS]
        for each, best in zip(questions, ranked, strict=True)
    ]
    return np.array(rows, np.float64).reshape(-1, len(BUDGETS)).T


def main(most: int = 45_000) -> None:
    folders = [Path(folder) for folder in os.environ.get("INGESTOR_MANUALS", "").split(os.pathsep) if folder]
    need(folders, "INGESTOR_MANUALS names no folders with manuals, such as docs of Django's source")
    found: dict[str, list[list[Floats]]] = {"sentences": [], "titles": []}
    about: dict[str, list[list[int]]] = {"sentences": [], "titles": []}
    for folder in folders:
        read = list(documents(folder, most))
        need(read, f"{folder} has no documents of {_SMALLEST} to {_LARGEST} tokens")
        sample = Sample(
            tuple(SampledDocument(SOURCE, Item(str(at), "", str(at)), one) for at, one in enumerate(read)),
            len(read),
        )
        cuts = [cut_by(strategy, sample) for strategy in STRATEGIES]
        for kind, questions in (("sentences", make_questions(read, _COUNT)), ("titles", titles(read))):
            if not questions:
                continue
            rows = [recalls(questions, each.places, each.vectors.astype(np.float64)) for each in cuts]
            numbers = [question.excerpts[0].document for question in questions]
            found[kind].append(rows)
            about[kind].append([1000 * len(about[kind]) + number for number in numbers])
            show(f"{folder.name}, {len(read)} documents", kind, rows, numbers)
    for kind, each in found.items():
        if len(each) > 1:
            whole = [np.concatenate(rows, axis=1) for rows in zip(*each, strict=True)]
            every = [number for numbers in about[kind] for number in numbers]
            show("all", kind, whole, every)
            show("all", kind, whole, every, base=STRATEGIES.index("structure"))


def show(name: str, kind: str, rows: Sequence[Floats], numbers: Sequence[int], base: int = 0) -> None:
    """``base``: the strategy that others are compared with."""
    print(f"\n{name}: {len(numbers)} questions, {kind}; recall at {BUDGETS[0]} and {BUDGETS[1]} tokens")
    for strategy, row in zip(STRATEGIES, rows, strict=True):
        cells = []
        for at in range(len(BUDGETS)):
            gained = compare(np.array([row[at], rows[base][at]]), numbers).difference(0, 1).interval
            ends = f"{100 * gained.mean:+5.1f} ({100 * gained.low:+.1f} to {100 * gained.high:+.1f})"
            cells.append(f"{100 * row[at].mean():5.1f} {ends:>24}")
        print(f"  {strategy:28} {'   '.join(cells)}", flush=True)
