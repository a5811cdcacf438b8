"""Runs one converter over documents, in its own environment; only ``ingestor`` imports this project.

``python worker.py NAME OUTPUT``: standard input has a JSON line for each document, [key, path, format]. A
line of JSON is added to OUTPUT for each: [key, text or Markdown, CPU seconds, error]. The first document of
each format is read twice, and the second time counts: imports do not.
"""

import contextlib
import io
import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

LIMIT = 30  # seconds of CPU time for a document, also of a program that reads it

Convert = Callable[[str, str], str]  # path and format to Markdown, HTML or text


def ingestor() -> Convert:
    from ingestor.model import Blob
    from ingestor.parsers.shared.detect import content_type, parser_kind
    from ingestor.registry import find
    from ingestor.sandbox.work import collect_rarely

    collect_rarely()  # as in the processes that parse documents
    built: dict[str, Any] = {}

    def convert(path: str, kind: str) -> str:
        blob = Blob(Path(path).read_bytes(), Path(path).name)
        reader = parser_kind(content_type(blob))
        if reader not in built:
            plugin = find("parsers", reader)
            built[reader] = plugin.build(plugin.options())
        document = built[reader].parse(blob)
        parts, at = [], 0
        for block in document.blocks:
            if block.kind == "heading":
                parts += [_marked(document.text[at : block.start]), f"\n# {_escaped(block.title)}\n"]
                at = block.end
            elif block.kind == "table" and kind == "markdown":  # cells may contain HTML
                parts += [_marked(document.text[at : block.start]), document.text[block.start : block.end]]
                at = block.end
        return "".join([*parts, _marked(document.text[at:])])

    return convert


def _marked(said: str) -> str:
    """Return text as Markdown, with # escaped at the start of a line, such as comments in code."""
    return re.sub(r"(?m)^ *(?=#)", r"\g<0>\\", _escaped(said)) if "#" in said else _escaped(said)


def _escaped(said: str) -> str:
    """Escape HTML in our text: the other converters return HTML."""
    return escape(said, quote=False).replace("&lt;br&gt;", "<br>")


def markitdown() -> Convert:
    from markitdown import MarkItDown

    reader = MarkItDown()
    return lambda path, kind: str(reader.convert(path).text_content)


def kreuzberg() -> Convert:
    from kreuzberg import ExtractionConfig, extract_file_sync

    config = ExtractionConfig(output_format="markdown", use_cache=False, disable_ocr=True)
    return lambda path, kind: str(extract_file_sync(path, config=config).content)


def pymupdf4llm() -> Convert:
    import pymupdf4llm

    return lambda path, kind: str(pymupdf4llm.to_markdown(path, show_progress=False))


_PANDOC = {
    **{name: name for name in ("docx", "odt", "epub", "rtf", "html", "org", "latex", "docbook", "fb2")},
    "rst": "rst",
    "markdown": "gfm",
    "mediawiki": "mediawiki",
    "notebook": "ipynb",
    "csv": "csv",
    "man": "man",
    "pptx": "pptx",
    "xlsx": "xlsx",
    "asciidoc": "asciidoc",
}


def pandoc() -> Convert:
    import pypandoc

    program = pypandoc.get_pandoc_path()

    def convert(path: str, kind: str) -> str:
        return _program(program, "--sandbox", "-f", _PANDOC[kind], "-t", "gfm", "--wrap=none", path)

    return convert


def docx2python() -> Convert:
    from docx2python import docx2python as read

    def convert(path: str, kind: str) -> str:
        with read(path, html=True) as found:
            return str(found.text)

    return convert


def mammoth() -> Convert:
    import mammoth as package

    def convert(path: str, kind: str) -> str:
        with Path(path).open("rb") as file:
            return str(package.convert_to_html(file, convert_image=lambda image: []).value)

    return convert


def trafilatura() -> Convert:
    from trafilatura import extract

    return lambda path, kind: (
        extract(Path(path).read_bytes(), output_format="markdown", include_tables=True) or ""
    )


def html2text() -> Convert:
    from html2text import HTML2Text

    def convert(path: str, kind: str) -> str:
        reader = HTML2Text(bodywidth=0)
        return str(reader.handle(Path(path).read_text("utf-8", "replace")))

    return convert


def unstructured() -> Convert:
    from unstructured.partition.auto import partition

    def convert(path: str, kind: str) -> str:
        said = []
        for element in partition(path, languages=[""]):
            html = getattr(element.metadata, "text_as_html", None)
            said.append(html or (f"# {element.text}" if element.category == "Title" else element.text))
        return "\n\n".join(said)

    return convert


def pdftotext() -> Convert:
    return lambda path, kind: _program("pdftotext", "-enc", "UTF-8", path, "-")


def catdoc() -> Convert:
    programs = {"doc": "catdoc", "xls": "xls2csv", "ppt": "catppt"}
    return lambda path, kind: _program(programs[kind], "-d", "utf-8", path)


def antiword() -> Convert:
    return lambda path, kind: _program("antiword", "-w", "0", "-m", "UTF-8.txt", path)


def _program(*command: str) -> str:
    limited = ("sh", "-c", f'ulimit -t {LIMIT}; exec "$@"', "sh", *command)
    done = subprocess.run(limited, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode("utf-8", "replace").strip()[:200] or f"exit {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def _seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _late(number: int, frame: object) -> None:
    raise TimeoutError(f"more than {LIMIT} s of CPU time")


def main(name: str, output: str) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    convert: Convert = globals()[name]()
    signal.signal(signal.SIGPROF, _late)
    met = set[str]()
    with Path(output).open("a", encoding="utf-8") as file:
        for line in sys.stdin:
            key, path, kind = json.loads(line)
            print(key, file=sys.stderr, flush=True)
            if kind not in met:
                met.add(kind)
                _converted(convert, path, kind)
            said, seconds, error = _converted(convert, path, kind)
            file.write(json.dumps([key, said, seconds, error]) + os.linesep)
            file.flush()


def _converted(convert: Convert, path: str, kind: str) -> tuple[str, float, str]:
    """Text, CPU seconds, error."""
    text, error = "", ""
    begun = _seconds()
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            text = convert(path, kind)
    except BaseException as raised:  # noqa: BLE001  what a converter raises is its answer
        error = f"{type(raised).__name__}: {raised}"[:200] or "failed"
    signal.setitimer(signal.ITIMER_PROF, 0)
    return text.encode("utf-8", "replace").decode("utf-8"), round(_seconds() - begun, 4), error


if __name__ == "__main__":
    main(*sys.argv[1:])
