"""Formulas of Word and PowerPoint (Office Math) as a line of text: ``x²/(a+b)``, ``∑_(i=1)^n i``. Pure.

Without its marks a formula says something else: a fraction would read as one number, a mean as a value.
"""

from collections.abc import Callable
from unicodedata import combining
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.numbers import raise_digits

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_LOWERED = str.maketrans("0123456789+-−", "₀₁₂₃₄₅₆₇₈₉₊₋₋")
_ACCENTS = {  # characters that stand for an accent -> the combining one
    **dict.fromkeys("¯‾-−_\u0304", "\u0305"),
    **dict.fromkeys("^ˆ", "\u0302"), **dict.fromkeys("~˜∼", "\u0303"),
    "→": "\u20d7", "⃗": "\u20d7", "←": "\u20d6", "↔": "\u20e1", ".": "\u0307", "˙": "\u0307", "¨": "\u0308",
    "ˇ": "\u030c", "˘": "\u0306", "´": "\u0301", "`": "\u0300",
}  # fmt: skip


def linear(element: Element) -> str:
    """Return what stands in the element, in the order in which it is read."""
    if element.tag == f"{M}t":
        return element.text or ""
    shape = _SHAPES.get(element.tag)
    if shape:
        return shape(element)
    return "".join(linear(child) for child in element if not child.tag.endswith("Pr"))


def put_in_brackets(text: str) -> str:
    """Put text in brackets, unless it is a name, a number, or in brackets already."""
    if len(text) < 2 or all(sign.isalnum() or combining(sign) for sign in text):
        return text
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{|") - (sign in ")]}")
        if depth <= 0 and at < len(text) - 1:
            return f"({text})"
    return text if depth == 0 else f"({text})"


def fraction(above: str, below: str, *, line: bool = True) -> str:
    """Return a quotient; without a ``line`` a binomial coefficient, which is none."""
    return f"{put_in_brackets(above)}/{put_in_brackets(below)}" if line else f"({above}¦{below})"


def scripts(base: str, below: str, above: str) -> str:
    """Return what stands below and above on the right of a base."""
    base = put_in_brackets(base) if below or above else base
    high = raise_digits(above)
    low = f"_{put_in_brackets(below)}" if below else ""
    return f"{base}{low}^{put_in_brackets(above)}" if high == above != "" else f"{base}{low}{high}"


def prescripts(base: str, below: str, above: str) -> str:
    """Return what stands on the left of a base: the numbers of an isotope, ¹⁴₆C."""
    high, low = raise_digits(above), below.translate(_LOWERED) if raise_digits(below) != below else below
    if (above and high == above) or (below and low == below):
        return f"{scripts('', below, above)} {base}"
    return f"{high}{low}{base}"


def add_accent(base: str, sign: str) -> str:
    """Return a base with an accent over each of its characters; nothing if ``sign`` is no accent."""
    mark = _ACCENTS.get(sign, sign)
    return "".join(f"{one}{mark}" for one in base) if len(mark) == 1 and combining(mark) else ""


def _part(element: Element, name: str) -> str:
    child = element.find(f"{M}{name}")
    return "" if child is None else linear(child).strip()


def _character(element: Element, properties: str, name: str, default: str) -> str:
    """Return a character that the element's properties name; it may be none."""
    element_of_name = element.find(f"{M}{properties}/{M}{name}")
    return default if element_of_name is None else element_of_name.get(f"{M}val", "")


def _fraction(element: Element) -> str:
    line = _character(element, "fPr", "type", "bar") != "noBar"
    return fraction(_part(element, "num"), _part(element, "den"), line=line)


def _scripts(element: Element) -> str:
    below = _part(element, "sub") or _part(element, "lim")
    return scripts(_part(element, "e"), below, _part(element, "sup"))


def _limit_above(element: Element) -> str:
    return scripts(_part(element, "e"), "", _part(element, "lim"))


def _root(element: Element) -> str:
    return f"{raise_digits(_part(element, 'deg'))}√({_part(element, 'e')})"


def _sum(element: Element) -> str:
    sign = _character(element, "naryPr", "chr", "∫")
    return f"{scripts(sign, _part(element, 'sub'), _part(element, 'sup'))} {_part(element, 'e')}"


def _brackets(element: Element) -> str:
    begin, end = _character(element, "dPr", "begChr", "("), _character(element, "dPr", "endChr", ")")
    between = _character(element, "dPr", "sepChr", "|")
    inside = between.join(linear(part).strip() for part in element.findall(f"{M}e"))
    is_binomial = "¦" in inside and inside.startswith("(") and inside.endswith(")")
    return inside if is_binomial and begin + end == "()" else begin + inside + end


def _rows(element: Element) -> str:
    return "; ".join(
        ", ".join(linear(cell).strip() for cell in row) for row in element if row.tag == f"{M}mr"
    )


def _lines(element: Element) -> str:
    return "; ".join(linear(line).strip() for line in element.findall(f"{M}e"))


def _function(element: Element) -> str:
    return f"{_part(element, 'fName')} {_part(element, 'e')}"


def _accent(element: Element) -> str:
    base = _part(element, "e")
    return add_accent(base, _character(element, "accPr", "chr", "\u0302")) or base


def _bar(element: Element) -> str:
    below = _character(element, "barPr", "pos", "bot") == "bot"
    return add_accent(_part(element, "e"), "\u0332" if below else "\u0305")


_SHAPES: dict[str, Callable[[Element], str]] = {
    f"{M}f": _fraction,
    **dict.fromkeys((f"{M}sSup", f"{M}sSub", f"{M}sSubSup", f"{M}limLow"), _scripts),
    f"{M}sPre": lambda element: prescripts(*(_part(element, name) for name in ("e", "sub", "sup"))),
    f"{M}limUpp": _limit_above,
    f"{M}rad": _root,
    f"{M}nary": _sum,
    f"{M}d": _brackets,
    f"{M}m": _rows,
    f"{M}eqArr": _lines,
    f"{M}func": _function,
    f"{M}acc": _accent,
    f"{M}bar": _bar,
}
