"""How many words a PDF holds, and how many of them are furniture. Pure.

The raw count is that of pdfium's text: all that the text operators of the pages show.
"""

from collections.abc import Iterable

from ingestor.core.completeness import words
from ingestor.parsers.pdf.lines import PageLines

FURNITURE = "running headers and footers"  # the rule that leaves them out
_MOST_UNMAPPED = 0.3  # share of the characters


def words_in(pages: Iterable[PageLines]) -> int:
    """Words of the pages' lines and tables."""
    return sum(
        sum(words(cell) for row in line.rows for cell in row) if line.rows else words(line.text)
        for page in pages
        for line in page.lines
    )


def without_unicode(unmapped: int, characters: int) -> str | None:
    """The reason where so many characters have no Unicode value that the text is not all there."""
    if unmapped <= _MOST_UNMAPPED * characters:
        return None
    return f"the fonts give no Unicode value for {unmapped:,} of {characters:,} characters"
