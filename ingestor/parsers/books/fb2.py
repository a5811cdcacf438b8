"""FictionBook (FB2): sections with their titles, paragraphs, verses, notes; title, authors, date."""

from xml.etree.ElementTree import Element

from ingestor.model import Blob, Document
from ingestor.parsers.books.tree import LOCAL, BookTree, Names, parsed
from ingestor.parsers.html.tags import words
from ingestor.parsers.shared.flow import Flow
from ingestor.registry import Options, Plugin

_NAMES = Names(
    sections=words("section"),
    titles=words("title subtitle"),
    paragraphs={
        "p": "paragraph",
        "v": "paragraph",
        "text-author": "paragraph",
        "cite": "quote",
        "epigraph": "quote",
    },
    lists={},
    items=frozenset(),
    rows=words("tr"),
    cells=words("td th"),
    tables=words("table"),
    pictures=words("image"),
    notes=frozenset(),
    left_out=words("binary description stylesheet"),
)


class Fb2Parser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text."""
        return parsed(blob, _read)


def _read(root: Element) -> Document:
    tree = BookTree(_NAMES, Flow())
    for body in (child for child in root if LOCAL[child.tag] == "body"):
        tree.block(body)
    tree.flow.flush()
    info = next((element for element in root.iter() if LOCAL[element.tag] == "title-info"), Element("none"))
    authors = [" ".join(" ".join(one.itertext()).split()) for one in info if LOCAL[one.tag] == "author"]
    extra = {"author": ", ".join(filter(None, authors)), "created": _said(info, "date")}
    composer = tree.flow.composer
    return Document(
        text=composer.text,
        blocks=tuple(composer.blocks),
        content_type="application/x-fictionbook+xml",
        title=_said(info, "book-title") or composer.title,
        language=_said(info, "lang") or None,
        extra=tuple((name, value) for name, value in extra.items() if value),
    )


def _said(info: Element, name: str) -> str:
    return next((" ".join("".join(one.itertext()).split()) for one in info if LOCAL[one.tag] == name), "")


PLUGIN = Plugin(kind="fb2", version=2, options=Options, build=Fb2Parser)
