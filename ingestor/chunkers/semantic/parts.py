"""The parts of a document that semantic strategies compare: sentences, paragraphs or small pieces.

A lead (see ingestor/text/bonds.py), such as a heading, is no part of its own: it belongs to the next one.
"""

from collections.abc import Sequence

from ingestor.chunkers.recursive import fitting
from ingestor.model import Document
from ingestor.text.bonds import leads
from ingestor.text.limits import count
from ingestor.text.pieces import pieces
from ingestor.text.sections import label_spans
from ingestor.text.sentences import paragraphs, sentences
from ingestor.text.spans import Span, owner, union
from ingestor.text.tokens import Tokens


def small_pieces(document: Document, tokens: Tokens, size: int, most: int) -> list[Span]:
    """The document in pieces of at most ``size`` tokens. None crosses the start of a heading or label."""
    starts = (start for start, _ in label_spans(document))
    return join_labels(document, pieces(document.text, tokens, size, starts, document.language), tokens, most)


def whole_sentences(document: Document, tokens: Tokens, most: int | None) -> list[Span]:
    """The document's sentences, those over ``most`` tokens in parts."""
    found = sentences(document.text, language=document.language)
    return join_labels(document, fitting(document.text, found, tokens, most), tokens, most)


def whole_paragraphs(document: Document, tokens: Tokens, most: int | None) -> list[Span]:
    """The document's paragraphs, those over ``most`` tokens in parts."""
    return join_labels(
        document, fitting(document.text, paragraphs(document.text), tokens, most), tokens, most
    )


def join_labels(document: Document, spans: Sequence[Span], tokens: Tokens, most: int | None) -> list[Span]:
    """Each with the headings and other leads just before it, unless all have more than ``most`` tokens."""
    leading = leads(document)
    starts = [start for start, _ in leading]
    found: list[Span] = []
    belongs = False
    for span in spans:
        if belongs and (most is None or count(document.text, union(found[-1], span), tokens) <= most):
            found[-1] = union(found[-1], span)
        else:
            found.append(span)
        at = owner(starts, span[0])
        belongs = at >= 0 and span[1] <= leading[at][1]
    return found
