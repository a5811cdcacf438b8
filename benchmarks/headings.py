"""Headings of PDFs without an outline: how many are found, how many of those are right, and their levels.

``python -m benchmarks headings``: documents made from sources whose headings are known, some of them held out
while the rules were made; then manuals of Debian packages, by their outlines, which the parser is not shown.
Counted there are entries whose title stands on its page; an outline need not hold every heading, so that the
precision is too low. Needs pdflatex (texlive-latex-recommended), soffice (libreoffice-writer) and
fonts-liberation.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from unittest.mock import patch

from pypdfium2 import PdfDocument

from benchmarks._corpus import package
from benchmarks._needs import need_program
from benchmarks._pieces import Source
from benchmarks._pieces_odt import odt_sources
from benchmarks._pieces_tex import tex_sources
from ingestor.model import Blob, Document
from ingestor.parsers.pdf import parser as pdf_parser
from ingestor.parsers.pdf.lines import Bookmark
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions

PACKAGES = ("texlive-latex-base-doc", "texlive-latex-recommended-doc", "r-doc-pdf", "debmake-doc")
FOLDER = Path(__file__).parent.parent / ".cache" / "headings"
_UNNUMBERED = {"abstract", "contents", "references", "bibliography", "index"}
_NUMBER = re.compile(
    r"^(?:[Cc]hapter|[Aa]ppendix|[Pp]art)?\s*(?:[A-Z]\.|[A-Z](?=\.\d)|[IVX]+\.?|\d+)(?:\.\d+)*[.)]?\s+"
)
_DATED = re.compile(r"(?:19|20)\d{6}v")
_PARSER = PLUGIN.build(PdfOptions())
_OFFICE = 'pdf:writer_pdf_Export:{"ExportBookmarks":{"type":"boolean","value":"false"}}'


@dataclass(frozen=True)
class Score:
    """``level``: of the found ones, how many have the right level among the document's own."""

    name: str
    held: bool
    true: int
    found: int
    right: int
    level: int
    missed: tuple[str, ...]
    wrong: tuple[str, ...]


def main(verbose: int = 0) -> None:
    need_program("pdflatex", "texlive-latex-recommended")
    need_program("soffice", "libreoffice-writer")
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = [
        _score(source.name, source.held, source.headings, source.title, _built(source))
        for source in [*tex_sources(), *odt_sources()]
    ]
    _print("documents made from sources", made, verbose)
    _print("manuals, by their outlines", list(_manuals()), verbose)


def _manuals() -> Iterator[Score]:
    """Those of 4 to 120 pages with 5 entries or more; half of them, by their names, held out."""
    paths = [path for name in PACKAGES for path in package(name).rglob("*.pdf") if not path.is_symlink()]
    for path in sorted(paths, key=lambda path: (path.name, str(path))):
        data, odd = path.read_bytes(), md5(path.name.encode()).digest()[-1] % 2
        opened = PdfDocument(data)
        if 4 <= len(opened) <= 120 and (shown := list(_shown(opened))) and len(shown) >= 5:
            title = opened.get_metadata_dict().get("Title", "")
            everything = frozenset(_key(entry.title) for entry in pdf_parser._outline(opened))
            true = [(entry.level, entry.title) for entry in shown]
            yield _score(path.stem, bool(odd), true, title, data, everything)
        opened.close()


def _shown(opened: PdfDocument) -> Iterator[Bookmark]:
    """Entries of the outline in words, whose title stands on its page."""
    said = [[_key(line) for line in page.get_textpage().get_text_range().splitlines()] for page in opened]
    for entry in pdf_parser._outline(opened):
        key, lines = _key(entry.title), said[entry.page]
        heads = ("".join(lines[at : at + count]) for at in range(len(lines)) for count in (1, 2, 3))
        if len(re.findall("[a-z]", key)) >= 3 and any(
            h.endswith(key) and len(h) < len(key) + 10 for h in heads
        ):
            yield entry


def _built(source: Source) -> bytes:
    """Its PDF, made once for each text of the source."""
    made, old = FOLDER / f"{source.name}.pdf", FOLDER / f"{source.name}.{source.suffix}"
    if not (made.exists() and old.exists() and old.read_text("utf-8") == source.text):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / old.name
            file.write_text(source.text, "utf-8")
            tex = ("pdflatex", "-interaction=batchmode", file.name)
            office = (
                "soffice",
                "--headless",
                f"-env:UserInstallation=file://{folder}/u",
                "--convert-to",
                _OFFICE,
                file.name,
            )
            for _ in range(2 if source.suffix == "tex" else 1):
                command = tex if source.suffix == "tex" else office
                subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=180)
            if not file.with_suffix(".pdf").exists():
                raise SystemExit(f"{source.name}: {command[0]} made no PDF")
            made.write_bytes(file.with_suffix(".pdf").read_bytes())
        old.write_text(source.text, "utf-8")
    return made.read_bytes()


def _score(
    name: str,
    held: bool,
    true: Sequence[tuple[int, str]],
    title: str,
    data: bytes,
    others: Set[str] = frozenset(),
) -> Score:
    """``others``: keys of headings that may be found, but are not counted."""
    with patch.object(pdf_parser, "_outline", lambda document: iter(())):
        document = _PARSER.parse(Blob(data, f"{name}.pdf"))
    wanted = Counter(_key(said) for _, said in true)
    found = Counter(key for _, key in _found(document) if key in wanted or not _is_open(key, title, others))
    right = wanted & found
    levels = {_key(said): level for level, said in true}
    return Score(
        name, held, wanted.total(), found.total(), right.total(),
        _levels(levels, _found(document), right),
        tuple((wanted - found).elements()), tuple((found - wanted).elements()),
    )  # fmt: skip


def _levels(true: dict[str, int], found: Iterable[tuple[int, str]], right: Counter[str]) -> int:
    """Those whose level is that of the source, whose outermost is 1."""
    least = min(true.values(), default=1) - 1
    return min(sum(key in right and true[key] - least == level for level, key in found), right.total())


def _found(document: Document) -> list[tuple[int, str]]:
    return [(block.level, _key(block.title or "")) for block in document.blocks if block.kind == "heading"]


def _is_open(key: str, title: str, others: Set[str]) -> bool:
    """What may be a heading or not: the document's title and such, the dates of a history of changes."""
    return key in _UNNUMBERED | others or (bool(title) and key == _key(title)) or bool(_DATED.match(key))


def _key(title: str) -> str:
    return re.sub(r"[\W_]+", "", _NUMBER.sub("", title.strip(), count=1)).casefold()


def _print(title: str, scores: Sequence[Score], verbose: int) -> None:
    print(f"{title:38} true found right  level  recall precision")
    for score in scores if verbose else ():
        _row(score.name, [score])
        print(
            *(f"   missed {said}" for said in score.missed),
            *(f"   wrong {said}" for said in score.wrong),
            sep="\n",
        )
    for held in (False, True):
        if some := [score for score in scores if score.held == held]:
            _row(f"{len(some)} {'held out' if held else 'used for tuning'}", some)


def _row(name: str, scores: Sequence[Score]) -> None:
    true, found, right, level = (
        sum(getattr(s, part) for s in scores) for part in ("true", "found", "right", "level")
    )
    print(
        f"{name[:38]:38}{true:5}{found:6}{right:6}{level / max(right, 1):7.0%}"
        f"{right / max(true, 1):8.0%}{right / max(found, 1):10.0%}"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
