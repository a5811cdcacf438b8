"""Markdown: CommonMark with tables and front matter, as blocks of the source.

Only the top level counts: a list with all that is nested in it is one block, and so is a quote. The
document's text is the decoded source, so every block's span is exact; markdown-it says which lines a
block takes, and the lines' offsets in the source say the rest. Blocks begin at the start of a line.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ingestor.model import Blob, Block, Document
from ingestor.parsers.markup.front_matter import FrontMatter, front_matter
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.text import paragraphs, trimmed
from ingestor.registry import Options, Plugin
from ingestor.text.outline import heading_number, line_starts

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_DEPTH = 100  # a quote is one level, a list two; markdown-it reads nothing deeper
_TITLE = 300  # characters of a heading that are read
_BRACKETS = 20  # in a heading; each opening one may make markdown-it read all the rest
_KINDS = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "blockquote_open": "quote",
    "table_open": "table",
    "fence": "code",
    "code_block": "code",
    "html_block": "html",
    "hr": "rule",
}
_NEWLINE = re.compile(r"\r\n?")
_LANGUAGE = re.compile(r"\w[\w+#-]*")
_MARKUP = re.compile(r"[\\`*_\[<&\n]")
_COMMENTS = re.compile(r"(?:\s|<!--(?>(?s:.)*?-->))+")
_LABEL = re.compile(  # anchors and comments alone; "(name)=" is MyST's
    r"(?:\s|<!--(?>(?s:.)*?-->)|<(a|span|div)\s[^<>]*>\s*</\1>|<a\s[^<>]*/>)+|\([\w.:-]+\)=\s*"
)
_NOTE = re.compile(r"\[\^[^\]\s]+\]:")
_ATTRIBUTES = re.compile(r"(?<!\s)\s*+\{[#.:][^{}]*+\}$")  # {#anchor .class} behind a heading


class MarkdownParser:
    isolated = "large"

    def __init__(self, options: Options) -> None:
        del options  # there are none

    @cached_property
    def _md(self) -> "MarkdownIt":
        from markdown_it import MarkdownIt  # slow to import

        return MarkdownIt("commonmark", {"maxNesting": _DEPTH}).enable("table")

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text."""
        text = decode(blob.data)
        front = front_matter(text)
        blocks = (*_front_block(front), *self._blocks(text, front.end if front else 0))
        return Document(
            text=text,
            blocks=blocks,
            content_type="text/markdown",
            title=(front and front.title) or _first_title(blocks),
            language=front.language if front else None,
            extra=front.extra if front else (),
        )

    def _blocks(self, text: str, start: int) -> list[Block]:
        """The blocks from ``start`` on, which is where a line begins."""
        from markdown_it.token import Token

        plain = Token("paragraph_open", "p", 1)
        lines = [*line_starts(text), len(text)]
        env: dict[str, Any] = {}
        found: list[tuple[int, int, Token | None, str]] = []
        for first, last, tokens in self._spans(text, lines.index(start), env):
            start, end = lines[first], lines[last]
            if any(token.level >= _DEPTH - 2 for token in tokens):
                # Such a list would take all lines after it.
                found += [(start + a, start + b, plain, "") for a, b in paragraphs(text[start:end])]
                continue
            content = tokens[1].content[:_TITLE] if len(tokens) > 1 else ""
            head = tokens[0] if tokens else None
            found += [(begin, end, head, content) for begin, end in trimmed(text, start, end)]
        # Titles last: they may use link definitions from anywhere in the document.
        return [_as_label(text, self._block(*block, env)) for block in found]

    def _spans(self, text: str, line: int, env: dict[str, Any]) -> Iterator[tuple[int, int, list["Token"]]]:
        """(first line, line after the last, tokens) of each block at the top level.

        markdown-it's own loop over its rules, but handing out each block's tokens at once: all
        together they take fifty times the memory of the text.
        """
        from markdown_it.rules_block import StateBlock

        source = _NEWLINE.sub("\n", text).replace("\0", "\ufffd")
        state = StateBlock(source, self._md, env, [])
        rules = self._md.block.ruler.getRules("")
        while (line := state.skipEmptyLines(line)) < state.lineMax:
            state.line = line
            any(rule(state, line, state.lineMax, False) for rule in rules)  # the first that fits
            yield line, state.line, state.tokens
            state.tokens.clear()
            line = state.line

    def _block(self, start: int, end: int, head: "Token | None", content: str, env: dict[str, Any]) -> Block:
        if head is None:  # link definitions yield no tokens
            return Block("definition", start, end)
        kind = _KINDS[head.type]
        if kind == "code":
            language = _LANGUAGE.search(head.info)
            return Block(kind, start, end, language=language[0].lower() if language else None)
        if kind == "heading":
            title = self._plain(content, env)
            number = heading_number(title)
            return Block(kind, start, end, level=int(head.tag[1]), title=title or None, number=number)
        return Block("footnote" if kind == "paragraph" and _NOTE.match(content) else kind, start, end)

    def _plain(self, markup: str, env: dict[str, Any]) -> str:
        """The text that a reader of the rendered heading sees, in one line."""
        markup = _ATTRIBUTES.sub("", markup)
        if not _MARKUP.search(markup) or markup.count("[") > _BRACKETS:
            return " ".join(markup.split())
        tokens: list[Token] = []
        self._md.inline.parse(markup, self._md, env, tokens)
        return " ".join("".join(map(_visible, tokens)).split())


def _as_label(text: str, block: Block) -> Block:
    """Comments and anchors that stand alone are blocks of their own kinds."""
    if block.kind not in ("html", "paragraph") or text[block.start] not in " \t<(":
        return block
    source = text[block.start : block.end]
    if _COMMENTS.fullmatch(source):
        return replace(block, kind="comment")
    return replace(block, kind="label") if _LABEL.fullmatch(source) else block


def _visible(token: "Token") -> str:
    if token.type == "image":
        return "".join(map(_visible, token.children or ()))
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return "" if token.type == "html_inline" else token.content


def _front_block(front: FrontMatter | None) -> tuple[Block, ...]:
    return (Block("front_matter", 0, front.visible_end),) if front else ()


def _first_title(blocks: Sequence[Block]) -> str | None:
    return next((block.title for block in blocks if block.level == 1 and block.title), None)


PLUGIN = Plugin(kind="markdown", version=3, options=Options, build=MarkdownParser)
