"""Formulas in MathML (OpenDocument, HTML, EPUB) as a line of text: ``x²/(a+b)``, ``∑_(i=1)^n i``. Pure."""

from collections.abc import Callable
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.numbers import raise_digits
from ingestor.parsers.shared.office_math import add_accent, fraction, prescripts, scripts

_MATH = "{http://www.w3.org/1998/Math/MathML}"
_SILENT = ("annotation", "annotation-xml", "mphantom", "none", "mprescripts", "maligngroup")
_SUMS = ("∑", "∏", "∫", "∮", "⋃", "⋂")
_UNDERLINES = ("_", "\u0332", "¯", "‾")


def is_formula(element: Element) -> bool:
    return element.tag.removeprefix(_MATH) == "math"


def linear(element: Element) -> str:
    """Return what stands in the element, in the order in which it is read."""
    name = element.tag.removeprefix(_MATH)
    if name in _SILENT:
        return ""
    if name == "mspace":
        return " "
    if name == "mfrac":
        return fraction(*_parts(element)[:2], line=element.get("linethickness", "")[:1] != "0")
    if name == "mmultiscripts":
        return _multiscripts(element)
    if name == "mfenced":
        return _fence(element)
    shape = _SHAPES.get(name)
    if shape is not None:
        return shape(element)
    if len(element) == 0:
        return " ".join((element.text or "").split())
    return _row(element)


def _row(element: Element) -> str:
    """Separate names of more than a letter, and sums, from their arguments; keep lone binomials bare."""
    text = before = ""
    parts = [linear(child) for child in element]
    for part in parts:
        apart = (len(text) > 1 and text[-2:].isalpha()) or before[:1] in _SUMS
        text += f" {part}" if apart and part[:1].isalnum() else part
        before = part
    return (
        text[1:-1]
        if len(parts) == 3 and text.startswith("((") and "¦" in parts[1] and text.endswith("))")
        else text
    )


def _parts(element: Element) -> tuple[str, str, str]:
    """Return the first three parts, empty where there are fewer."""
    first, second, third, *_ = *(linear(child).strip() for child in element), "", "", ""
    return first, second, third


def _above(element: Element) -> str:
    base, above, _ = _parts(element)
    return add_accent(base, above) or scripts(base, "", above)


def _below(element: Element) -> str:
    base, below, _ = _parts(element)
    return add_accent(base, "\u0332") if below in _UNDERLINES else scripts(base, below, "")


def _root(element: Element) -> str:
    base, degree, _ = _parts(element)
    return f"{raise_digits(degree)}√({base})"


def _multiscripts(element: Element) -> str:
    """Return a base with pairs of scripts on its right, then those on its left."""
    sides: list[list[str]] = [[]]
    for child in [*element][1:]:
        if child.tag.removeprefix(_MATH) == "mprescripts":
            sides.append([])
        else:
            sides[-1].append(linear(child).strip())
    (right, left), base = [*sides, []][:2], _parts(element)[0]
    base = scripts(base, "".join(right[::2]), "".join(right[1::2]))
    return prescripts(base, "".join(left[::2]), "".join(left[1::2])) if any(left) else base


def _fence(element: Element) -> str:
    begin, end = element.get("open", "("), element.get("close", ")")
    inside = ", ".join(linear(child).strip() for child in element)
    return inside if "¦" in inside and begin == "(" == inside[:1] else begin + inside + end


def _join(between: str) -> Callable[[Element], str]:
    return lambda element: between.join(linear(child).strip() for child in element)


_SHAPES: dict[str, Callable[[Element], str]] = {
    "semantics": lambda element: linear(element[0]) if len(element) else "",
    "msup": lambda element: scripts(_parts(element)[0], "", _parts(element)[1]),
    "mover": _above,
    "msub": lambda element: scripts(*_parts(element)[:2], ""),
    "munder": _below,
    **dict.fromkeys(("msubsup", "munderover"), lambda element: scripts(*_parts(element))),
    "msqrt": lambda element: f"√({_row(element).strip()})",
    "mroot": _root,
    "mtable": _join("; "),
    "mtr": _join(", "),
}
