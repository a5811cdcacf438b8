"""Reads and writes questions as CSV files.

The columns are ``question``, ``excerpt``, ``document`` and ``origin``; the last two are optional. If a
question has several excerpts, each has a row. Strategies may parse the documents with different options, so
the text of one strategy may lack an excerpt. Such an excerpt still counts as not retrieved: it is placed
beyond the end of the document, where no chunk is.
"""

import csv
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ingestor.evaluate.sample import Sample
from ingestor.evaluate.scores import EvalQuestion, Excerpt, Origin
from ingestor.queries.access import BadRequest
from ingestor.units import quantity

_LEAST = 8  # letters and digits; a shorter quotation must match exactly


class Searchable:
    """A document's text, in which quotations are searched.

    A quotation need not match exactly: spaces and punctuation may differ.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, quotation: str) -> tuple[int, int] | None:
        """Return start and end of a quotation's first occurrence; None if the text does not contain it."""
        quotation = quotation.strip()
        at = self.text.find(quotation) if quotation else -1
        if at >= 0:
            return at, at + len(quotation)
        letters, _ = _letters(quotation)
        if len(letters) < _LEAST:
            return None
        whole, places = self._letters
        at = whole.find(letters)
        return (places[at], places[at + len(letters) - 1] + 1) if at >= 0 else None

    @cached_property
    def _letters(self) -> tuple[str, "array[int]"]:
        return _letters(self.text)


def locate_excerpt(quotation: str, documents: Sequence[tuple[int, Searchable]]) -> Excerpt | str:
    """Find the document that contains a quotation, and return the excerpt.

    If no document or several documents contain it, return the reason for refusing the question.
    ``documents``: numbers and texts of the documents to search.
    """
    if not quotation.strip():
        return "the excerpt is empty"
    places = [(number, place) for number, text in documents if (place := text.find(quotation))]
    if len(places) == 1:
        (number, (start, end)), *_ = places
        return Excerpt(number, start, end)
    if places:
        return f"the excerpt is in {quantity(len(places), 'document')}: name one in the column document"
    return "the excerpt is not in the text that was read"


def _letters(text: str) -> tuple[str, "array[int]"]:
    """Return a text's letters and digits, normalised (NFKC) and case-folded, with the offset of each."""
    kept, places = list[str](), array("L")
    for at, character in enumerate(text):
        folded = unicodedata.normalize("NFKC", character).casefold()
        letters = [each for each in folded if each.isalnum()]
        kept += letters
        places.extend([at] * len(letters))
    return "".join(kept), places


_NOTED: dict[str, Origin] = {"made": "made", "model": "model"}  # values that the column origin may have
_COLUMNS = ("question", "excerpt", "document", "origin")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """A row of a file of questions. ``line``: its line in the file, from 1. ``document``: "" if not given."""

    line: int
    question: str
    excerpt: str
    document: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class RefusedQuestion:
    """A question that cannot be used, with the reason.

    ``line``: its line in the file; 0 if it is from no file.
    """

    line: int
    question: str
    reason: str


Sifted = tuple[list[EvalQuestion], list[RefusedQuestion]]  # usable questions, and refused ones


