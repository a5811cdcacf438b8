"""Plain text, code and configuration without a parser of their own; paragraphs become blocks."""

import re
from collections.abc import Iterator

from ingestor.core.content_types import code_language
from ingestor.model import Blob, Block, Document
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.parsers.shared.plugin import parser_plugin

# A line end and at least one line of nothing but whitespace after it. Possessive, so linear: else "\r\n"
# could also be read as two line ends.
_GAP = re.compile(r"(?>\r\n?|\n)(?:[^\S\r\n]*+(?>\r\n?|\n))++")


def parse(blob: Blob) -> Document:
    """Read plain text as a document. Raises BadDocument if the content is not text."""
    text, kind = decode(blob.data), content_type(blob)
    language = code_language(kind)
    role = "code" if language else "paragraph"
    blocks = (Block(role, start, end, language=language) for start, end in paragraphs(text))
    return Document(text, tuple(blocks), kind)


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each paragraph, from the start of a line to the last visible character."""
    start = 0
    for gap in _GAP.finditer(text):
        yield from trim(text, start, gap.start())
        start = gap.end()
    yield from trim(text, start, len(text))


def trim(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the span without blank lines at its start and white space at its end; nothing for an empty span.

    The indentation of the first line is kept, because it has a meaning in code and lists.
    """
    body = text[start:end].rstrip()
    if body:
        lead = len(body) - len(body.lstrip())
        line = max(body.rfind("\n", 0, lead), body.rfind("\r", 0, lead)) + 1
        yield start + line, start + len(body)


PLUGIN = parser_plugin("text", 1, parse, isolated=False)
