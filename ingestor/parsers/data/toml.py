"""TOML and INI files: a block for each table (``[section]``), with its name as path."""

import re
from collections.abc import Iterator

from ingestor.model import Blob, Document
from ingestor.parsers.data.nested import blocks
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.registry import Options, Plugin

# Strings of several lines are passed over whole: what looks like a table in them is none.
_TABLE = re.compile(
    r'"""(?:.*?"""|.*)|\'\'\'(?:.*?\'\'\'|.*)|^[ \t]*+\[{1,2}(?P<name>[^\[\]\r\n]{1,200})\]',
    re.DOTALL | re.MULTILINE,
)
_COMMENTS = re.compile(r"(?:^[ \t]*+[#;][^\r\n]*+(?:\r\n?|\n))++", re.MULTILINE)
_NEAR = 2000  # characters before a table in which its comments may begin


class TomlParser:
    isolated = "large"

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text."""
        text, kind = decode(blob.data), content_type(blob)
        language = "toml" if kind == "application/toml" else "ini"
        return Document(text, tuple(blocks(text, list(_tables(text)), language)), kind)


def _tables(text: str) -> Iterator[tuple[int, str]]:
    """Where each begins, with the comments right before it."""
    after = 0
    for table in _TABLE.finditer(text):
        if table["name"]:
            runs = _COMMENTS.finditer(text, max(after, table.start() - _NEAR), table.start())
            comments = next((run for run in runs if run.end() == table.start()), table)
            yield comments.start(), table["name"].replace('"', "").strip()
        after = table.end()


PLUGIN = Plugin(kind="toml", version=1, options=Options, build=TomlParser)
