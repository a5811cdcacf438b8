"""Presentations (PPTX): a slide is a page, its title a heading; lists, tables, charts, the speaker's notes.

The library anydoc reads the presentation. Before that, everything that anydoc's tree cannot represent is
written as text: the beginnings of slides, formulas, symbols, superscript numbers and comments.
"""

from collections import Counter
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from pydantic import Field

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.office.drawing import A, choose_alternatives, mark_charts
from ingestor.parsers.office.symbols import readable
from ingestor.parsers.office.tree import PAGE, Asides, read_tree
from ingestor.parsers.shared.flow import Flow
from ingestor.parsers.shared.formulas import M, linear
from ingestor.parsers.shared.numbers import raise_digits
from ingestor.parsers.shared.package import Package, count_office_words, office_properties, pack
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.ports import BadDocument
from ingestor.registry import Options

_CONTENT_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_NO_TEXT = ("dt", "ftr", "sldNum", "hdr", "sldImg")  # placeholders for dates, footers, numbers


class PptxOptions(Options):
    comments: bool = Field(default=False, description="read comments, as separate blocks")


def parse(blob: Blob, options: PptxOptions) -> Document:
    """Read a presentation. Raises BadDocument if the file is damaged, encrypted or a zip bomb."""
    package, asides = Package(blob.data), Asides()
    part = package.main_part("ppt/presentation.xml")
    changed: dict[str, Element | bytes] = {}
    raw_words, left_out = 0, Counter[str]()
    for name in _slides(package, part):
        raw_words += count_office_words(package.read(name))
        changed[name] = slide = package.xml(name)
        relations = package.relations(name)
        for other in choose_alternatives(slide):
            left_out["second versions for old programs"] += _count(other)
        for parent, shape in _find_hidden_shapes(slide):
            left_out["hidden shapes"] += _count(shape)
            parent.remove(shape)
        left_out["dates, footers and numbers of slides"] += _mark(slide)
        changed |= mark_charts(package, relations)
        shapes = slide.find(f"{_P}cSld/{_P}spTree")
        if options.comments and shapes is not None:
            for kind, target in relations.values():
                texts = _comments(package, kind, target)
                shapes.extend(_shape(asides.comment("", text)) for text in texts)
    folders = ("[Content_Types].xml", "_rels/", part.partition("/")[0])
    flow = read_tree(pack(package, changed, folders), "pptx", asides, slides=True) if changed else Flow()
    flow.composer.left_out.update(left_out)
    facts = office_properties(package, flow.composer)
    title = facts.pop("title") or flow.composer.title
    return flow.composer.document(_CONTENT_TYPE, title=title, raw_words=raw_words, **facts)


def _slides(package: Package, part: str) -> Iterator[str]:
    """Yield the names of the slides' parts in the order of the presentation, including hidden slides."""
    relations = package.relations(part)
    for entry in package.xml(part).iter(f"{_P}sldId"):
        _, name = relations.get(entry.get(f"{_R}id", ""), ("", ""))
        if name not in package:
            raise BadDocument("is damaged: a slide is missing; save it again, or exclude it")
        yield name


def _find_hidden_shapes(slide: Element) -> list[tuple[Element, Element]]:
    """Return each shape that the slide does not show, behind the element that contains it."""
    return [
        (parent, shape)
        for parent in slide.iter()
        if parent.tag in (f"{_P}spTree", f"{_P}grpSp")
        for shape in parent
        if (named := shape.find(f"*/{_P}cNvPr")) is not None and named.get("hidden") in ("1", "true")
    ]


def _mark(slide: Element) -> int:
    """Mark the beginning of a slide, and write its formulas, symbols and superscript numbers as text.

    Return the number of words in its date, footer and slide number, which anydoc leaves out.
    """
    slide.attrib.pop("show", None)
    tree = slide.find(f"{_P}cSld/{_P}spTree")
    if tree is not None:
        tree.insert(next((at for at, shape in enumerate(tree) if "Grp" not in shape.tag), 0), _shape(PAGE))
    for paragraph in slide.iter(f"{A}p"):
        for at, run in enumerate(paragraph):
            formula = next(run.iter(f"{M}oMath"), None) if run.tag != f"{A}r" else None
            if formula is not None:
                paragraph[at] = _run(linear(formula))
        for run in paragraph.iter(f"{A}r"):
            _rewrite(run)
    return sum(
        _count(shape)
        for shape in slide.iter(f"{_P}sp")
        if (kind := shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")) is not None and kind.get("type") in _NO_TEXT
    )


def _count(element: Element) -> int:
    return words("".join(text.text or "" for text in element.iter(f"{A}t")))


def _rewrite(run: Element) -> None:
    """Write a run's superscript number, and its characters of a symbol font, as Unicode characters."""
    properties, text = run.find(f"{A}rPr"), run.find(f"{A}t")
    if properties is None or text is None or not text.text:
        return
    fonts = (properties.find(f"{A}{kind}") for kind in ("sym", "latin"))
    font = next((font.get("typeface", "") for font in fonts if font is not None), "")
    baseline = properties.get("baseline", "0")  # in thousandths of a percent of its size
    words = readable(text.text, font)
    text.text = raise_digits(words) if baseline.isdigit() and int(baseline) > 0 else words


def _comments(package: Package, kind: str, part: str) -> Iterator[str]:
    for element in package.optional(part if kind == "comments" else "").iter():
        if element.tag.startswith(_P) and element.tag.endswith("}text"):
            yield element.text or ""
        elif element.tag.endswith("}txBody"):
            yield " ".join(text.text or "" for text in element.iter(f"{A}t"))


def _shape(text: str) -> Element:
    shape = Element(f"{_P}sp")
    kind = SubElement(shape, f"{_P}nvSpPr")
    SubElement(kind, f"{_P}cNvPr", {"id": "0", "name": ""})
    SubElement(kind, f"{_P}nvPr")
    SubElement(shape, f"{_P}spPr")
    SubElement(SubElement(shape, f"{_P}txBody"), f"{A}p").append(_run(text))
    return shape


def _run(text: str) -> Element:
    run = Element(f"{A}r")
    SubElement(run, f"{A}t").text = text
    return run


PLUGIN = parser_plugin("pptx", 5, parse, PptxOptions)
