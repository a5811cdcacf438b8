"""Drawings of Office documents: charts, pictures, shapes with text.

The library anydoc reads charts without the titles of their axes, and chooses among alternatives by the
prefixes of their namespaces. Both are settled before it reads.
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
    """Put the first of several alternatives in their place; return the others, for old programs."""
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
    """Return the charts that a part refers to, with the titles of their axes in their own."""
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
    """Return the relation by which an element in a drawing refers to a chart; else nothing."""
    return element.get(f"{_R}id", "") if element.tag == f"{_CHART}chart" else ""


def titles(root: Element) -> list[str]:
    """Return a chart's own title, then the titles of its axes."""
    owners = [root.find(f"{_CHART}chart"), *(axis for tag in _AXES for axis in root.iter(tag))]
    elements = (owner.find(f"{_CHART}title") for owner in owners if owner is not None)
    return [text for title in elements if title is not None and (text := _title(title))]


def _title(element: Element) -> str:
    rich = " ".join(text(element).split())
    return rich or " ".join(" ".join(value.text or "" for value in element.iter(f"{_CHART}v")).split())


def text(element: Element) -> str:
    """Return the text of the shapes in an element, a line for each paragraph."""
    paragraphs = ("".join(t.text or "" for t in p.iter(f"{A}t")) for p in element.iter(f"{A}p"))
    return "\n".join(filter(str.strip, paragraphs))


def picture(element: Element) -> tuple[str, str]:
    """Return the relation of the picture that a drawing shows, and its description."""
    blip = next(element.iter(f"{A}blip"), None)
    described = next((one for one in element.iter() if one.tag.endswith("}cNvPr")), None)
    description = "" if described is None else described.get("descr") or described.get("title") or ""
    return "" if blip is None else blip.get(f"{_R}embed") or blip.get(f"{_R}link") or "", description


def _round(text: str) -> str:
    """Drop the digits that binary fractions bring: 0.30000000000000004 is 0.3."""
    try:
        return f"{float(text):.15g}"
    except (ValueError, OverflowError):
        return text
