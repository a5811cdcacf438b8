"""How much of a PDF's text came out, and the reason where it is much less than the file holds. Pure.

The raw count is that of pdfium's text: all that the text operators of the pages show.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ingestor.parsers.pdf.lines import Page

PICTURES = "pictures only: OCR would read them"
SOME_PICTURES = "{unread:,} of {pages:,} pages are pictures: OCR would read them"
UNMAPPED = "the fonts give no Unicode value for {unmapped:,} of {raw:,} characters"
LOST = "{lost:,} of {raw:,} words are in no block"
_ENOUGH = 0.9  # share of the raw words, less those of running headers and footers
_MOST_UNMAPPED = 0.3  # share of the characters


@dataclass(frozen=True, slots=True)
class Count:
    """``raw``, ``said``, ``furniture``: words in the file, in the blocks, in running headers and footers."""

    pages: int
    unread: int
    raw: int
    said: int
    furniture: int
    characters: int
    unmapped: int


def raw_words(text: str) -> int:
    """Words of a page's raw text; the halves of a divided one count once."""
    return len(text.replace("\x02\r\n", "").replace("\ufffe\r\n", "").split())


def words_in(pages: Iterable[Page]) -> int:
    """Words of the pages' lines and tables."""
    return sum(
        sum(len(cell.split()) for row in line.rows for cell in row) if line.rows else len(line.text.split())
        for page in pages
        for line in page.lines
    )


def shortfall(count: Count) -> str | None:
    """Why the document is empty or incomplete; None where it is whole."""
    if count.unread and not count.said:
        return PICTURES
    if count.said < _ENOUGH * (count.raw - count.furniture):
        return LOST.format(lost=count.raw - count.furniture - count.said, raw=count.raw)
    if count.unmapped > _MOST_UNMAPPED * count.characters:
        return UNMAPPED.format(unmapped=count.unmapped, raw=count.characters)
    if count.unread:
        return SOME_PICTURES.format(unread=count.unread, pages=count.pages)
    return None
