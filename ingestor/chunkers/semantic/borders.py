"""Prices of cuts between the pieces of a document, by its structure. Pure.

A cut costs a share of the full price, which depends on the blocks that the cut parts. The module also finds
which chunks share a section and a page.

In a document with two headings or more a cut costs less before a heading, a little less between blocks (such
as paragraphs), and more inside a list, a table, code or a quote. Elsewhere all cuts cost the same: there is
no structure to keep to, and a blank line in a text without headings is a weak sign. The shares were chosen on
three manuals and held on others (docs/decisions/0052-meaning-and-structure.md). Levels of headings made
no difference.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ingestor.model import Document
from ingestor.segmentation.changepoint import WHOLE
from ingestor.segmentation.fixed_point import Integers
from ingestor.text.sections import headings
from ingestor.text.spans import Span, owner

HEADING, BLOCK, INSIDE = 0.6, 0.9, 1.3  # a cut within a paragraph costs the price itself
_FEWEST = 2  # headings, or pages
Place = tuple[int, int]  # numbers of a section and a page


def begun(document: Document, spans: Sequence[Span]) -> list[bool]:
    """Whether a section begins with each of the ordered spans, beyond the first."""
    starts = [heading.start for heading in headings(document)]
    places = [owner(starts, start) for start, _ in spans]
    return [*(False for _ in spans[:1]), *(place != before for before, place in pairwise(places))]


def weights(document: Document, spans: Sequence[Span], begins: Sequence[bool], strength: float) -> Integers:
    """Return the price of the cut after each span, in units of 1 / WHOLE. ``begins``: see ``begun``.

    ``strength``: from 0, where all cuts cost the same, to 1.
    """
    found = np.full(len(spans), WHOLE, np.int64)
    if strength and len(headings(document)) >= _FEWEST:
        shares = map(_Shares(document).of, spans, spans[1:], begins[1:])
        found[:-1] = [round(WHOLE * (1 + strength * (share - 1))) for share in shares]
    return found


def touched(document: Document, spans: Sequence[Span]) -> list[tuple[Place, Place]]:
    """The section and page that each span begins in, and those that it ends in; [] if there is only one."""
    sections = [heading.start for heading in headings(document)]
    if len(sections) < _FEWEST:
        sections = []
    turned = zip((None, *document.blocks), document.blocks, strict=False)
    pages = [block.start for before, block in turned if before is None or before.page != block.page]
    if not sections and len(pages) < _FEWEST:
        return []
    return [
        (
            (owner(sections, start), owner(pages, start)),
            (owner(sections, end - 1), owner(pages, end - 1)),
        )
        for start, end in spans
    ]


class _Shares:
    """Price shares of a document's cuts."""

    def __init__(self, document: Document) -> None:
        self._blocks = document.blocks
        self._starts = [block.start for block in document.blocks]

    def of(self, span: Span, following: Span, section: bool) -> float:
        """Return the share for the cut between two neighbours.

        ``section``: whether a section begins with the second.
        """
        if section:
            return HEADING
        at = owner(self._starts, span[1] - 1)
        if at < 0 or self._blocks[at].end <= following[0]:
            return BLOCK
        return 1.0 if self._blocks[at].kind == "paragraph" else INSIDE
