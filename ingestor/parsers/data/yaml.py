"""YAML: each entry is a block, found by its indentation; a large entry is divided into its own entries.

The text is the source with quoted scalars decoded, and is not validated. The lines of a block scalar are
indented, so none of them is mistaken for an entry of the level above.
"""

import re
from collections.abc import Iterator

from ingestor.model import Blob, Block, Document
from ingestor.parsers.data.nested import Cutter, Edit, apply_edits, escapes
from ingestor.parsers.markup.lines import Lines, indent, lines_of
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.plugin import parser_plugin

_QUOTED = re.compile(r"(?:\"([^\"]*)\"|'([^']*)')[ \t]*:(?:\s|$)")
_ITEM = re.compile(r"-(?:\s|$)")
_SEPARATOR = re.compile(r"(?:---|\.\.\.)(?:\s|$)")
_ESCAPED = re.compile(r"\"[^\"\\]*+\\|'[^']*+''")
_TWO_QUOTES = re.compile("''")
_LONGEST = 80  # characters of a key in a path
_DEEPEST = 500  # flow collections in each other; libyaml looks through all open ones for each token


def parse(blob: Blob) -> Document:
    """Read YAML as a document. Raises BadDocument if the content is not text."""
    text = decode(blob.data)
    document = Document(text, tuple(_blocks(lines_of(text))), "application/yaml")
    return apply_edits(document, _escapes(text)) if _ESCAPED.search(text) else document


def _escapes(text: str) -> Iterator[Edit]:
    """Yield edits that decode quoted scalars, up to text that is invalid or nested too deep."""
    import yaml  # slow to import

    opening = yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken
    closing = yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken
    depth = 0
    try:
        for token in yaml.scan(text, Loader=getattr(yaml, "CLoader", yaml.Loader)):
            depth += isinstance(token, opening) - isinstance(token, closing)
            if depth > _DEEPEST:
                return
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                start, end = token.start_mark.index, token.end_mark.index
                quotes = _TWO_QUOTES.finditer(text, start + 1, end - 1) if token.style == "'" else ()
                yield from ((*match.span(), "'") for match in quotes)
                yield from escapes(text, start, end) if token.style == '"' else ()
    except (yaml.YAMLError, ValueError):
        return


def _blocks(lines: Lines) -> Iterator[Block]:
    cutter = Cutter()
    levels: list[tuple[int, bool]] = []  # (indentation, whether an item) of the open entries
    begin: int | None = None  # where comments before an entry begin
    for row, start in zip(lines.rows, lines.starts, strict=False):
        body = row.lstrip()
        if not body or body.startswith("#"):
            begin = start if body and begin is None else begin
            continue
        level, item = indent(row), bool(_ITEM.match(body))
        name = _name(body, item)
        at, begin = (start if begin is None else begin), None
        if name is None and not _SEPARATOR.match(row):
            continue
        # Items may stand under their key without indentation.
        while levels and (level, item) <= levels[-1]:
            levels.pop()
            cutter.leave(at)
        if name is not None:
            cutter.node.parts += item
            cutter.enter(at, f"[{cutter.node.parts - 1}]" if item else f".{name}")
            levels.append((level, item))
    yield from cutter.blocks(lines.text, "yaml")


def _name(body: str, item: bool) -> str | None:
    if item:
        return ""
    if body[0] in "\"'":
        key = _QUOTED.match(body)
        return (key[1] or key[2] or "")[:_LONGEST] if key else None
    name, colon, _ = f"{body} ".partition(": ")
    return name[:_LONGEST] if colon and "#" not in name and body[0] not in "&*!|>{[%@`" else None


PLUGIN = parser_plugin("yaml", 2, parse, isolated="large")
