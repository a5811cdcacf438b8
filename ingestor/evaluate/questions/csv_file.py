"""Questions as a CSV file: ``question``, ``excerpt``, and ``document`` and ``origin`` where known.

Several rows with one question are several excerpts that answer it.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingestor.app.queries import BadRequest
from ingestor.evaluate.questions.excerpts import Searchable, locate
from ingestor.evaluate.scores import EvalQuestion, Excerpt, Origin

_NOTED: dict[str, Origin] = {"made": "made", "model": "model"}  # in the column origin
_COLUMNS = ("question", "excerpt", "document", "origin")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """``line`` counts from 1; ``document`` is "" where the file does not name it."""

    line: int
    question: str
    excerpt: str
    document: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class RefusedQuestion:
    """A question that is not asked, and why. ``line``: of its file; 0 where it is not from one."""

    line: int
    question: str
    reason: str


def read(file: Path) -> list[CsvRow]:
    """Raises BadRequest where it is no such file."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            return _rows(file, csv.DictReader(stream))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequest(f"{file} is not a CSV file in UTF-8: {error}") from error
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror or error}") from error


def rows_of(
    questions: Iterable[EvalQuestion], quoted: Iterable[Iterable[str]], names: Sequence[str]
) -> list[CsvRow]:
    """Return a row for each excerpt of each question.

    ``quoted``: texts of each question's excerpts. ``names``: names of the documents, by number.
    """
    return [
        CsvRow(
            0,
            question.text,
            text,
            names[excerpt.document],
            question.origin if question.origin in _NOTED else "",
        )
        for question, texts in zip(questions, quoted, strict=True)
        for excerpt, text in zip(question.excerpts, texts, strict=True)
    ]


def write(file: Path, rows: Iterable[CsvRow]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(_COLUMNS)
        out.writerows((row.question, row.excerpt, row.document, row.origin) for row in rows)


def resolve(
    rows: Sequence[CsvRow], numbers: Mapping[str, int], texts: Sequence[str]
) -> tuple[list[EvalQuestion], list[RefusedQuestion]]:
    """The questions, in the order of the file. One row that is refused has its whole question refused.

    ``numbers``: of the documents, by every name that a file may call them.
    """
    searched = [Searchable(text) for text in texts]
    by_question: dict[str, list[Excerpt]] = {}
    refused: dict[str, RefusedQuestion] = {}
    for row in rows:
        where = _locate(row, numbers, searched)
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


def _locate(row: CsvRow, numbers: Mapping[str, int], searched: Sequence[Searchable]) -> Excerpt | str:
    if not row.question:
        return "the question is empty"
    if not row.document:
        return locate(row.excerpt, list(enumerate(searched)))
    number = numbers.get(row.document)
    if number is None:
        return f"document {row.document!r} is not among those that were read"
    return locate(row.excerpt, [(number, searched[number])])


def _rows(file: Path, reader: "csv.DictReader[str]") -> list[CsvRow]:
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
