"""MediaWiki: a page of wiki text, or an export of many, each under its title.

Templates and categories are left out. [MediaWiki, Help:Formatting]
"""

import re
from collections.abc import Callable, Iterator
from html import unescape
from xml.etree.ElementTree import Element

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.shared.compose import markdown_table
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.flow import Flow
from ingestor.parsers.shared.package import stream
from ingestor.registry import Options, Plugin

_EXPORT = re.compile(rb"\s*(?:<\?xml[^<>]*>\s*)?<mediawiki[\s>]")
_ITEM = re.compile(r"([*#:;]+)\s*(.*)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CODE = re.compile(r"<(pre|syntaxhighlight|source|score|math)\b[^<>]*(?<!/)>", re.IGNORECASE)
_EMPTY_REF = re.compile(r"<ref\b[^<>]*/>", re.IGNORECASE)
_REF = re.compile(r"<(ref)\b[^<>]*(?<!/)>", re.IGNORECASE)
_FILE = re.compile(
    r"\[\[\s*(?:File|Image|Datei|Bild|Fichier|Archivo)\s*:([^|\[\]]+)((?:\|[^|\[\]]*(?:\[\[[^\[\]]*\]\][^|\[\]]*)*)*)\]\]",
    re.IGNORECASE,
)
_CATEGORY = re.compile(r"\[\[\s*(?:Category|Kategorie|Catégorie)\s*:[^\[\]]*\]\]", re.IGNORECASE)
_LINK = re.compile(r"\[\[(?:[^|\[\]]*\|)?([^|\[\]]*)\]\]")
_ADDRESS = re.compile(r"\[(https?://[^\s\[\]]+)(?:\s([^\[\]]*))?\]")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|__[A-Z]+__")
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_ATTRIBUTES = re.compile(r'^(?:\s*+[\w-]++\s*+=\s*+(?:"[^"]*+"|[^\s|]++))++\s*+\|(?!\|)')
_PLACE = re.compile("\0(\\d+)\0")
_LAYOUT = re.compile(
    r"(?:thumb|frame|frameless|border|left|right|center|none|upright.*|\d*x?\d+px|alt=.*|link=.*|.*=.*)$",
    re.IGNORECASE,
)
_DEEPEST = 10  # templates in each other


class MediawikiParser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options  # there are none

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text, or the export is damaged."""
        flow = Flow()
        if _EXPORT.match(blob.data.removeprefix(b"\xef\xbb\xbf")):
            content_type = "application/x-mediawiki+xml"
            pages = 0
            for name, text in _pages(blob):
                flow.heading(name, 1)
                _Page(flow, 1).read(text)
                pages += 1
            title = flow.composer.title if pages == 1 else None
        else:
            content_type, title = "text/x-wiki", flow.composer.title
            _Page(flow, 0).read(decode(blob.data))
        flow.flush()
        composer = flow.composer
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type=content_type,
            title=title or composer.title,
            left_out=composer.left_out,
        )


def _pages(blob: Blob) -> Iterator[tuple[str, str]]:
    for page in stream(blob.data, blob.name, lambda above: above.tag.endswith("}mediawiki")):
        if page.tag.endswith("}page"):
            yield _said(page, "title"), _said(page, "text")


def _said(page: Element, name: str) -> str:
    return next((one.text or "" for one in page.iter() if one.tag.endswith(f"}}{name}")), "")


class _Page:
    """``deeper``: levels by which its headings lie below its title."""

    def __init__(self, flow: Flow, deeper: int) -> None:
        self._flow, self._deeper = flow, deeper
        self._kept: list[tuple[str, str]] = []  # code and pictures, while the rest is read
        self._lines: list[str] = []

    def read(self, text: str) -> None:
        text = _COMMENT.sub("", text.replace("\r\n", "\n").replace("\0", ""))
        text = _replaced(
            _CODE, text, lambda tag, inner: self._keep("math" if tag == "math" else "code", inner)
        )
        text = self._without_templates(text)
        text = _CATEGORY.sub("", _FILE.sub(self._picture, text))
        lines = iter(text.split("\n"))
        for line in lines:
            if line.lstrip(": ").startswith("{|"):
                self._end_paragraph()
                self._table(lines)
            else:
                self._line(line)
        self._end_paragraph()

    def _keep(self, kind: str, text: str) -> str:
        self._kept.append((kind, text))
        return f"\0{len(self._kept) - 1}\0" if kind == "math" else f"\n\0{len(self._kept) - 1}\0\n"

    def _picture(self, found: re.Match[str]) -> str:
        options = [part.strip() for part in re.split(r"\|(?![^\[\]]*\]\])", found[2])]
        caption = next((part for part in reversed(options) if part and not _LAYOUT.match(part)), "")
        return self._keep(f"figure {found[1].strip()}", caption)

    def _without_templates(self, text: str) -> str:
        for _ in range(_DEEPEST):
            text, count = _TEMPLATE.subn(self._left_out, text)
            if not count:
                break
        return text

    def _left_out(self, found: re.Match[str]) -> str:
        self._flow.composer.leave_out("templates", words(found[0]))
        return ""

    def _line(self, line: str) -> None:
        level, heading = _heading(line.strip())
        item, place = _ITEM.match(line), _PLACE.fullmatch(line.strip())
        if heading:
            self._end_paragraph()
            self._flow.heading(self._plain(heading), level + self._deeper - (not self._deeper and 1))
        elif place and self._kept[int(place[1])][0] != "math":
            self._end_paragraph()
            self._add_kept(*self._kept[int(place[1])])
        elif item and item[2].strip():
            self._end_paragraph()
            marks = item[1]
            self._flow.item(self._plain(item[2]), len(marks) - 1, "1." if marks[-1] == "#" else "-")
        elif line.strip() and not re.fullmatch(r"-{4,}", line):
            self._lines.append(line)
        else:
            self._end_paragraph()

    def _add_kept(self, kind: str, text: str) -> None:
        if kind.startswith("figure "):
            self._flow.figure(kind.removeprefix("figure "), "")
            if text:
                self._flow.caption(self._plain(text))
        else:
            self._flow.add("code", unescape(text).strip("\n"))
            self._flow.flush()

    def _end_paragraph(self) -> None:
        text = self._plain(" ".join(self._lines))
        self._lines = []
        if text:
            self._flow.add("paragraph", text)

    def _table(self, lines: Iterator[str]) -> None:
        rows: list[list[str]] = [[]]
        for line in lines:
            row = line.strip()
            if row.startswith("|}"):
                break
            if row.startswith("|-"):
                rows.append([])
            elif row.startswith("|+"):
                self._flow.add("paragraph", self._plain(row[2:]))
            elif row.startswith(("|", "!")):
                cells = re.split(r"\|\||!!", row[1:]) if row[0] == "!" else row[1:].split("||")
                rows[-1] += [self._plain(_ATTRIBUTES.sub("", cell)) for cell in cells]
            elif row and rows[-1]:
                rows[-1][-1] = f"{rows[-1][-1]} {self._plain(row)}".strip()
        if markdown_table(rows):
            self._flow.table(rows)

    def _cited(self, tag: str, note: str) -> str:
        return self._flow.cite(self._plain(note)) if note else ""

    def _plain(self, markup: str) -> str:
        text = _replaced(_REF, _EMPTY_REF.sub("", markup), self._cited)
        for _ in range(3):
            text = _LINK.sub(r"\1", text)
        text = _ADDRESS.sub(
            lambda found: f"[{label}]({found[1]})" if (label := (found[2] or "").strip()) else found[1], text
        )
        text = unescape(_TAG.sub("", re.sub("'{2,5}", "", text)))
        text = _PLACE.sub(lambda found: self._kept[int(found[1])][1].strip(), text)
        return " ".join(text.split())


def _heading(line: str) -> tuple[int, str]:
    """Level and text; no text where it is none."""
    before, after = len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("="))
    level = min(before, after, 6, max(0, len(line) - 1) // 2)
    return level, line[level : len(line) - level].strip() if level else ""


def _replaced(opening: re.Pattern[str], text: str, make: Callable[[str, str], str]) -> str:
    """With what ``make`` gives for each element, from its tag in lower case and what is in it.

    An element ends with the next closing tag; one that has none is text. A closing tag that is missing is
    looked for once, so that time is linear.
    """
    parts, at, begun, missing = list[str](), 0, 0, set[str]()
    while found := opening.search(text, at):
        tag, at = found[1].lower(), found.end()
        end = None if tag in missing else re.compile(rf"</{tag}\s*>", re.IGNORECASE).search(text, at)
        if end is None:
            missing.add(tag)
            continue
        parts += [text[begun : found.start()], make(tag, text[at : end.start()])]
        at = begun = end.end()
    return "".join([*parts, text[begun:]])


PLUGIN = Plugin(kind="mediawiki", version=1, options=Options, build=MediawikiParser)
