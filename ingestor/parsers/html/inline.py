"""Words for formulas and pictures of an HTML page, and the links that mark notes. Pure."""

import re
from collections.abc import Mapping
from typing import Any

_FILE = re.compile(r"\S+\.\w{3,4}", re.ASCII)
_STYLED = re.compile(r"\{\\(?:display|text)style (.*)\}", re.DOTALL)


def formula(math: Any) -> str:
    """In TeX, where the page has that."""
    noted = math.css_first("annotation[encoding*=tex]")
    return _shown(math.attributes.get("alttext") or (noted or math).text())


def is_formula(picture: Any) -> bool:
    """Formulas of MediaWiki: a hidden formula for screen readers beside a picture for all others."""
    return "mwe-math" in (picture.attributes.get("class") or "")


def description(picture: Any) -> str:
    """A picture's alternative text, set apart, unless it is only the name of a file."""
    said = _shown(picture.attributes.get("alt") or "")
    return said if is_formula(picture) else "" if _FILE.fullmatch(said) else f" {said} "


def cites(attributes: Mapping[str, str | None]) -> bool:
    """Of a link: whether it is the mark of a note, which books often don't raise but by a style."""
    return any("noteref" in (attributes.get(name) or "") for name in ("epub:type", "role", "class"))


def _shown(said: str) -> str:
    said = said.strip()
    last = said.rfind("}") + 1  # behind it each beginning would be followed to the end, in vain
    return _STYLED.sub(r"\1", said[:last]) + said[last:]
