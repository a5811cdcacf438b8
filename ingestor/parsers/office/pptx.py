"""Presentations (PPTX): a slide is a page, its title a heading; texts, tables and the speaker's notes.

A slide's shapes come in the order in which they lie on each other, title first: that is how they were made,
and nearly always how they are read.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from pydantic import Field

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.office import drawing
from ingestor.parsers.office.properties import about, pictures_only
from ingestor.parsers.office.symbols import readable
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.flow import described
from ingestor.parsers.shared.numbers import raised
from ingestor.parsers.shared.office_math import M, linear
from ingestor.parsers.shared.package import Package
from ingestor.parsers.shared.raw_xml import of_office
from ingestor.ports import BadDocument
from ingestor.registry import Options, Plugin

_CONTENT_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_TITLES = ("title", "ctrTitle")
_NO_TEXT = ("dt", "ftr", "sldNum", "hdr", "sldImg")  # placeholders for dates, footers, numbers
_LISTS = ("body", "obj", "")  # placeholders whose paragraphs are bulleted


class PptxOptions(Options):
    comments: bool = Field(default=False, description="whether comments are read, as blocks of their own")


class PptxParser:
    isolated = True

    def __init__(self, options: PptxOptions) -> None:
        self._comments = options.comments

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when it is damaged, encrypted or a bomb."""
        package = Package(blob.data)
        part = package.main_part("ppt/presentation.xml")
        composer, raw_words = Composer(), 0
        for number, slide in enumerate(_slides(package, part)):
            composer.page, composer.page_label = number, str(number + 1)
            _read_slide(composer, package, slide, comments=self._comments)
            raw_words += of_office(package.read(slide))
        properties = about(package)
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type=_CONTENT_TYPE,
            title=properties.title or composer.title,
            language=properties.language,
            extra=properties.extra,
            raw_words=raw_words,
            left_out=composer.left_out,
            lost=pictures_only(package, composer),
        )


def _slides(package: Package, part: str) -> Iterator[str]:
    """The slides' parts in the order of the show, hidden ones too."""
    relations = package.relations(part)
    for entry in package.xml(part).iter(f"{_P}sldId"):
        _, name = relations.get(entry.get(f"{_R}id", ""), ("", ""))
        if name not in package:
            raise BadDocument("is damaged: a slide is missing; save it again, or exclude it")
        yield name


def _read_slide(composer: Composer, package: Package, part: str, *, comments: bool) -> None:
    relations = package.relations(part)
    links = {id_: url for id_, (kind, url) in relations.items() if kind == "hyperlink"}
    shapes = list(_shapes(package.xml(part).find(f"{_P}cSld/{_P}spTree")))
    for title in (shape for shape in shapes if _placeholder(shape) in _TITLES):
        composer.heading(" ".join(text for _, text in _paragraphs(title, links)), 1)
    for shape in shapes:
        if shape.tag == f"{_P}graphicFrame":
            _read_graphic(composer, package, relations, shape, links)
        elif shape.tag == f"{_P}pic":
            relation, description = drawing.picture(shape)
            name = relations.get(relation, ("", ""))[1]
            composer.add("figure", described(description), figure=name or None)
        elif _placeholder(shape) not in _TITLES:
            _read_text(composer, shape, links)
    for kind, notes in relations.values():
        if kind == "notesSlide" and notes in package:
            _read_notes(composer, package.xml(notes))
        elif kind == "comments" and comments:
            _read_comments(composer, package.optional(notes))


def _read_graphic(
    composer: Composer,
    package: Package,
    relations: dict[str, tuple[str, str]],
    frame: Element,
    links: dict[str, str],
) -> None:
    """A table, a chart or a diagram."""
    for table in frame.iter(f"{_A}tbl"):
        composer.table(_rows(table, links))
    for relation in filter(None, map(drawing.part_of, frame.iter())):
        root = package.optional(relations.get(relation, ("", ""))[1])
        composer.add("figure", "\n".join(drawing.titles(root)))
        composer.table(drawing.rows(root))
        composer.add("list", "\n".join(f"- {line}" for line in drawing.lines(root)))


