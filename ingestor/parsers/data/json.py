"""JSON and JSON Lines: blocks follow the structure and carry their path, such as ``users[3].name``.

The text is the source with its strings decoded. It is not validated, so JSON with comments and truncated JSON
are read as well. Every line of JSON Lines is a block.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from ingestor.model import Blob, Block, Document
from ingestor.parsers.data.nested import Cutter, apply_edits, escapes, unescape
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.parsers.text import trim
from ingestor.text.outline import line_starts

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}:,]', re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_LINES = "application/jsonl"
_LONGEST = 80  # characters of a key in a path


def parse(blob: Blob) -> Document:
    """Read JSON or JSON Lines as a document. Raises BadDocument if the content is not text."""
    text, kind = decode(blob.data), content_type(blob)
    blocks = tuple(_lines(text) if kind == _LINES else _blocks(text))
    strings = _STRING.finditer(text) if "\\" in text else ()
    edits = (edit for literal in strings for edit in escapes(text, *literal.span()))
    return apply_edits(Document(text, blocks, kind), edits)


def _lines(text: str) -> Iterator[Block]:
    starts = [*line_starts(text), len(text)]
    for begin, after in pairwise(starts):
        for start, end in trim(text, begin, after):
            yield Block("code", start, end, language="json")


def _blocks(text: str) -> Iterator[Block]:
    cutter = Cutter()
    string, key = (0, 0), None
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "{[":
            start, name = token.start(), f"[{cutter.node.parts}]"
            if key:
                start, key_text = key[0], unescape(text[key[0] + 1 : key[1] - 1])
                name = f".{' '.join(key_text[:_LONGEST].split())}"
            cutter.enter(start, name if cutter.node.parent else "")
            key = None
        elif mark in "}]":
            cutter.leave(token.end())
            key = None
        elif mark == ",":
            cutter.node.parts += 1
            key = None
        elif mark == ":":
            key = string
        else:
            string = token.span()
    yield from cutter.blocks(text, "json")


PLUGIN = parser_plugin("json", 2, parse, isolated="large")
