"""Reads the content of documents from their sources, without any of the converters.

Runs in an environment of its own. ``python -m benchmarks.converters.truths OUTPUT NODE`` has the standard
input of ``worker``. A line of OUTPUT is [key, text, headings, rows, open headings]. ``text`` is the text to
find, in order. A row has at least two cells. An open heading is optional, such as the document's title. A
value is None if the format does not define it.

Binary Office formats and RTF are first converted by LibreOffice. An HTML page counts if it marks its main
part (main, article, role=main), and only that part counts. The text of a PDF is that of its pages in order,
without lines that repeat at the edges of pages; headings are entries of the outline that are on their page.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.converters.truths import markup, office, opendocument, others, pages
from benchmarks.converters.truths.shape import Truth

PLAIN = ("code", "text", "json", "yaml", "toml", "xml")
BY_OFFICE = {
    "rtf": "odt",
    "doc": "odt",
    "xls": "ods",
    "ppt": "odp",
}  # formats, and the formats to which LibreOffice converts them


def readers(node: str) -> dict[str, Callable[[str], Truth]]:
    """Return the readers by format, without formats that LibreOffice converts."""
    opened = {"odt": opendocument.odf, "ods": opendocument.odf, "odp": opendocument.odf}
    packed = {"docx": office.docx, "pptx": office.pptx, "xlsx": office.xlsx, "epub": pages.epub}
    paged = {"html": pages.html, "docbook": pages.docbook, "fb2": pages.fb2, "pdf": others.pdf}
    written = {"rst": markup.rst, "markdown": markup.markdown, "org": markup.org, "latex": markup.latex}
    written |= {
        "man": markup.man,
        "mediawiki": markup.mediawiki,
        "asciidoc": partial(markup.asciidoc, node=node),
    }
    sent = {"mail": others.mail, "msg": others.msg, "notebook": others.notebook, "csv": others.table}
    shown = {"subtitles": others.subtitles, **dict.fromkeys(PLAIN, others.plain)}
    return {**opened, **packed, **paged, **written, **sent, **shown}


def converted(items: Iterable[Sequence[str]], folder: str) -> dict[str, str]:
    """Return the paths of documents converted to OpenDocument, by key."""
    found: dict[str, str] = {}
    for suffix in sorted(set(BY_OFFICE.values())):
        if paths := [path for _, path, kind in items if BY_OFFICE.get(kind) == suffix]:
            inside = Path(folder) / suffix
            inside.mkdir()
            found |= opendocument.convert(paths, suffix, str(inside))
    return found


def main(output: str, node: str) -> None:
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(5000)
    items, read = [json.loads(line) for line in sys.stdin], readers(node)
    with tempfile.TemporaryDirectory() as folder, Path(output).open("w", encoding="utf-8") as file:
        made = converted(items, folder)
        for key, path, kind in items:
            try:
                found = opendocument.by_office(path, made[path]) if kind in BY_OFFICE else read[kind](path)
            except Exception as error:  # noqa: BLE001  such a document is left out, and said
                print(f"{key}: {type(error).__name__}: {error}"[:160], file=sys.stderr)
                continue
            said = "\n".join(found.text).encode("utf-8", "replace").decode()
            file.write(json.dumps([key, said, found.headings, found.rows, found.open]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
