"""Charts and diagrams (SmartArt) of Office documents: their texts and figures. Pure."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.whole import whole

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_VML = "{urn:schemas-microsoft-com:vml}"
_OFFICE = "{urn:schemas-microsoft-com:office:office}"
_AXES = (f"{CHART}catAx", f"{CHART}valAx", f"{CHART}dateAx", f"{CHART}serAx")


def part_of(element: Element) -> str:
    """The relation that an element in a drawing refers to, if it is a chart or a diagram; else ""."""
    if element.tag == f"{CHART}chart":
        return element.get(f"{R}id", "")
    return element.get(f"{R}dm", "") if element.tag == f"{DIAGRAM}relIds" else ""


def titles(root: Element) -> list[str]:
    """Of a chart: its own title, then those of its axes."""
    owners = [root.find(f"{CHART}chart"), *(axis for tag in _AXES for axis in root.iter(tag))]
    found = (owner.find(f"{CHART}title") for owner in owners if owner is not None)
    return [text for title in found if title is not None and (text := _text(title))]


def rows(root: Element) -> list[list[str]]:
    """Of a chart: a header with the names of its series, then a row for each category."""
    series = list(root.iter(f"{CHART}ser"))
    if not series:
        return []
    categories: dict[int, str] = {}
    columns = []
    for one in series:
        categories = {**dict(_points(one, "cat", "xVal")), **categories}
        columns.append(dict(_points(one, "val", "yVal")))
    names = [_name(one) for one in series]
    places = sorted({*categories, *(place for column in columns for place in column)})
    body = [[categories.get(at, ""), *(column.get(at, "") for column in columns)] for at in places]
    return [["", *names], *body]


def lines(root: Element) -> list[str]:
    """Of a diagram: the texts of its nodes."""
    texts = (_text(point) for point in root.iter(f"{DIAGRAM}pt"))
    return [text for text in texts if text]


def text(element: Element) -> str:
    """Of the shapes in it, a line for each paragraph."""
    paragraphs = ("".join(t.text or "" for t in p.iter(f"{A}t")) for p in element.iter(f"{A}p"))
    return "\n".join(filter(str.strip, paragraphs))


def picture(element: Element) -> tuple[str, str]:
    """Relation of the picture that a drawing shows, and what the drawing says of it; "" for neither.

    Word before 2010 drew pictures in VML.
    """
    vector = next(element.iter(f"{_VML}imagedata"), None)
    if vector is not None:
        said = next((one.get("alt", "") for one in element.iter() if one.get("alt")), "")
        return vector.get(f"{R}id", ""), said or vector.get(f"{_OFFICE}title", "")
    blip = next(element.iter(f"{A}blip"), None)
    described = next((one for one in element.iter() if one.tag.endswith(("}docPr", "}cNvPr"))), None)
    said = "" if described is None else described.get("descr") or described.get("title") or ""
    return "" if blip is None else blip.get(f"{R}embed") or blip.get(f"{R}link") or "", said


def _name(series: Element) -> str:
    found = series.find(f"{CHART}tx")
    return "" if found is None else " ".join(value.text or "" for value in found.iter(f"{CHART}v"))


def _points(series: Element, *names: str) -> Iterator[tuple[int, str]]:
    for name in names:
        for part in series.findall(f"{CHART}{name}"):
            for point in part.iter(f"{CHART}pt"):
                text = " ".join(value.text or "" for value in point.iter(f"{CHART}v"))
                yield whole(point.get("idx", "0"), 0), _shown(text)


def _shown(text: str) -> str:
    """Without the digits that binary fractions bring: 0.30000000000000004 is 0.3."""
    try:
        return f"{float(text):.15g}"
    except (ValueError, OverflowError):
        return text


def _text(element: Element) -> str:
    paragraphs = ("".join(t.text or "" for t in p.iter(f"{A}t")) for p in element.iter(f"{A}p"))
    rich = " ".join(" ".join(paragraphs).split())
    return rich or " ".join(" ".join(v.text or "" for v in element.iter(f"{CHART}v")).split())
