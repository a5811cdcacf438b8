"""Templates to pages: every value is escaped, and control characters and marks of direction are spelt out."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ingestor import __version__
from ingestor.page.shown import figures as words
from ingestor.preview.view import show_controls
from ingestor.units import counted

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with `no-referrer` browsers send forms without their origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
FILES = ("page/page.css", "page/page.js", "page/icon.svg", "chunk_list.css")


def render(name: str, values: Mapping[str, Any]) -> str:
    """Render a template. ``name``: file in ``templates/page``."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("ingestor", "templates/page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_spelt,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # an upgrade must not mix its templates with the code that runs
    )
    made.filters |= {
        "span": words.span, "size": words.size, "number": words.number, "counted": counted,
        "moment": words.moment, "clock": words.clock, "ago": words.ago,
    }  # fmt: skip
    made.globals |= {"version": __version__}
    return made


def _spelt(value: object) -> object:
    """Applied to every value that a template shows."""
    return show_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def static(name: str) -> tuple[bytes, str, str] | None:
    """A file of the page: its content, type and tag; None if there is none of this name."""
    found = next((path for path in FILES if path.rpartition("/")[2] == name), None)
    if found is None:
        return None
    content = files("ingestor").joinpath("templates", *found.split("/")).read_bytes()
    kind = _TYPES[name.rpartition(".")[2]]
    return content, f"{kind}; charset=utf-8", f'"{sha256(content).hexdigest()[:16]}"'
