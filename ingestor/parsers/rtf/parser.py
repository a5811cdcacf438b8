"""Rich Text Format: headings, lists, tables, code, links, footnotes; title, author, dates."""

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.rtf.read import RtfReader
from ingestor.registry import Options, Plugin

_CONTENT_TYPE = "application/rtf"


class RtfParser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        reader = RtfReader()
        reader.read(blob.data.decode("latin-1"))  # 7 bits; what else there is, is in a code page it names
        composer, about = reader.flow.composer, reader.tables.about
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type=_CONTENT_TYPE,
            title=about.get("title") or reader.flow.title or composer.title,
            extra=tuple((name, about[name]) for name in ("author", "created", "modified") if about.get(name)),
            raw_words=words("".join(reader.said)),
            left_out=composer.left_out,
        )


PLUGIN = Plugin(kind="rtf", version=3, options=Options, build=RtfParser)
