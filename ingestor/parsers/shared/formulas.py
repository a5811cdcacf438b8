"""Formulas in MathML as TeX, written by the library anydoc: ``\\frac{x^{2}}{a+b}``.

Without its marks a formula says something else: a fraction would read as one number, a mean as a value.
"""

import io
import zipfile
from itertools import chain
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.library import read_by_library
from ingestor.ports import BadDocument

_MATHML = "http://www.w3.org/1998/Math/MathML"
_NAMESPACE = 'urn:oasis:names:tc:opendocument:xmlns:{}:1.0"'
_BEFORE = (  # in a text of OpenDocument
    f'<o:document-content xmlns:o="{_NAMESPACE.format("office")} xmlns:d="{_NAMESPACE.format("drawing")}'
    f' xmlns:t="{_NAMESPACE.format("text")} xmlns:xlink="http://www.w3.org/1999/xlink"><o:body><o:text><t:p>'
    f'<d:frame><d:object xmlns="{_MATHML}">'
)
_BEHIND = "</d:object></d:frame></t:p></o:text></o:body></o:document-content>"


def is_formula(element: Element) -> bool:
    """Tell whether an element is the root of a formula in MathML."""
    return element.tag == f"{{{_MATHML}}}math"


def in_tex(formula: str) -> str:
    """Return a formula in TeX; nothing if it is empty or damaged. ``formula``: the element ``math``."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("content.xml", f"{_BEFORE}{formula.replace('&nbsp;', '&#160;')}{_BEHIND}")
    try:
        blocks = read_by_library(file.getvalue(), "odt").blocks
    except BadDocument:  # as one that is nested too deep
        return ""
    inlines = chain.from_iterable(block.content or () for block in blocks)
    return "".join(inline.text or "" for inline in inlines if inline.kind == "math")
