"""Formulas of Word and PowerPoint (Office Math) as a line of text: ``x²/(a+b)``, ``∑_(i=1)^n i``. Pure.

Without its marks a formula says something else: a fraction would read as one number.
"""

from collections.abc import Callable
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.numbers import raised

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def linear(element: Element) -> str:
    """What stands in the element, in the order in which it is read."""
    if element.tag == f"{M}t":
        return element.text or ""
    shape = _SHAPES.get(element.tag)
    if shape:
        return shape(element)
    return "".join(linear(child) for child in element if not child.tag.endswith("Pr"))


def _part(element: Element, name: str) -> str:
    child = element.find(f"{M}{name}")
    return "" if child is None else linear(child).strip()


def _said(element: Element, properties: str, name: str, default: str) -> str:
    """A character that the element's properties name; it may be none."""
    found = element.find(f"{M}{properties}/{M}{name}")
    return default if found is None else found.get(f"{M}val", "")


def bracketed(text: str) -> str:
    """In brackets, unless it is a name or a number."""
    return text if text.isalnum() or len(text) < 2 else f"({text})"


def _fraction(element: Element) -> str:
    return f"{bracketed(_part(element, 'num'))}/{bracketed(_part(element, 'den'))}"


def _scripts(element: Element) -> str:
    return _part(element, "e") + _below_above(element)


def _below_above(element: Element) -> str:
    below, above = _part(element, "sub") or _part(element, "lim"), _part(element, "sup")
    high = raised(above)
    return (f"_{bracketed(below)}" if below else "") + (
        f"^{bracketed(above)}" if high == above != "" else high
    )


def _root(element: Element) -> str:
    return f"{raised(_part(element, 'deg'))}√({_part(element, 'e')})"


def _sum(element: Element) -> str:
    sign = _said(element, "naryPr", "chr", "∫")
    return f"{sign}{_below_above(element)} {_part(element, 'e')}"


def _brackets(element: Element) -> str:
    begin, end = _said(element, "dPr", "begChr", "("), _said(element, "dPr", "endChr", ")")
    between = _said(element, "dPr", "sepChr", "|")
    return begin + between.join(linear(part).strip() for part in element.findall(f"{M}e")) + end


def _limit_above(element: Element) -> str:
    return f"{_part(element, 'e')}^{bracketed(_part(element, 'lim'))}"


def _rows(element: Element) -> str:
    return "; ".join(
        ", ".join(linear(cell).strip() for cell in row) for row in element if row.tag == f"{M}mr"
    )


def _lines(element: Element) -> str:
    return "; ".join(linear(line).strip() for line in element.findall(f"{M}e"))


def _function(element: Element) -> str:
    return f"{_part(element, 'fName')} {_part(element, 'e')}"


_SHAPES: dict[str, Callable[[Element], str]] = {
    f"{M}f": _fraction,
    **dict.fromkeys((f"{M}sSup", f"{M}sSub", f"{M}sSubSup", f"{M}limLow"), _scripts),
    f"{M}limUpp": _limit_above,
    f"{M}rad": _root,
    f"{M}nary": _sum,
    f"{M}d": _brackets,
    f"{M}m": _rows,
    f"{M}eqArr": _lines,
    f"{M}func": _function,
}
