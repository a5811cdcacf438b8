"""Writes formulas of Office (OMML) and MathML as a line of text: ``x²/(a+b)``, ``∑_(i=1)^n i``. Pure.

Without its signs a formula changes its meaning: a fraction would read as one number, a mean as a value.
"""

from collections.abc import Callable
from unicodedata import combining
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.numbers import raise_digits

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MATHML = "{http://www.w3.org/1998/Math/MathML}"
_LOWERED = str.maketrans("0123456789+-−", "₀₁₂₃₄₅₆₇₈₉₊₋₋")
_ACCENTS = {  # characters that stand for an accent -> the combining one
    **dict.fromkeys("¯‾-−_\u0304", "\u0305"),
    **dict.fromkeys("^ˆ", "\u0302"), **dict.fromkeys("~˜∼", "\u0303"),
    "→": "\u20d7", "⃗": "\u20d7", "←": "\u20d6", "↔": "\u20e1", ".": "\u0307", "˙": "\u0307", "¨": "\u0308",
    "ˇ": "\u030c", "˘": "\u0306", "´": "\u0301", "`": "\u0300",
}  # fmt: skip
_UNDERLINE, _OVERLINE, _HAT = "\u0332", "\u0305", "\u0302"
_SILENT = ("annotation", "annotation-xml", "mphantom", "none", "mprescripts", "maligngroup")
_SUMS = ("∑", "∏", "∫", "∮", "⋃", "⋂")


def is_formula(element: Element) -> bool:
    """Return whether an element is the root of a formula in MathML."""
    return element.tag.removeprefix(_MATHML) == "math"


def linear(element: Element) -> str:
    """Return a formula, or a part of a formula, as a line of text."""
    name = element.tag.rpartition("}")[2]
    if shape := _SHAPES.get(name):
        return shape(element)
    if element.tag != name and not element.tag.startswith(_MATHML):
        return "".join(linear(child) for child in element if not child.tag.endswith("Pr"))
    if name in _SILENT:
        return ""
    return _row(element) if len(element) else " ".join((element.text or "").split())


# --- parts of a formula -------------------------------------------------------------------------------------


def _part(element: Element, name: str) -> str:
    """Return the named part of an Office formula's element as text; "" if it is missing."""
    child = element.find(f"{M}{name}")
    return "" if child is None else linear(child).strip()


def _parts(element: Element) -> tuple[str, str, str]:
    """Return the first three children of a MathML element as text; "" for missing ones."""
    first, second, third, *_ = *(linear(child).strip() for child in element), "", "", ""
    return first, second, third


def _set(element: Element, path: str, default: str) -> str:
    """Return the character that a property of an Office formula names; ``default`` without the property.

    ``path``: names of the elements that lead to the property.
    """
    named = element.find("/".join(M + name for name in path.split("/")))
    return default if named is None else named.get(f"{M}val", "")


def _row(element: Element) -> str:
    """Join the parts of a row, with a space between a function's name or a sum and its argument.

    A row that is only a binomial coefficient in brackets loses the outer brackets.
    """
    text = before = ""
    parts = [linear(child) for child in element]
    for part in parts:
        apart = (len(text) > 1 and text[-2:].isalpha()) or before[:1] in _SUMS
        text += f" {part}" if apart and part[:1].isalnum() else part
        before = part
    bare = len(parts) == 3 and text.startswith("((") and "¦" in parts[1] and text.endswith("))")
    return text[1:-1] if bare else text


def _join(elements: Element | list[Element], between: str) -> str:
    return between.join(linear(one).strip() for one in elements)


# --- shapes -------------------------------------------------------------------------------------------------


def put_in_brackets(text: str) -> str:
    """Put a text in brackets, unless it is a name or a number, or already in brackets."""
    if len(text) < 2 or all(sign.isalnum() or combining(sign) for sign in text):
        return text
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{|") - (sign in ")]}")
        if depth <= 0 and at < len(text) - 1:
            return f"({text})"
    return text if depth == 0 else f"({text})"


def _fraction(above: str, below: str, line: bool) -> str:
    """Return a fraction. Without a ``line`` between its parts it is a binomial coefficient, and uses "¦"."""
    return f"{put_in_brackets(above)}/{put_in_brackets(below)}" if line else f"({above}¦{below})"


def _scripts(base: str, below: str, above: str) -> str:
    """Return a base with a subscript and a superscript."""
    base = put_in_brackets(base) if below or above else base
    high = raise_digits(above)
    low = f"_{put_in_brackets(below)}" if below else ""
    return f"{base}{low}^{put_in_brackets(above)}" if high == above != "" else f"{base}{low}{high}"


