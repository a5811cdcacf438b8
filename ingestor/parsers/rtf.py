"""Rich Text Format: its paragraphs, tables, title and author. What is a heading it does not tell."""

import re
from itertools import groupby

from ingestor.model import Blob, Document
from ingestor.parsers.compose import Composer
from ingestor.registry import Options, Plugin

_CONTENT_TYPE = "application/rtf"
_HEAD = 65_536  # bytes in which the document speaks of itself
_FIELD = r"\{{\\(?:\*\\)?{}\s+([^{{}}\\]*)\}}"


class RtfParser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        from striprtf.striprtf import rtf_to_text

        source = blob.data.decode(
            "latin-1"
        )  # 7 bits; what else there is stands in escapes of its own code page
        composer = Composer()
        lines = rtf_to_text(source, encoding="cp1252", errors="replace").split("\n")
        for is_table, group in groupby(lines, lambda line: line.endswith("|")):
            if is_table:
                composer.table(line[:-1].split("|") for line in group)
            else:
                for line in group:
                    composer.add("paragraph", line)
        author = _field(source, "author")
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type=_CONTENT_TYPE,
            title=_field(source, "title"),
            extra=(("author", author),) if author else (),
        )


def _field(source: str, name: str) -> str | None:
    found = re.search(_FIELD.format(name), source[:_HEAD])
    return " ".join(found[1].split()) or None if found else None


PLUGIN = Plugin(kind="rtf", version=1, options=Options, build=RtfParser)
