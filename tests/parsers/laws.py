"""What holds for every parser, whatever the bytes: its own test file calls these."""

import re

from ingestor.core.completeness import ENOUGH, count_expected_words, words
from ingestor.core.metadata_keys import EXTRAS
from ingestor.model import Blob, Document
from ingestor.ports import BadDocument, Parser

ESCAPED = re.compile(r"\\|&#?\w+;|CDATA|''")  # in a text that is decoded


def obeys_laws(parser: Parser, blob: Blob, *, sound: bool = True) -> Document | None:
    """The document, or None if it was refused. Anything but BadDocument is a failure.

    ``sound``: it is as programs write it, so its text must be whole.
    """
    try:
        document = parser.parse(blob)
    except BadDocument:
        return None
    blocks_cover_text(document)
    assert parser.parse(blob) == document
    if sound:
        text_is_whole(document)
    document.text.encode("utf-8")  # no lone surrogates
    assert dict(document.extra).keys() <= EXTRAS  # docs/metadata.md explains them
    return document


def is_covered(parser: Parser, text: str, name: str) -> None:
    """The laws about its blocks, for texts that are large: it is parsed once.

    Its document's text is the text, unless that has escapes, or is a book.
    """
    document = parser.parse(Blob(text.encode(), name))
    assert ESCAPED.search(text) or name.endswith(".fb2") or document.text == text
    blocks_cover_text(document)


def text_is_whole(document: Document) -> None:
    """At least 90 % of the raw words, without those that named rules leave out."""
    found = words(document.text)
    assert found >= ENOUGH * count_expected_words(document), (found, document.raw_words, document.left_out)


def blocks_cover_text(document: Document) -> None:
    """Ordered, apart, none empty, and nothing but whitespace outside of them."""
    position = 0
    for block in document.blocks:
        assert position <= block.start < block.end <= len(document.text)
        assert not document.text[position : block.start].strip()
        assert document.text[block.start : block.end].strip()
        assert document.text[block.end - 1].strip(), "a block ends with a visible character"
        position = block.end
    assert not document.text[position:].strip()


def texts(document: Document) -> list[str]:
    return [document.text[block.start : block.end] for block in document.blocks]
