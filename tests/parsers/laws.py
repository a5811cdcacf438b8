"""Laws that hold for every parser, whatever the bytes, and readers of small documents for tests."""

import re
from typing import Any

from ingestor.core.completeness import ENOUGH, count_expected_words, words
from ingestor.core.content_types import keeps_lines
from ingestor.core.metadata_keys import EXTRAS
from ingestor.model import Blob, Document
from ingestor.parsers.shared.detect import content_type, parser_kind
from ingestor.ports import BadDocument, Parser
from ingestor.registry import find

ESCAPED = re.compile(r"\\|&#?\w+;|CDATA|''")  # in a text that is decoded


def parser(kind: str, **options: Any) -> Parser:
    plugin = find("parsers", kind)
    built: Parser = plugin.build(plugin.options.model_validate(options))
    return built


def parser_of(blob: Blob, **options: Any) -> Parser:
    return parser(parser_kind(content_type(blob)), **options)


def read(source: str | bytes, name: str, *, sound: bool = True, **options: Any) -> Document:
    """Return the document that the parser of its name and bytes makes of a source. It obeys the laws."""
    blob = Blob(source if isinstance(source, bytes) else source.encode("utf-8", "surrogateescape"), name)
    document = obeys_laws(parser_of(blob, **options), blob, sound=sound)
    assert document is not None
    return document


def obeys_laws(parser: Parser, blob: Blob, *, sound: bool = True) -> Document | None:
    """Return the document, or None if it was refused. Anything but BadDocument is a failure.

    ``sound``: the blob is as programs write it, so its text must be whole.
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


def is_covered(source: str, name: str) -> None:
    """Check the laws about blocks of a large text, which is parsed once.

    A document that keeps lines has the source as its text, unless the source has escapes.
    """
    blob = Blob(source.encode(), name)
    document = parser_of(blob).parse(blob)
    if keeps_lines(document.content_type) and not ESCAPED.search(source):
        assert document.text == source
    blocks_cover_text(document)


def text_is_whole(document: Document) -> None:
    """Check for 90 % of the raw words, without those that named rules leave out."""
    found = words(document.text)
    assert found >= ENOUGH * count_expected_words(document), (found, document.raw_words, document.left_out)


def blocks_cover_text(document: Document) -> None:
    """Check that blocks are ordered and apart, none is empty, and only whitespace lies outside of them."""
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


def kinds(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, text) for block, text in zip(document.blocks, texts(document), strict=True)]
