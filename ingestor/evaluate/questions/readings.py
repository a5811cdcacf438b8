"""Questions about the same documents, read with several options of parsers.

An excerpt that a reading lacks is placed beyond the end of its text: no chunk holds it, and it counts.
"""

from collections.abc import Iterator, Sequence

from ingestor.evaluate.questions import csv_file
from ingestor.evaluate.questions.csv_file import CsvRow, RefusedQuestion
from ingestor.evaluate.reading import Sample
from ingestor.evaluate.scores import EvalQuestion, Excerpt

_LOST = "the excerpt is missing in the text that some strategy reads"


def locate(
    rows: Sequence[CsvRow], samples: Sequence[Sample], *, everywhere: bool
) -> tuple[list[list[EvalQuestion]], list[RefusedQuestion]]:
    """The same questions for each sample, and those that are not asked.

    ``everywhere``: only those are asked whose excerpts all samples have, else those that one of them has.
    """
    resolved = [csv_file.resolve(rows, each.numbers, each.texts) for each in samples]
    known = [{question.text: question for question in questions} for questions, _ in resolved]
    enough = all if everywhere else any
    asked = [
        text for text in dict.fromkeys(row.question for row in rows) if enough(text in one for one in known)
    ]
    by_sample = [
        [one.get(text) or _beyond(_some(known, text), sample) for text in asked]
        for one, sample in zip(known, samples, strict=True)
    ]
    refused = [each for each in resolved[0][1] if each.question not in asked]
    left = known[0].keys() - set(asked)
    return by_sample, [*refused, *(RefusedQuestion(0, text, _LOST) for text in known[0] if text in left)]


def quotations(
    readings: Sequence[Sequence[EvalQuestion]], samples: Sequence[Sample]
) -> list[tuple[str, ...]]:
    """The excerpts of each question, in the words of the first sample that has them."""
    return [
        next(filter(None, map(_quotations, same, samples)))
        for same in zip(*readings, strict=True)
    ]  # fmt: skip


def has(sample: Sample, excerpt: Excerpt) -> bool:
    """Whether an excerpt is in the text of its document."""
    return excerpt.end <= len(sample.documents[excerpt.document].document.text)


def _quotations(question: EvalQuestion, sample: Sample) -> tuple[str, ...]:
    """Empty where the sample does not have them."""
    if not all(has(sample, each) for each in question.excerpts):
        return ()
    texts = [sample.documents[each.document].document.text for each in question.excerpts]
    return tuple(text[each.start : each.end] for text, each in zip(texts, question.excerpts, strict=True))


def _some(known: Sequence[dict[str, EvalQuestion]], text: str) -> EvalQuestion:
    return next(one[text] for one in known if text in one)


def _beyond(question: EvalQuestion, sample: Sample) -> EvalQuestion:
    return EvalQuestion(question.text, tuple(_places(question, sample)), question.origin)


def _places(question: EvalQuestion, sample: Sample) -> Iterator[Excerpt]:
    """Beyond the end, one behind the other."""
    moved = 1
    for each in question.excerpts:
        start = len(sample.documents[each.document].document.text) + moved
        moved += each.end - each.start
        yield Excerpt(each.document, start, start + each.end - each.start)