def _read_comments(composer: Composer, root: Element) -> None:
    for element in root.iter():
        if element.tag.endswith("}text") and element.tag.startswith(_P):
            composer.add("comment", element.text or "")
        elif element.tag.endswith("}txBody"):
            composer.add("comment", "\n".join(text for _, text in _paragraphs(element, {})))


def _read_text(composer: Composer, shape: Element, links: dict[str, str]) -> None:
    kind, lines = _placeholder(shape), list(_paragraphs(shape, links))
    if kind in _LISTS and len(lines) > 1:
        composer.add("list", "\n".join(f"{'  ' * level}- {text}" for level, text in lines))
    elif kind not in _NO_TEXT:
        composer.add("paragraph", "\n".join(text for _, text in lines))
    else:
        composer.leave_out("dates, footers and numbers of slides", _words_in(shape))


def _read_notes(composer: Composer, root: Element) -> None:
    for shape in root.iter(f"{_P}sp"):
        if _placeholder(shape) == "body":
            composer.add("notes", "\n".join(text for _, text in _paragraphs(shape, {})))


def _shapes(tree: Element | None) -> Iterator[Element]:
    """Those with text, a table or a picture, also inside groups."""
    for shape in () if tree is None else tree:
        if shape.tag in (f"{_P}grpSp", f"{_MC}AlternateContent", f"{_MC}Choice"):
            yield from _shapes(shape)
        elif shape.tag in (f"{_P}sp", f"{_P}graphicFrame", f"{_P}pic"):
            yield shape


def _words_in(element: Element) -> int:
    return words(" ".join(text for _, text in _paragraphs(element, {})))


def _placeholder(shape: Element) -> str | None:
    """What the layout has this shape for; None for one of the author's own."""
    found = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return None if found is None else found.get("type", "")


def _paragraphs(element: Element, links: dict[str, str]) -> Iterator[tuple[int, str]]:
    """(level, text) of those that say something."""
    for paragraph in element.iter(f"{_A}p"):
        text = "".join(_runs(paragraph, links))
        properties = paragraph.find(f"{_A}pPr")
        level = "0" if properties is None else properties.get("lvl", "0")
        if text.strip():
            yield min(int(level), 8) if level.isdigit() else 0, " ".join(text.split())


def _runs(paragraph: Element, links: dict[str, str]) -> Iterator[str]:
    for run in paragraph:
        formula = next(run.iter(f"{M}oMath"), None)
        said = "".join(part.text or "" for part in run.iter(f"{_A}t")) if formula is None else linear(formula)
        said = readable(said, _font(run))
        text = raised(said) if _is_raised(run) else said
        link = run.find(f"{_A}rPr/{_A}hlinkClick")
        url = "" if link is None else links.get(link.get(f"{_R}id", ""), "")
        linked = url and text.strip() and text.strip() not in url
        yield "\n" if run.tag == f"{_A}br" else f"[{text}]({url})" if linked else text


def _font(run: Element) -> str:
    """That of its symbols, or of its text."""
    properties = run.find(f"{_A}rPr")
    fonts = [] if properties is None else [properties.find(f"{_A}{kind}") for kind in ("sym", "latin")]
    return next((font.get("typeface", "") for font in fonts if font is not None), "")


def _is_raised(run: Element) -> bool:
    """Its baseline, in thousandths of a percent of its size, lies above the text's."""
    properties = run.find(f"{_A}rPr")
    baseline = "0" if properties is None else properties.get("baseline", "0")
    return baseline.isdigit() and int(baseline) > 0


def _rows(table: Element, links: dict[str, str]) -> Iterator[list[str]]:
    for row in table.iter(f"{_A}tr"):
        yield [" ".join(text for _, text in _paragraphs(cell, links)) for cell in row.iter(f"{_A}tc")]


PLUGIN = Plugin(kind="pptx", version=3, options=PptxOptions, build=PptxParser)
