"""Markdown: CommonMark with tables and front matter becomes blocks; the document's text is the source.

Only the top level makes blocks: a list with everything nested in it is one block, and so is a quote.
``pyromark`` (pulldown-cmark, in Rust) finds the bytes of each block, so offsets are exact. Every block begins
at the start of a line.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from typing import Any

from ingestor.model import Blob, Block, Document
from ingestor.parsers.markup.front_matter import front_matter
from ingestor.parsers.shared.compose import build_document
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.parsers.text import trim
from ingestor.ports import BadDocument
from ingestor.text.outline import heading_number

_TITLE = 300  # characters of a heading that are read
_KINDS = {
    "Paragraph": "paragraph",
    "List": "list",
    "BlockQuote": "quote",
    "Table": "table",
    "HtmlBlock": "html",
    "Rule": "rule",
    "Definition": "definition",
}
_NEWLINE = re.compile(r"\r(?!\n)")
_BEHIND_MARKS = re.compile(r"(?<=[`~#])[ \t]++(?=\r?$)", re.MULTILINE)  # of a fence or a heading
_LANGUAGE = re.compile(r"\w[\w+#-]*")
_ADMONITION = re.compile(  # MyST's, whose content is prose
    r"\{(?:admonition|attention|caution|danger|dropdown|epigraph|error|hint|important|note|seealso|sidebar|tip"
    r"|topic|warning|versionadded|versionchanged|deprecated)\}"
)
_COMMENTS = re.compile(r"(?:\s|<!--(?>(?s:.)*?-->))+")
_LABEL = re.compile(  # anchors and comments alone; "(name)=" is MyST's
    r"(?:\s|<!--(?>(?s:.)*?-->)|<(a|span|div)\s[^<>]*>\s*</\1>|<a\s[^<>]*/>)+|\([\w.:-]+\)=\s*"
)
_NOTE = re.compile(r"\s*\[\^[^\]\s]+\]:")
_ATTRIBUTES = re.compile(r"(?<!\s)\s*+\{[#.:][^{}]*+\}$")  # {#anchor .class} behind a heading


_HTML_HEADING = re.compile(
    r"^[ \t]*<h([1-6])(?:\s[^<>]*)?>((?s:.){0,2000}?)</h\1>[ \t]*(?=\r?$)", re.MULTILINE | re.IGNORECASE
)
_TAG = re.compile(r"<[^<>]*>")
_VERBATIM = ("<pre", "<script", "<style", "<textarea")
# In a formula on lines of its own, "=" must not underline a heading, and "+" not begin a list.
_FORMULA = re.compile(
    r"^(?:\$\$|\\\[)[ \t]*\n(?:[ \t]*+[^\s`~].*\n){1,99}?[ \t]*(?:\$\$|\\\])[ \t]*$", re.MULTILINE
)
_FIRST_MARK = re.compile(r"^[ \t]*\S", re.MULTILINE)
_HIGHLIGHT = re.compile(r"^\{% *(end)?highlight\b *(\w*).*%\}[ \t]*$", re.MULTILINE)  # Jekyll's code


def parse(blob: Blob) -> Document:
    """Read Markdown as a document. Raises BadDocument if the content is not text."""
    text = decode(blob.data)
    front = front_matter(text)
    head = (Block("front_matter", 0, front.visible_end),) if front else ()
    blocks = (*head, *_blocks(text, front.end if front else 0))
    first = next((block.title for block in blocks if block.level == 1 and block.title), None)
    return build_document(
        text,
        blocks,
        "text/markdown",
        title=(front and front.title) or first,
        language=front.language if front else None,
        extra=front.extra if front else None,
    )


@dataclass(frozen=True, slots=True)
class _Element:
    """A top-level element of a Markdown text. ``start``, ``end``: offsets in bytes.

    ``name``, ``about``: the element's name and data as pulldown-cmark gives them. ``words``: the texts inside
    the element; the last one is "" if code or a tag ends the element.
    """

    start: int
    end: int
    name: str
    about: Any = None
    words: Sequence[str] = ()


def _blocks(text: str, start: int) -> Iterator[Block]:
    """Yield the blocks of a text from offset ``start`` on, which must be the start of a line."""
    # pulldown-cmark takes no lone carriage return for the end of a line, and a tab behind a fence hides the
    # fence from it. The length stays the same.
    source = _BEHIND_MARKS.sub(lambda match: " " * len(match[0]), _NEWLINE.sub("\n", text[start:]))
    source = _FORMULA.sub(lambda match: _FIRST_MARK.sub(lambda mark: "x" * len(mark[0]), match[0]), source)
    tags = [match[1] for match in _HIGHLIGHT.finditer(source)]
    if tags == [None, "end"] * (len(tags) // 2):
        source = _HIGHLIGHT.sub(lambda match: f"~~~{match[2]}".ljust(len(match[0])), source)
    data, byte, at = source.encode(), 0, start
    for element in _in_order([*_elements(source), *_definitions(source)], len(data)):
        begin = at + len(data[byte : element.start].decode())
        end = begin + len(data[element.start : element.end].decode())
        line = max(text.rfind("\n", at, begin), text.rfind("\r", at, begin), at - 1) + 1
        # Between blocks there are definitions of links that were defined before.
        yield from (Block("definition", *span) for span in trim(text, at, line))
        for span in trim(text, line, end):
            yield from _with_headings(text, _as_label(text, _block(text, *span, element)))
        byte, at = element.end, end


def _in_order(elements: list[_Element], size: int) -> Iterator[_Element]:
    """Yield the elements in the order of the text, then an empty element at its end, offset ``size``.

    Definitions inside other elements are left out.
    """
    end = 0
    for one in sorted(elements, key=lambda one: one.start):
        if one.start >= end:
            yield one
            end = one.end
    yield _Element(size, size, "Definition")


def _definitions(source: str) -> Iterator[_Element]:
    """Yield the link definitions in a source; if a name is defined more than once, the first definition."""
    from pyromark import Options as Dialect
    from pyromark import reference_definitions

    if "]:" in source:
        for definition in reference_definitions(source, options=Dialect.ENABLE_TABLES).values():
            yield _Element(definition["span"]["start"], definition["span"]["end"], "Definition")


def _elements(source: str) -> Iterator[_Element]:
    depth, begun, words = 0, "", list[str]()
    for event, span in _events(source):
        if isinstance(event, str):  # a rule, or the end of a line
            if depth:
                words.append(" ")
            else:
                yield _Element(span["start"], span["end"], event)
        elif "Start" in event:
            if not depth:
                begun, words = event["Start"], []
            depth += 1
        elif "End" in event:
            depth -= 1
            if not depth:
                name = begun if isinstance(begun, str) else next(iter(begun))
                yield _Element(span["start"], span["end"], name, begun, words)
        elif "Text" in event:
            words.append(event["Text"])
        else:
            words += [event.get("Code", ""), ""]


def _events(source: str) -> Iterator[Any]:
    from pyromark import Options as Dialect
    from pyromark import events_with_range

    try:
        yield from events_with_range(source, options=Dialect.ENABLE_TABLES)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which no other handler takes
            raise
        raise BadDocument(
            f"cannot be read as Markdown: {error}; report this defect with the file, or exclude the file"
        ) from None


def _block(text: str, start: int, end: int, element: _Element) -> Block:
    if element.name == "CodeBlock":
        fence = element.about["CodeBlock"]
        if isinstance(fence, dict) and _ADMONITION.match(fence["Fenced"]):
            return Block("paragraph", start, end)
        language = _LANGUAGE.search(fence["Fenced"]) if isinstance(fence, dict) else None
        return Block("code", start, end, language=language[0].lower() if language else None)
    if element.name == "Heading":
        title = _title(element.words)
        level = int(element.about["Heading"]["level"][1])
        return Block("heading", start, end, level=level, title=title or None, number=heading_number(title))
    kind = _KINDS[element.name]
    noted = kind in ("paragraph", "definition") and _NOTE.match(text, start)
    return Block("footnote" if noted else kind, start, end)


def _title(words: Sequence[str]) -> str:
    """Return the text of a heading on one line, as a reader of the rendered page sees it."""
    title = " ".join("".join(words).split())
    return (_ATTRIBUTES.sub("", title) if words and words[-1] else title)[:_TITLE]


def _with_headings(text: str, block: Block) -> Iterator[Block]:
    """Yield a block; if it is HTML, its headings are blocks of their own."""
    at = block.start
    is_page = block.kind == "html" and not text.startswith(_VERBATIM, at)
    for match in _HTML_HEADING.finditer(text, at, block.end) if is_page else ():
        if title := " ".join(unescape(_TAG.sub("", match[2])).split())[:_TITLE]:
            for start, end in trim(text, at, match.start()):
                yield replace(block, start=start, end=end)
            level, number = int(match[1]), heading_number(title)
            yield Block("heading", match.start(), match.end(), level=level, title=title, number=number)
            at = match.end()
    for start, end in trim(text, at, block.end):
        yield replace(block, start=start, end=end)


def _as_label(text: str, block: Block) -> Block:
    """Turn a block of comments only into a ``comment``, and one of anchors as well into a ``label``.

    Return other blocks unchanged.
    """
    if block.kind not in ("html", "paragraph") or text[block.start] not in " \t<(":
        return block
    source = text[block.start : block.end]
    if _COMMENTS.fullmatch(source):
        return replace(block, kind="comment")
    return replace(block, kind="label") if _LABEL.fullmatch(source) else block


PLUGIN = parser_plugin("markdown", 8, parse, isolated="large")
