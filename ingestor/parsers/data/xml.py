"""XML: blocks that follow the elements and know their path, such as ``catalog/book[2]``.

The text is the source. Tags are found by their form alone: no DTD is read, no entity expanded, nothing
fetched, and what is not well-formed is read all the same.
"""

import re
from collections.abc import Iterator
from html import unescape

from ingestor.model import Blob, Block, Document
from ingestor.parsers.data.nested import Cutter
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.registry import Options, Plugin

_HEAD = 4096  # characters in which a document may name its title and language
_TAG = re.compile(
    r"<!--(?:.*?-->|.*)|<!\[CDATA\[(?:.*?\]\]>|.*)|<\?(?:.*?\?>|.*)"
    r"|<(?P<end>/?)(?P<name>[^\W\d][\w:.-]{0,80})(?:[^<>\"']++|\"[^\"]*\"|'[^']*')*+(?P<whole>>)?",
    re.DOTALL,
)
_ENCODING = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)")
_TITLE = re.compile(  # one of blanks alone is a title, too, and an empty one
    r"<(?:\w+:)?title(?:\s[^<>]*)?>"
    r"(?:\s++(?:\]\]>\s*+)?|\s*+(?:<!\[CDATA\[)?([^<>]{1,300}?)(?:\]\]>)?\s*+)</"
)
_LANGUAGE = re.compile(r"\s(?:xml:)?lang\s*=\s*[\"']([\w-]{2,35})[\"']")


class XmlParser:
    isolated = "large"

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text."""
        encoding = _ENCODING.search(blob.data, 0, _HEAD)
        text = decode(blob.data, encoding[1].decode("ascii", "replace") if encoding else None)
        title, language = _TITLE.search(text, 0, _HEAD), _LANGUAGE.search(text, 0, _HEAD)
        return Document(
            text=text,
            blocks=tuple(_blocks(text)),
            content_type=content_type(blob),
            title=" ".join(unescape(title[1] or "").split()) or None if title else None,
            language=language[1] if language else None,
        )


def _blocks(text: str) -> Iterator[Block]:
    cutter = Cutter()
    names: list[str] = []  # of open elements; an end tag closes the innermost only
    for tag in _TAG.finditer(text):
        name = tag["name"]
        if name is None or not tag["whole"]:
            continue
        if tag["end"]:
            if names and names[-1] == name:
                names.pop()
                cutter.leave(tag.end())
            continue
        cutter.node.parts += 1
        number = f"[{cutter.node.parts}]" if names else ""
        cutter.enter(tag.start(), f"/{name}{number}")
        if tag[0].endswith("/>"):
            cutter.leave(tag.end())
        else:
            names.append(name)
    yield from cutter.blocks(text, "xml")


PLUGIN = Plugin(kind="xml", version=1, options=Options, build=XmlParser)
