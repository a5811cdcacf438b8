"""Jupyter notebooks: the prose and headings of Markdown cells, code, and the text that the code printed.

The Markdown parser reads Markdown cells, so headings and lists of a notebook become blocks as in any other
document. The parser of reStructuredText reads raw cells, as nbsphinx does. Long outputs are truncated;
pictures, HTML and names of objects among the outputs are left out.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.markup import markdown
from ingestor.parsers.markup.rst import Styles
from ingestor.parsers.markup.rst import read as read_rst
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.ports import BadDocument
from ingestor.registry import Options

_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)|[@-Z\\^_])"
)  # of terminals: colours
# What Python prints for an object that only a picture or a page would show.
_OBJECT = re.compile(r"\[?<[^<>]{1,200}(?: object| at 0x[0-9a-f]+| Axes)>\]?")
_MOST = 2000  # characters of one output


class NotebookOptions(Options):
    outputs: bool = Field(default=True, description="read printed output of code")


def parse(blob: Blob, options: NotebookOptions) -> Document:
    """Read a notebook as a document. Raises BadDocument if the content is no notebook."""
    try:
        notebook = json.loads(decode(blob.data) or "{}")
    except (ValueError, RecursionError) as error:
        raise BadDocument(
            f"is not a valid notebook: {error}; open and save it in Jupyter, or exclude it"
        ) from error
    if not isinstance(notebook, Mapping):
        raise BadDocument(
            "is not a notebook, because it holds no JSON object; exclude it, or give it another extension"
        )
    about = _as_mapping(notebook.get("metadata"))
    info, kernel = _as_mapping(about.get("language_info")), _as_mapping(about.get("kernelspec"))
    language = _text(info.get("name") or kernel.get("language")).lower()
    composer, title = Composer(), _text(about.get("title"))
    styles: Styles = {}
    raw_words = 0
    for cell in _cells(notebook):
        source = _text(cell.get("source", cell.get("input")))
        raw_words += words(source)
        if cell.get("cell_type") == "code":
            composer.add("code", source, language=_text(cell.get("language")) or language or None)
            for output in _outputs(cell) if options.outputs else ():
                composer.add("output", output)
        elif cell.get("cell_type") == "heading":  # of notebooks before version 4
            level = cell.get("level")
            composer.heading(source, level if isinstance(level, int) and 1 <= level <= 6 else 1)
        elif cell.get("cell_type") == "markdown":
            read = markdown.parse(Blob(source.encode("utf-8", "ignore"), "cell.md"))
            composer.include(read.text, read.blocks)
            title = title or read.title or ""
        else:
            text = source.encode("utf-8", "ignore").decode("utf-8")
            composer.include(text, read_rst(text, styles))
    authors = (_as_mapping(author).get("name", author) for author in _list(about.get("authors")))
    return composer.document(
        "application/x-ipynb+json",
        title=title or next((block.title for block in composer.blocks if block.kind == "heading"), None),
        extra={"author": ", ".join(filter(None, map(_text, authors)))},
        raw_words=raw_words,
    )


def _cells(notebook: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the cells of a notebook. In formats before version 4, cells are inside worksheets."""
    sheets = [notebook, *_list(notebook.get("worksheets"))]
    for sheet in sheets:
        yield from (cell for cell in _list(_as_mapping(sheet).get("cells")) if isinstance(cell, Mapping))


def _outputs(cell: Mapping[str, Any]) -> Iterator[str]:
    for output in map(_as_mapping, _list(cell.get("outputs"))):
        data = _as_mapping(output.get("data"))
        text = _text(output.get("text")) or _text(data.get("text/markdown")) or _text(data.get("text/plain"))
        if output.get("output_type") == "error":
            text = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        text = _as_shown(_CONTROL.sub("", text))
        if _OBJECT.fullmatch(text.strip()):
            continue
        yield text if len(text) <= _MOST else f"{text[:_MOST]} …"


def _as_shown(text: str) -> str:
    """Return a text without what a later part of the same line overwrites, as progress bars do."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "\n".join(lines) if "\r" in text else text


def _text(value: Any) -> str:
    """Return a text of the notebook, which Jupyter stores as a string or as a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


PLUGIN = parser_plugin("notebook", 10, parse, NotebookOptions, isolated="large")