def _prescripts(base: str, below: str, above: str) -> str:
    """Return a base with scripts on its left, such as the numbers of an isotope: ¹⁴₆C."""
    high, low = raise_digits(above), below.translate(_LOWERED) if raise_digits(below) != below else below
    if (above and high == above) or (below and low == below):
        return f"{_scripts('', below, above)} {base}"
    return f"{high}{low}{base}"


def _accent(base: str, sign: str) -> str:
    """Return a base with an accent over each of its characters; "" if ``sign`` is no accent."""
    mark = _ACCENTS.get(sign, sign)
    return "".join(f"{one}{mark}" for one in base) if len(mark) == 1 and combining(mark) else ""


def _root(base: str, degree: str) -> str:
    return f"{raise_digits(degree)}√({base})"


def _brackets(inside: str, begin: str, end: str) -> str:
    """Return a text in brackets. A binomial coefficient has its own, and gets no further parentheses."""
    is_binomial = "¦" in inside and inside.startswith("(") and inside.endswith(")")
    return inside if is_binomial and begin + end == "()" else begin + inside + end


def _above(element: Element) -> str:
    base, above, _ = _parts(element)
    return _accent(base, above) or _scripts(base, "", above)


def _below(element: Element) -> str:
    base, below, _ = _parts(element)
    is_line = below in ("_", _UNDERLINE, "¯", "‾")
    return _accent(base, _UNDERLINE) if is_line else _scripts(base, below, "")


def _multiscripts(element: Element) -> str:
    """Return a MathML base with its scripts: pairs on the right, then pairs on the left."""
    sides: list[list[str]] = [[]]
    for child in [*element][1:]:
        if child.tag.removeprefix(_MATHML) == "mprescripts":
            sides.append([])
        else:
            sides[-1].append(linear(child).strip())
    (right, left), base = [*sides, []][:2], _parts(element)[0]
    base = _scripts(base, "".join(right[::2]), "".join(right[1::2]))
    return _prescripts(base, "".join(left[::2]), "".join(left[1::2])) if any(left) else base


_SHAPES: dict[str, Callable[[Element], str]] = {
    # Office
    "t": lambda of: of.text or "",
    "f": lambda of: _fraction(_part(of, "num"), _part(of, "den"), _set(of, "fPr/type", "bar") != "noBar"),
    **dict.fromkeys(
        ("sSup", "sSub", "sSubSup", "limLow"),
        lambda of: _scripts(_part(of, "e"), _part(of, "sub") or _part(of, "lim"), _part(of, "sup")),
    ),
    "sPre": lambda of: _prescripts(*(_part(of, name) for name in ("e", "sub", "sup"))),
    "limUpp": lambda of: _scripts(_part(of, "e"), "", _part(of, "lim")),
    "rad": lambda of: _root(_part(of, "e"), _part(of, "deg")),
    "nary": lambda of: (
        f"{_scripts(_set(of, 'naryPr/chr', '∫'), _part(of, 'sub'), _part(of, 'sup'))} {_part(of, 'e')}"
    ),
    "d": lambda of: _brackets(
        _join(of.findall(f"{M}e"), _set(of, "dPr/sepChr", "|")),
        _set(of, "dPr/begChr", "("), _set(of, "dPr/endChr", ")"),
    ),
    "m": lambda of: "; ".join(_join([*row], ", ") for row in of.findall(f"{M}mr")),
    "eqArr": lambda of: _join(of.findall(f"{M}e"), "; "),
    "func": lambda of: f"{_part(of, 'fName')} {_part(of, 'e')}",
    "acc": lambda of: _accent(_part(of, "e"), _set(of, "accPr/chr", _HAT)) or _part(of, "e"),
    "bar": lambda of: _accent(
        _part(of, "e"), _UNDERLINE if _set(of, "barPr/pos", "bot") == "bot" else _OVERLINE
    ),
    # MathML
    "mspace": lambda _: " ",
    "mfrac": lambda of: _fraction(*_parts(of)[:2], of.get("linethickness", "")[:1] != "0"),
    "msup": lambda of: _scripts(_parts(of)[0], "", _parts(of)[1]),
    "mover": _above,
    "msub": lambda of: _scripts(*_parts(of)[:2], ""),
    "munder": _below,
    **dict.fromkeys(("msubsup", "munderover"), lambda of: _scripts(*_parts(of))),
    "mmultiscripts": _multiscripts,
    "mfenced": lambda of: _brackets(_join(of, ", "), of.get("open", "("), of.get("close", ")")),
    "msqrt": lambda of: _root(_row(of).strip(), ""),
    "mroot": lambda of: _root(*_parts(of)[:2]),
    "mtable": lambda of: _join(of, "; "),
    "mtr": lambda of: _join(of, ", "),
    "semantics": lambda of: linear(of[0]) if len(of) else "",
}  # fmt: skip
