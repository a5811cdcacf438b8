"""Judges whether a parsed document is complete. Pure.

A parser that builds its text from markup may report three facts (see ``model.Document``). It counts the words
in the raw content and the words that its rules left out, and it names parts that it could not read. A word is
a run of letters, digits and underscores.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from ingestor.model import HOLDER, Document

ENOUGH = 0.9  # of the expected words; with fewer a document is incomplete
_FEW = 20  # missing words that are tolerated if half of the words were read
_ENDING = re.compile(r"(?<=[^/])\.\w{1,8}$")  # the extension of a file name
_ASCII = bytes(range(128))
_SHAPE = bytes(ord("w") if at > 127 or chr(at).isalnum() or chr(at) == "_" else ord(" ") for at in range(256))


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a document is empty or incomplete, in words, with the remedy."""

    state: Literal["empty", "incomplete"]
    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Number of a source's unsupported documents with one extension.

    ``reason``: the reason of the first of them.
    """

    source: str
    kind: str  # the extension, such as ".png"
    documents: int
    reason: str


class SkippedKinds:
    """Counts unsupported documents by source and extension of the file name."""

    def __init__(self) -> None:
        self._counts, self._reasons = Counter[tuple[str, str]](), dict[tuple[str, str], str]()

    def add(self, source: str, key: str, reason: str) -> None:
        """Count an unsupported document of a source. ``reason``: why no parser reads it."""
        ending = _ENDING.search(key.lower())
        kind = source, ending[0] if ending is not None else "without an ending"
        self._counts[kind] += 1
        self._reasons.setdefault(kind, reason)

    def by_frequency(self) -> list[Skipped]:
        """Return the counts, the largest first."""
        return [Skipped(*kind, number, self._reasons[kind]) for kind, number in self._counts.most_common()]


def words(text: str) -> int:
    r"""Count the words of a text. The result is that of the pattern ``\w+``, in a tenth of the time."""
    data = text.encode("utf-8", "surrogatepass")
    if not text.isascii():
        for other in frozenset(data.translate(None, _ASCII).decode("utf-8", "surrogatepass")):
            if not other.isalnum():
                data = data.replace(other.encode("utf-8", "surrogatepass"), b" ")
    return (b" " + data.translate(_SHAPE)).count(b" w")


def count_expected_words(document: Document) -> int:
    """Return how many words the text must have: those of the raw content, less those that rules left out."""
    return max(0, (document.raw_words or 0) - sum(count for _, count in document.left_out))


def shortfall(document: Document) -> Shortfall | None:
    """Return why a document is empty or incomplete; None if no fact that its parser reported shows that."""
    if document.content_type == HOLDER:
        return None
    if not document.text.strip():
        return Shortfall("empty", _why_empty(document))
    counted = _describe_missing(document), _describe_undecoded(document.text)
    reasons = [*document.lost, *filter(None, counted)]
    return Shortfall("incomplete", "; ".join(reasons)) if reasons else None


def _describe_missing(document: Document) -> str | None:
    wanted = count_expected_words(document)
    if not wanted:
        return None
    present = words(document.text)
    if present >= ENOUGH * wanted or (wanted - present < _FEW and 2 * present >= wanted):
        return None
    return f"{present:,} of about {wanted:,} words were read; report it, with the file if you can"


def _describe_undecoded(text: str) -> str | None:
    unknown = text.count("\ufffd")
    if not unknown or unknown <= (1 - ENOUGH) * sum(map(len, text.split())):
        return None
    return (
        f"{unknown:,} of its characters are unknown (U+FFFD): save it again with another program, or use OCR"
    )


def _why_empty(document: Document) -> str:
    if document.lost:
        return "; ".join(document.lost)
    if wanted := count_expected_words(document):
        return (
            f"none of the {wanted:,} words were found: the file has an unknown form (perhaps another "
            "namespace); save it again with another program"
        )
    rules = [f"{rule} ({count:,})" for rule, count in document.left_out if count]
    return f"all words are left out: {', '.join(rules)}" if rules else "the document holds no text"
