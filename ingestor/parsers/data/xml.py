"""XML: blocks follow the elements and carry their path, such as ``catalog/book[2]``.

The text is the source with its character references decoded. Tags are found by their form alone: no DTD is
read, no entity is expanded, nothing is fetched. A document that is not well-formed is read as well. Books
(DocBook, FictionBook) and exports of wikis are read as paragraphs of text, without tags.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

from ingestor.model import Blob, Block, Document
from ingestor.parsers.data.nested import Cutter, Edit, apply_edits, character
from ingestor.parsers.shared.compose import build_document
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.detect import content_type
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.parsers.text import paragraphs

_HEAD = 4096  # characters in which a document may name its title and language
_TAG = re.compile(
    r"<!--(?:.*?-->|.*)|<!\[CDATA\[(?:.*?\]\]>|.*)|<\?(?:.*?\?>|.*)"
    r"|<(?P<end>/?)(?P<name>[^\W\d][\w:.-]{0,80})(?:[^<>\"']++|\"[^\"]*\"|'[^']*')*+(?P<whole>>)?",
    re.DOTALL,
)
_ENCODING = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)")
_TITLE = re.compile(  # one of blanks alone is a title, too, and an empty one
    r"<(?:[\w-]+[:-])?title(?:\s[^<>]*)?>"
    r"(?:\s++(?:\]\]>\s*+)?|\s*+(?:<!\[CDATA\[)?([^<>]{1,300}?)(?:\]\]>)?\s*+)</"
)
_BOOKS = frozenset(f"application/{name}+xml" for name in ("docbook", "x-fictionbook", "x-mediawiki"))
# What is cut off takes all that follows, so that nothing is looked through twice.
_REFERENCES = (
    r"&(?P<reference>#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{0,30});"
    r"|<!--(?:.*?-->|.*)|(?P<cdata><!\[CDATA\[.*?\]\]>)|<!\[CDATA\[.*|<\?(?:.*?\?>|.*)"
    r"|<!DOCTYPE[^<>\[]*+(?:\[[^\]]*+\]?\s*+)?>?"
    r"|(?<=>)(?P<binary>\s*+(?:[A-Za-z0-9+/]{60,}+\s*+)++[A-Za-z0-9+/]*+=*+\s*+)(?=<)"
)
_PICTURE = 400  # characters of base64 that are no checksum or key
_PARAGRAPHS = "p|v|para|simpara|title|subtitle|tr|row|term|member|screen|programlisting|text"
_TERM = re.compile(r"<(?:\w{1,80}:)?term(?:\s[^<>]{0,200})?>(?=\s*+([^\s<]))")  # of a list of definitions
_MARKUP = re.compile(_REFERENCES, re.DOTALL)
_TAGS = re.compile(
    rf"{_REFERENCES}|(?P<paragraph></(?:\w{{1,80}}:)?(?:{_PARAGRAPHS})\s*+>)"
    r"|</?[^\W\d](?:[^<>\"']++|\"[^\"]*\"|'[^']*')*+>?",
    re.DOTALL,
)
_LANGUAGE = re.compile(r"\s(?:xml:)?lang\s*=\s*[\"']([\w-]{2,35})[\"']")


def parse(blob: Blob) -> Document:
    """Read XML as a document. Raises BadDocument if the content is not text."""
    encoding = _ENCODING.search(blob.data, 0, _HEAD)
    text = decode(blob.data, encoding[1].decode("ascii", "replace") if encoding else None)
    kind = content_type(blob)
    title, language = _TITLE.search(text, 0, _HEAD), _LANGUAGE.search(text, 0, _HEAD)
    document = build_document(
        text,
        (Block("definition", *term.span(1)) for term in _TERM.finditer(text))  # the first letter of each term
        if kind in _BOOKS
        else _blocks(text),
        kind,
        title=" ".join(unescape(title[1] or "").split()) if title else None,
        language=language[1] if language else None,
    )
    if kind not in _BOOKS:
        return apply_edits(document, _edits(text, bare=False))
    prose = apply_edits(document, _edits(text, bare=True))
    spans = ((end - len(prose.text[start:end].lstrip()), end) for start, end in paragraphs(prose.text))
    terms = {block.start for block in prose.blocks}
    kinds = {True: "definition", False: "paragraph"}
    return replace(prose, blocks=tuple(Block(kinds[span[0] in terms], *span) for span in spans))


def _edits(text: str, *, bare: bool) -> Iterator[Edit]:
    """Yield the edits that turn the source into its text: decode references, remove embedded pictures.

    ``bare``: also remove the tags. The end of a paragraph then becomes a blank line, and neighbouring tags
    become a space.
    """
    for match in (_TAGS if bare else _MARKUP).finditer(text):
        start, end, kind = *match.span(), match.lastgroup
        lines = "\n" * text.count("\n", start, end)
        if kind == "reference":
            words = unescape(match[0])
            yield start, end, words if len(words) > 1 else character(ord(words))
        elif kind == "cdata":
            yield start, start + len("<![CDATA["), ""
            yield end - len("]]>"), end, ""
        elif kind == "binary":
            if end - start >= _PICTURE:
                yield start, end, lines
        elif bare and match[0].endswith(">"):
            apart = text[start - 1 : start] != ">" and text[end : end + 1] == "<"
            yield start, end, "\n\n" if kind == "paragraph" else lines or (" " if apart else "")


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


PLUGIN = parser_plugin("xml", 4, parse, isolated="large")
