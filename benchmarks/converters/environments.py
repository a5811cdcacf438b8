"""Converters, each with its packages in a separate environment and the formats that it reads."""

import json
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from benchmarks._corpus import FOLDER as CORPUS

FOLDER = CORPUS.with_name("converters")
_HERE = Path(__file__).parent
_REFERENCE = (
    *(
        "lxml==6.1.3",
        "docutils==0.23",
        "Pygments==2.21.0",
        "markdown-it-py==4.3.0",
        "mwparserfromhell==0.7.2",
    ),
    *("olefile==0.47", "pypdfium2==5.15.2", "beautifulsoup4==4.15.0", "html5lib==1.1", "RapidFuzz==3.14.6"),
)
AT_ONCE = 4  # programs that run beside each other
_OFFICE = ("docx", "pptx", "xlsx", "odt", "ods", "odp", "doc", "xls", "ppt", "msg", "rtf")
_MARKUP = ("markdown", "rst", "asciidoc", "org", "latex", "man", "mediawiki", "docbook", "fb2", "html")
_PLAIN = ("mail", "notebook", "csv", "code", "subtitles", "json", "yaml", "toml", "xml", "text")
ALL = ("pdf", *_OFFICE, "epub", *_MARKUP, *_PLAIN)


@dataclass(frozen=True)
class Converter:
    """A converter. ``needs``: packages for pip, or a program of Debian."""

    name: str
    needs: tuple[str, ...]
    formats: tuple[str, ...]
    program: bool = False


CONVERTERS = (
    Converter("ingestor", (), ALL),
    Converter("markitdown", ("markitdown[all]==0.1.8",), ALL),
    Converter("kreuzberg", ("kreuzberg==4.10.4",), ALL),
    Converter(
        "pandoc",
        ("pypandoc_binary==1.17",),
        (*("docx", "pptx", "xlsx", "odt", "rtf", "epub", "notebook", "csv"), *_MARKUP),
    ),
    Converter("pymupdf4llm", ("pymupdf4llm==0.3.4",), ("pdf",)),
    Converter("docx2python", ("docx2python==3.7.1",), ("docx",)),
    Converter("mammoth", ("mammoth==1.13.0",), ("docx",)),
    Converter("trafilatura", ("trafilatura==2.3.1", "lxml_html_clean==0.4.3"), ("html",)),
    Converter("html2text", ("html2text==2025.4.15",), ("html",)),
    Converter("pdftotext", ("pdftotext",), ("pdf",), program=True),
    Converter("catdoc", ("catdoc",), ("doc", "xls", "ppt"), program=True),
    Converter("antiword", ("antiword",), ("doc",), program=True),
)

Item = tuple[str, str, str]  # key, path, format


@dataclass(frozen=True)
class Answer:
    text: str
    seconds: float
    error: str


def answers(converter: Converter, items: Sequence[Item]) -> dict[str, Answer]:
    """Return the converter's result for each document, by key; empty if the converter is unavailable."""
    if converter.program and not which(converter.needs[0]):
        print(f"{converter.name} is left out: Debian's package is not installed", file=sys.stderr)
        return {}
    python = sys.executable if converter.program or not converter.needs else environment(converter)
    output = FOLDER / f"{converter.name}.jsonl"
    output.unlink(missing_ok=True)
    rest = [item for item in items if item[2] in converter.formats]
    while rest:
        command = [python, str(_HERE / "worker.py"), converter.name, str(output)]
        _run(command, rest, timeout=60.0 * len(rest))
        done = {key for key, *_ in _lines(output)}
        left = [item for item in rest if item[0] not in done]
        if left:  # the first document without an answer crashed the converter
            with output.open("a", encoding="utf-8") as file:
                file.write(json.dumps([left[0][0], "", 0.0, "the converter crashed"]) + "\n")
        rest = left[1:]
    return {key: Answer(text, seconds, error) for key, text, seconds, error in _lines(output)}


def truths(
    items: Sequence[Item],
) -> dict[str, tuple[str, list[str] | None, list[list[str]] | None, list[str]]]:
    """Return the content of each document: text, headings, rows of tables, optional headings."""
    output, python, node = FOLDER / "truth.jsonl", reference(), str(_node())

    def part(number: int) -> str:
        path = output.with_suffix(f".{number}")
        _run([python, "-m", "benchmarks.converters.truths", str(path), node], items[number::AT_ONCE], 3600)
        return path.read_text("utf-8") if path.exists() else ""

    with ThreadPoolExecutor() as pool:
        output.write_text("".join(pool.map(part, range(AT_ONCE))), "utf-8")
    return {key: (text, heads, rows, free) for key, text, heads, rows, free in _lines(output)}


def reference() -> str:
    """Return the interpreter that has the readers of sources."""
    return environment(Converter("reference", _REFERENCE, ()))


def environment(converter: Converter) -> str:
    folder = FOLDER / converter.name
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *converter.needs], check=True)
        (folder / "made").touch()
    return str(python)


def _node() -> Path:
    """Return a folder in which node finds AsciiDoc's own converter."""
    folder = FOLDER / "node"
    if not (folder / "node_modules").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "@asciidoctor/core@2.2.8"], cwd=folder, check=False)
    return folder


def _run(command: Sequence[str], items: Iterable[Item], timeout: float) -> None:
    lines = "".join(json.dumps(item) + "\n" for item in items)
    with (FOLDER / "errors.log").open("a") as errors:
        subprocess.run(
            command,
            input=lines,
            text=True,
            stderr=errors,
            cwd=_HERE.parents[1],
            check=False,
            timeout=timeout,
            start_new_session=True,
        )


def _lines(path: Path) -> Iterator[list]:  # type: ignore[type-arg]
    if path.exists():
        yield from map(json.loads, path.read_text("utf-8").splitlines())


def pandoc() -> str:
    """Return the path of pandoc, in its own environment."""
    python = environment(next(one for one in CONVERTERS if one.name == "pandoc"))
    command = [python, "-c", "import pypandoc; print(pypandoc.get_pandoc_path())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