def read_rows(file: Path) -> list[CsvRow]:
    """Read the rows of a file of questions.

    Raises BadRequest if the file is no CSV file with these columns.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            return _rows(file, csv.DictReader(stream))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequest(f"{file} is not a CSV file in UTF-8: {error}") from error
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror or error}") from error


def to_rows(
    questions: Iterable[EvalQuestion], quoted: Iterable[Iterable[str]], names: Sequence[str]
) -> list[CsvRow]:
    """Return the rows of a file for some questions: one row for each excerpt.

    ``quoted``: texts of each question's excerpts. ``names``: names of the documents, by their number.
    """
    rows = list[CsvRow]()
    for question, texts in zip(questions, quoted, strict=True):
        origin = question.origin if question.origin in _NOTED else ""
        for excerpt, text in zip(question.excerpts, texts, strict=True):
            rows.append(CsvRow(0, question.text, text, names[excerpt.document], origin))
    return rows


def write_rows(file: Path, rows: Iterable[CsvRow]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(_COLUMNS)
        out.writerows((row.question, row.excerpt, row.document, row.origin) for row in rows)


def resolve(rows: Sequence[CsvRow], numbers: Mapping[str, int], texts: Sequence[str]) -> Sifted:
    """Find the excerpts of all rows in the documents.

    Return the questions in the order of the file, and the refused questions. A question is refused if one of
    its excerpts is not found. ``numbers``: numbers of the documents, by each name that a file may use.
    ``texts``: texts of the documents.
    """
    searched = [Searchable(text) for text in texts]
    by_question: dict[str, list[Excerpt]] = {}
    refused: dict[str, RefusedQuestion] = {}
    for row in rows:
        number = numbers.get(row.document)
        among = list(enumerate(searched)) if number is None else [(number, searched[number])]
        if not row.question:
            where: Excerpt | str = "the question is empty"
        elif row.document and number is None:
            where = f"document {row.document!r} is not among those that were read"
        else:
            where = locate_excerpt(row.excerpt, among)
        if isinstance(where, Excerpt):
            by_question.setdefault(row.question, []).append(where)
        else:
            refused.setdefault(row.question, RefusedQuestion(row.line, row.question, where))
    origins: dict[str, Origin] = {row.question: known for row in rows if (known := _NOTED.get(row.origin))}
    questions = [
        EvalQuestion(text, tuple(excerpts), origins.get(text, "file"))
        for text, excerpts in by_question.items()
        if text not in refused
    ]
    return questions, sorted(refused.values(), key=lambda each: each.line)


def _rows(file: Path, reader: "csv.DictReader[str]") -> list[CsvRow]:
    """Return the rows that are not empty. Raises BadRequest if a required column is missing."""
    columns = reader.fieldnames or ()
    missing = [name for name in _COLUMNS[:2] if name not in columns]
    if missing:
        raise BadRequest(
            f"{file} has no column {missing[0]!r}; its first line must be: question,excerpt,document"
        )
    return [
        CsvRow(reader.line_num, *((row.get(name) or "").strip() for name in _COLUMNS))
        for row in reader
        if any((row.get(name) or "").strip() for name in _COLUMNS[:2])
    ]


_LOST = "the excerpt is missing in the text as some strategy parses it"


def locate(
    rows: Sequence[CsvRow], samples: Sequence[Sample], *, everywhere: bool
) -> tuple[list[list[EvalQuestion]], list[RefusedQuestion]]:
    """Find the excerpts of all rows in each sample.

    Return the questions for each sample, and the refused questions. ``samples``: the same documents, parsed
    with different settings. ``everywhere``: whether a question is refused unless all samples contain its
    excerpts; otherwise it is enough if one sample contains them.
    """
    resolved = [resolve(rows, each.numbers, each.texts) for each in samples]
    known = [{question.text: question for question in questions} for questions, _ in resolved]
    enough = all if everywhere else any
    texts = dict.fromkeys(row.question for row in rows)
    asked = [text for text in texts if enough(text in one for one in known)]
    anywhere = {text: question for one in reversed(known) for text, question in one.items()}
    by_sample = [
        [one.get(text) or _beyond(anywhere[text], sample) for text in asked]
        for one, sample in zip(known, samples, strict=True)
    ]
    refused = [each for each in resolved[0][1] if each.question not in asked]
    left = known[0].keys() - set(asked)
    return by_sample, [*refused, *(RefusedQuestion(0, text, _LOST) for text in known[0] if text in left)]


def quotations(asked: Sequence[Sequence[EvalQuestion]], samples: Sequence[Sample]) -> list[tuple[str, ...]]:
    """Return the texts of each question's excerpts, from the first sample that contains them.

    ``asked``: for each sample, the questions with their excerpts in its documents.
    """

    def quote(question: EvalQuestion, sample: Sample) -> tuple[str, ...]:
        if not all(has(sample, each) for each in question.excerpts):
            return ()
        texts = sample.texts
        return tuple(texts[each.document][each.start : each.end] for each in question.excerpts)

    return [next(filter(None, map(quote, same, samples))) for same in zip(*asked, strict=True)]


def has(sample: Sample, excerpt: Excerpt) -> bool:
    """Return whether an excerpt lies within the text of its document.

    An excerpt beyond the end stands for one that the document lacks.
    """
    return excerpt.end <= len(sample.documents[excerpt.document].document.text)


def _beyond(question: EvalQuestion, sample: Sample) -> EvalQuestion:
    """Return the question with its excerpts placed beyond the end of their documents, where no chunk is.

    The excerpts do not overlap, so that each counts as not retrieved.
    """
    moved, places = 1, list[Excerpt]()
    for each in question.excerpts:
        start = len(sample.documents[each.document].document.text) + moved
        moved += each.end - each.start
        places.append(Excerpt(each.document, start, start + each.end - each.start))
    return EvalQuestion(question.text, tuple(places), question.origin)
