"""Formulas in MathML (OpenDocument, DocBook) as a line of text: ``x²/(a+b)``, ``∑_(i=1)^n i``. Pure."""

from collections.abc import Callable
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.numbers import raised
from ingestor.parsers.shared.office_math import bracketed

_MATH = "{http://www.w3.org/1998/Math/MathML}"
_SILENT = ("annotation", "annotation-xml", "mphantom", "none", "mprescripts", "maligngroup")
_SUMS = ("∑", "∏", "∫", "∮", "⋃", "⋂")


def is_formula(element: Element) -> bool:
    return element.tag.removeprefix(_MATH) == "math"


def linear(element: Element) -> str:
    """What stands in the element, in the order in which it is read."""
    name = element.tag.removeprefix(_MATH)
    if name in _SILENT:
        return ""
    if name == "mspace":
        return " "
    shape = _SHAPES.get(name)
    if shape is not None:
        return shape([linear(child) for child in element])
    if len(element) == 0:
        return " ".join((element.text or "").split())
    if name == "mfenced":
        return _fenced(element)
    return _row([linear(child) for child in element])


def _row(parts: list[str]) -> str:
    """Names of more than a letter, and sums, are separated by a space from their arguments."""
    text = before = ""
    for part in parts:
        apart = (len(text) > 1 and text[-2:].isalpha()) or before[:1] in _SUMS
        text += f" {part}" if apart and part[:1].isalnum() else part
        before = part
    return text


def _fraction(parts: list[str]) -> str:
    return "/".join(bracketed(part.strip()) for part in parts[:2])


def _above(parts: list[str]) -> str:
    base, above = _parts(parts, 2)
    high = raised(above)
    return base + (f"^{bracketed(above)}" if high == above != "" else high)


def _below(parts: list[str]) -> str:
    base, below = _parts(parts, 2)
    return base + (f"_{bracketed(below)}" if below else "")


def _below_above(parts: list[str]) -> str:
    base, below, above = _parts(parts, 3)
    return _above([_below([base, below]), above])


def _root(parts: list[str]) -> str:
    base, degree = _parts(parts, 2)
    return f"{raised(degree)}√({base})"


def _parts(parts: list[str], count: int) -> list[str]:
    return [part.strip() for part in [*parts, "", "", ""][:count]]


def _fenced(element: Element) -> str:
    begin, end = element.get("open", "("), element.get("close", ")")
    return begin + ", ".join(linear(child).strip() for child in element) + end


_SHAPES: dict[str, Callable[[list[str]], str]] = {
    "semantics": lambda parts: parts[0] if parts else "",
    "mfrac": _fraction,
    **dict.fromkeys(("msup", "mover"), _above),
    **dict.fromkeys(("msub", "munder"), _below),
    **dict.fromkeys(("msubsup", "munderover"), _below_above),
    "msqrt": lambda parts: f"√({_row(parts).strip()})",
    "mroot": _root,
    "mtable": lambda parts: "; ".join(part.strip() for part in parts),
    "mtr": lambda parts: ", ".join(part.strip() for part in parts),
}
