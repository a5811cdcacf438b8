"""Questions of people, and the sections of a manual that answer them: recall, strategy by strategy.

``INGESTOR_FAQS=FOLDER:FOLDER python -m benchmarks faq [TOKENS]`` reads manuals in reStructuredText. Where a
file or a folder is called ``faq…``, its headings are questions, and the sections to which their answers link
by ``:ref:`` are what is asked for. The FAQ itself is not searched, but the documents with these sections, and
others besides until they have TOKENS tokens (60,000), in the order of a digest of their names. Strategies,
recall and intervals are those of ``python -m benchmarks structure``.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks._needs import need
from benchmarks.evaluate import SOURCE, cut_by
from benchmarks.retrieval import tokens
from benchmarks.structure import STRATEGIES, parsed, rank, recalls, show
from ingestor.evaluate.comparison import Floats
from ingestor.evaluate.sample import Sample, SampledDocument
from ingestor.evaluate.scores import EvalQuestion, Excerpt
from ingestor.model import Document, Item
from ingestor.text.sections import headings
from ingestor.text.spans import Span

_REFERENCE = re.compile(r":ref:`(?:[^`<]*<)?([\w.:/+-]+)>?`")
_LABEL = re.compile(r"^[ \t]*\.\. _([\w.:/+-]+):[ \t]*$", re.MULTILINE)
_SHORTEST, _LONGEST = 80, 2000  # characters of a section; of a longer one its beginning is asked for
_WORDS = 4  # of a question


def asked(document: Document) -> Iterator[tuple[str, list[str]]]:
    """The questions of an FAQ, with the labels to which their answers link."""
    for title, (start, end) in sections(document):
        labels = [label.lower() for label in _REFERENCE.findall(document.text[start:end])]
        if labels and len(title.split()) >= _WORDS:
            yield title, labels


def sections(document: Document) -> Iterator[tuple[str, Span]]:
    """Titles, and where the text under each begins and ends, up to the next heading."""
    places = headings(document)
    ends = [*(place.start for place in places), len(document.text)][1:]
    for place, end in zip(places, ends, strict=True):
        lines = document.text[place.start : place.end].strip().splitlines()
        words = (line.strip() for line in lines if any(map(str.isalnum, line)) and not _LABEL.match(line))
        title = next(words, "")
        yield title.replace("``", ""), (place.end, end)


def labelled(document: Document) -> Iterator[tuple[str, Span]]:
    """Labels, which stand above their headings, and the sections that they name."""
    for place, (_, (start, end)) in zip(headings(document), sections(document), strict=True):
        start += len(document.text[start:end]) - len(document.text[start:end].lstrip())
        own = document.text[start : min(end, start + _LONGEST)].rstrip()
        if len(own) >= _SHORTEST:
            for label in _LABEL.findall(document.text[place.start : place.end]):
                yield label.lower(), (start, start + len(own))


def collection(folder: Path, most: int) -> tuple[list[Document], list[EvalQuestion]]:
    """What is searched, and what is asked."""
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=rank)
    whole = [(path, document) for path in paths if (document := parsed(path)) is not None]
    of_faq = [each for path, each in whole if any(part.startswith("faq") for part in _names(folder, path))]
    manual = [(each, dict(labelled(each))) for _, each in whole if each not in of_faq]
    questions = [pair for each in of_faq for pair in asked(each)]
    wanted = {label for _, labels in questions for label in labels}
    found = [pair for pair in manual if wanted & pair[1].keys()]
    left = most
    for each, labels in (pair for pair in manual if not wanted & pair[1].keys()):
        left -= tokens().count(each.text)
        if left < 0:
            break
        found.append((each, labels))
    spans = ((label, Excerpt(at, *span)) for at, (_, own) in enumerate(found) for label, span in own.items())
    answers = dict(spans)
    known = [(title, [answers[label] for label in labels if label in answers]) for title, labels in questions]
    asking = [EvalQuestion(title, tuple(dict.fromkeys(each))) for title, each in known if each]
    return [each for each, _ in found], asking


def _names(folder: Path, path: Path) -> Sequence[str]:
    return [part.lower() for part in path.relative_to(folder).parts]


def main(most: int = 60_000) -> None:
    folders = [Path(folder) for folder in os.environ.get("INGESTOR_FAQS", "").split(os.pathsep) if folder]
    need(
        folders,
        "INGESTOR_FAQS names no folders with manuals and their FAQs, such as doc of SQLAlchemy",
    )
    found, about = list[list[Floats]](), list[int]()
    for folder in folders:
        read, questions = collection(folder, most)
        need(questions, f"{folder} has no FAQ whose answers link to sections by :ref:")
        documents = (SampledDocument(SOURCE, Item(str(at), "", str(at)), one) for at, one in enumerate(read))
        sample = Sample(tuple(documents), len(read))
        cuts = [cut_by(strategy, sample) for strategy in STRATEGIES]
        rows = [recalls(questions, each.places, each.vectors.astype(np.float64)) for each in cuts]
        numbers = [question.excerpts[0].document for question in questions]
        size = sum(tokens().count(each.text) for each in read)
        show(f"{folder.name}, {len(read)} documents, {size:,} tokens", "of FAQs", rows, numbers)
        found.append(rows)
        about += [10_000 * len(found) + number for number in numbers]
    if len(found) > 1:
        whole = [np.concatenate(rows, axis=1) for rows in zip(*found, strict=True)]
        show("all", "of FAQs", whole, about)
        show("all", "of FAQs", whole, about, base=STRATEGIES.index("structure"))
