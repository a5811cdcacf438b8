"""TOML and INI files: each table (``[section]``) is a block with its name as path; strings are decoded."""

import re
from collections.abc import Iterator

from ingestor.model import Blob, Document
from ingestor.parsers.data.nested import Edit, apply_edits, blocks, escapes, unescape
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.parsers.shared.plugin import parser_plugin

# Strings of several lines are passed over whole: what looks like a table in them is none.
_TABLE = re.compile(
    r'"""(?:.*?"""|.*)|\'\'\'(?:.*?\'\'\'|.*)|(?<![^\r\n])[ \t]*+\[{1,2}(?P<name>[^\[\]\r\n]{1,200})\]',
    re.DOTALL,
)
_STRING = re.compile(  # or a comment
    r'#[^\r\n]*|"{3}(?:[^\\]|\\.)*?(?:"{3}|\Z)|"(?:[^"\\\r\n]|\\.)*+"?'
    r"|'{3}.*?(?:'{3}|\Z)|'[^'\r\n]*'?",
    re.DOTALL,
)
_JAVA = re.compile(r"(?:\\u[0-9a-fA-F]{4})++")
_COMMENTS = re.compile(r"(?:(?<![^\r\n])[ \t]*+[#;][^\r\n]*+(?:\r\n?|\n))++")
_NEAR = 2000  # characters before a table in which its comments may begin


def parse(blob: Blob) -> Document:
    """Read TOML, INI or Java properties as a document. Raises BadDocument if the content is not text."""
    text, kind = decode(blob.data), content_type(blob)
    language = "toml" if kind == "application/toml" else "ini"
    document = Document(text, tuple(blocks(text, list(_tables(text)), language)), kind)
    return apply_edits(document, _escapes(text, blob.name, language)) if "\\" in text else document


def _escapes(text: str, name: str, language: str) -> Iterator[Edit]:
    """Yield edits that decode the escapes in strings of TOML, and in the values of Java properties files."""
    if language == "toml":
        for string in _STRING.finditer(text):
            if string[0][0] == '"':
                yield from escapes(text, *string.span())
    elif name.lower().endswith(".properties"):
        for match in _JAVA.finditer(text):
            yield from escapes(text, *match.span())


def _tables(text: str) -> Iterator[tuple[int, str]]:
    """Yield (start, name) of each table. The comments directly before a table belong to it."""
    after = 0
    for table in _TABLE.finditer(text):
        if table["name"]:
            runs = _COMMENTS.finditer(text, max(after, table.start() - _NEAR), table.start())
            comments = next((run for run in runs if run.end() == table.start()), table)
            name = table["name"]
            bare = unescape(name).replace('"', "") if '"' in name else name
            yield comments.start(), bare.strip()
        after = table.end()


PLUGIN = parser_plugin("toml", 3, parse, isolated="large")
