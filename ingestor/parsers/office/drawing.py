"""Drawings in Office documents: charts, pictures, and shapes with text.

The library anydoc omits the titles of a chart's axes. Of alternative versions of a drawing, it may choose the
wrong one, because it looks at the prefixes of their namespaces. Both are corrected in the document before
anydoc reads.
"""

from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement

from ingestor.parsers.office.tree import CHART
from ingestor.parsers.shared.package import Package

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_AXES = (f"{_CHART}catAx", f"{_CHART}valAx", f"{_CHART}dateAx", f"{_CHART}serAx")


def choose_alternatives(root: Element) -> list[Element]:
    """Replace each group of alternatives by the content of the first one, in place.

    Return the other alternatives, which are versions of the same drawing for old programs.
    """
    refused: list[Element] = []
    if next(root.iter(f"{_MC}AlternateContent"), None) is None:
        return refused
    for parent in list(root.iter()):
        while any(child.tag == f"{_MC}AlternateContent" for child in parent):
            at = next(at for at, child in enumerate(parent) if child.tag == f"{_MC}AlternateContent")
            first, *others = [*parent[at]] or [Element("none")]
            refused += others
            parent[at : at + 1] = list(first)
    return refused


def mark_charts(package: Package, relations: Mapping[str, tuple[str, str]]) -> dict[str, Element]:
    """Return the charts that a part refers to, by part name, with the titles of axes in the charts' titles.

    ``relations``: the part's relations, as ``Package.relations`` returns them.
    """
    return {
        name: _mark(package.xml(name))
        for kind, name in relations.values()
        if kind == "chart" and name in package
    }


def _mark(root: Element) -> Element:
    for value in root.iter(f"{_CHART}v"):
        value.text = _round(value.text or "")
    chart, names = root.find(f"{_CHART}chart"), titles(root)
    if chart is not None and names:
        for caption in chart.findall(f"{_CHART}title"):
            chart.remove(caption)
        title = Element(f"{_CHART}title")
        rich = SubElement(SubElement(title, f"{_CHART}tx"), f"{_CHART}rich")
        SubElement(SubElement(SubElement(rich, f"{A}p"), f"{A}r"), f"{A}t").text = CHART + "; ".join(names)
        chart.insert(0, title)
    return root


def chart_of(element: Element) -> str:
    """Return the identifier of the relation that names an element's chart; "" if the element is no chart."""
    return element.get(f"{_R}id", "") if element.tag == f"{_CHART}chart" else ""


def titles(root: Element) -> list[str]:
    """Return the title of a chart, then the titles of its axes. ``root``: root of the chart's part."""
    owners = [root.find(f"{_CHART}chart"), *(axis for tag in _AXES for axis in root.iter(tag))]
    elements = (owner.find(f"{_CHART}title") for owner in owners if owner is not None)
    return [text for title in elements if title is not None and (text := _title(title))]


def _title(element: Element) -> str:
    rich = " ".join(text(element).split())
    return rich or " ".join(" ".join(value.text or "" for value in element.iter(f"{_CHART}v")).split())


def text(element: Element) -> str:
    """Return the text of all shapes in an element, with a line for each paragraph."""
    paragraphs = ("".join(t.text or "" for t in p.iter(f"{A}t")) for p in element.iter(f"{A}p"))
    return "\n".join(filter(str.strip, paragraphs))


def picture(element: Element) -> tuple[str, str]:
    """Return the identifier of the relation that names a drawing's picture, and the picture's description."""
    blip = next(element.iter(f"{A}blip"), None)
    described = next((one for one in element.iter() if one.tag.endswith("}cNvPr")), None)
    description = "" if described is None else described.get("descr") or described.get("title") or ""
    return "" if blip is None else blip.get(f"{_R}embed") or blip.get(f"{_R}link") or "", description


def _round(text: str) -> str:
    """Round a number to 15 digits, so that 0.30000000000000004 becomes 0.3; return other text unchanged."""
    try:
        return f"{float(text):.15g}"
    except (ValueError, OverflowError):
        return text
