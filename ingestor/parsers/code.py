"""Source code: the functions, classes and statements that tree-sitter's grammars recognise become blocks.

A function is a block with the comments before it, and so is a small class. In a larger class each method is a
block, with its dotted name. Neighbouring statements of one function or class, or of none, share a block while
they are small. The document's text is the source.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from ingestor.core.content_types import code_language
from ingestor.model import Blob, Block, Document
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.parsers.text import trim
from ingestor.text.code_units import Unit, groups, versions

_SMALL = 800  # characters of a unit that is not opened, and of statements that are a block together


def parse(blob: Blob) -> Document:
    """Read source code as a document whose blocks are its functions, classes and statements.

    Raises BadDocument if the content is not text, and NoGrammar if no grammar for its language is installed.
    """
    text, kind = decode(blob.data), content_type(blob)
    language = code_language(kind) or ""
    return Document(text, tuple(_blocks(text, language)), kind)


def _blocks(text: str, language: str) -> Iterator[Block]:
    units = chain.from_iterable(groups(text, language, lambda span: span[1] - span[0] <= _SMALL))
    for unit in _join(units):
        for start, end in trim(text, unit.start, unit.end):
            yield Block("code", start, end, language=language, symbol=unit.symbol)


def _join(units: Iterable[Unit]) -> Iterator[Unit]:
    """Join neighbouring units of the same function or class, or of none, up to ``_SMALL`` characters."""
    last: Unit | None = None
    for unit in units:
        if last and last.symbol == unit.symbol and unit.end - last.start <= _SMALL:
            last = Unit(last.start, unit.end, unit.symbol)
            continue
        if last:
            yield last
        last = unit
    if last:
        yield last


PLUGIN = parser_plugin("code", f"1, {versions()}", parse)
