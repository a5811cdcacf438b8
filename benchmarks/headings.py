"""Headings of PDFs without an outline: recall, precision, and levels.

``python -m benchmarks headings`` has three groups of documents. The first are made from sources with known
headings; some of them were held out of tuning. The second are manuals of Debian packages, compared with their
outlines, which the parser does not see. Entries count whose title is on its page. An outline may lack
headings, so this precision is too low. The third are documents with their TeX source beside them. Sectioning
commands count if the title is on lines of its own, and headings that the class sets by itself are left open
if their names are known. Needs pdflatex (texlive-latex-extra, -publishers, -science, -fonts-recommended,
lmodern, cm-super), soffice (libreoffice-writer) and fonts-liberation.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from hashlib import md5
from pathlib import Path
from unittest.mock import patch

from pypdfium2 import PdfDocument

from benchmarks import _tex_headings as tex
from benchmarks._corpus import package
from benchmarks._needs import need_program
from benchmarks._pieces import Source
from benchmarks._pieces_odt import odt_sources
from benchmarks._pieces_tex import tex_sources
from ingestor.model import Blob, Document
from ingestor.parsers.html.page import words
from ingestor.parsers.pdf import parser as pdf_parser
from ingestor.parsers.pdf import structure
from ingestor.parsers.pdf.lines import Bookmark
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions

PACKAGES = ("texlive-latex-base-doc", "texlive-latex-recommended-doc", "r-doc-pdf", "debmake-doc")
FOLDER = Path(__file__).parent.parent / ".cache" / "headings"
BESIDE = (
    *("texlive-publishers-doc", "texlive-science-doc", "texlive-humanities-doc", "texlive-latex-base-doc"),
    "texlive-latex-recommended-doc",
)
TEXMF = Path("/usr/share/texlive/texmf-dist/tex")  # Debian's
_UNNUMBERED = words(
    "references bibliography tableofcontents listoffigures listoftables acknowledgements acknowledgments "
    "declaration preface keywords abbreviations kurzfassung quellenverzeichnis erklärung danksagung"
)  # beside the names in babel
_CAPTIONS = words("preface ref abstract bib contents listfigure listtable index glossary")
# Labels that a class sets before a title: "Capitolo 1", "Parte II –", "Appendix A.", "§3.", "B".
_LABEL = re.compile(
    r"^(?:[^\W\d_]{2,14}\s+|§\s?)?(?:\d{1,3}|[IVXLC]+|[A-Z])(?:\.[\dA-Z]+)*[.:)]?\s+(?:[–—-]\s+)?"
)
_NUMBER = re.compile(r"^(?:[A-Z]\.|[A-Z](?=\.\d)|[IVX]+\.?|\d+)(?:\.\d+)*[.)]?\s+")
_SAYS = re.compile(r"\w{3}|[\u3040-\u9fff]{2}")  # long enough to be distinguished from other lines
_DATED = re.compile(r"(?:19|20)\d{6}v")
_PARSER = PLUGIN.build(PdfOptions())
_OFFICE = 'pdf:writer_pdf_Export:{"ExportBookmarks":{"type":"boolean","value":"false"}}'


@dataclass(frozen=True)
class Score:
    """Counts of headings. ``level``: right headings with the right level among the document's own."""

    name: str
    held: bool
    true: int
    found: int
    right: int
    level: int
    missed: tuple[str, ...]
    wrong: tuple[str, ...]


def main(verbose: int = 0) -> None:
    need_program("pdflatex", "texlive-publishers")
    need_program("soffice", "libreoffice-writer")
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = [
        _score(source.name, source.held, source.headings, _built(source), _others([source.title]))
        for source in [*tex_sources(), *odt_sources()]
    ]
    _print("documents made from sources", made, verbose)
    _print("manuals, by their outlines", list(_manuals()), verbose)
    _print("documents beside their TeX source", list(_beside()), verbose)


def _manuals() -> Iterator[Score]:
    """Score manuals of 4 to 120 pages with at least 5 entries; half of them, by name, were held out."""
    paths = [path for name in PACKAGES for path in package(name).rglob("*.pdf") if not path.is_symlink()]
    for path in sorted(paths, key=lambda path: (path.name, str(path))):
        data, odd = path.read_bytes(), md5(path.name.encode()).digest()[-1] % 2
        opened = PdfDocument(data)
        if 4 <= len(opened) <= 120 and (shown := list(_shown(opened))) and len(shown) >= 5:
            title = opened.get_metadata_dict().get("Title", "")
            everything = _others([title, *(entry.title for entry in pdf_parser._outline(opened))])
            true = [(entry.level, entry.title) for entry in shown]
            yield _score(path.stem, bool(odd), true, data, everything)
        opened.close()


def _beside() -> Iterator[Score]:
    """Score documents of at most 120 pages with at least 4 headings, nine tenths of them in the PDF."""
    known = set()
    for name in BESIDE:
        for path in sorted(package(name).rglob("*.pdf")):
            source, data = path.with_suffix(".tex"), path.read_bytes()
            said = tex.whole(source.name, _sources(source.parent)) if source.is_file() else ""
            true = [] if tex.unfit(said) else list(tex.headings(said))
            if len(true) < 4 or (key := tuple(true)) in known:
                continue
            known.add(key)
            opened = PdfDocument(data)
            lines = _joined(opened) if len(opened) <= 120 else set()
            opened.close()
            alone = [
                (level, said) for level, said in true if tex.is_told(said) and _ends_one(_key(said), lines)
            ]
            by_class = _by_class(said, source.parent)
            others = _others([*(title for _, title in true), tex.title_of(said), *by_class])
            run_in = {_key(said) for _, said in true if any(line.startswith(_key(said)) for line in lines)}
            if len({_key(said) for _, said in alone} | run_in) >= 0.9 * len({_key(said) for _, said in true}):
                odd = md5(path.name.encode()).digest()[-1] % 2
                yield _score(f"{path.parent.name}/{path.name}", bool(odd), alone, data, others)


def _by_class(said: str, folder: Path) -> set[str]:
    """Return the titles that the document's classes set by themselves."""
    found, todo = set(tex.named(said)), tex.classes(said)
    for name in todo:
        path = next(iter([*folder.rglob(f"{name}.cls"), *_classes().get(name, ())]), None)
        text = _text(path.read_bytes()) if path else ""
        found |= {*tex.named(text)}
        todo += [one for one in tex.classes(text) if one not in todo]
    return found


@cache
def _classes() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(TEXMF.rglob("*.cls")):
        found.setdefault(path.stem, []).append(path)
    return found


@cache
def _captions() -> frozenset[str]:
    """Return the titles of contents, lists of figures and the like in all languages of babel."""
    files = (TEXMF / "generic" / "babel" / "locale").rglob("babel-*.ini")
    lines = (line.partition("=") for file in files for line in file.read_text("utf-8").splitlines())
    return frozenset(_key(said) for name, _, said in lines if name.strip() in _CAPTIONS)


def _others(titles: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for keys of optional headings; an unknown part matches anything."""
    keys = {".*".join(map(_key, title.split(tex.OPEN))) for title in titles}
    return re.compile("|".join(sorted(key for key in keys if _SAYS.search(key))) or r"\0")


def _sources(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*.tex") if path.is_file() and path.stat().st_size < 2e6]
    return {str(path.relative_to(folder)): _text(path.read_bytes()) for path in paths}


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _joined(opened: PdfDocument) -> set[str]:
    """Return each line, and two and three consecutive lines joined."""
    found = set()
    for page in opened:
        lines = [_key(line) for line in page.get_textpage().get_text_range().splitlines()]
        found |= {"".join(lines[at : at + count]) for at in range(len(lines)) for count in (1, 2, 3)}
    return found


def _ends_one(key: str, lines: Set[str]) -> bool:
    """Whether it stands there, at most after a number."""
    return len(key) > 2 and any(line.endswith(key) and len(line) < len(key) + 10 for line in lines)


def _shown(opened: PdfDocument) -> Iterator[Bookmark]:
    """Yield entries of the outline whose title is on its page."""
    said = [[_key(line) for line in page.get_textpage().get_text_range().splitlines()] for page in opened]
    for entry in pdf_parser._outline(opened):
        key, lines = _key(entry.title), said[entry.page]
        heads = ("".join(lines[at : at + count]) for at in range(len(lines)) for count in (1, 2, 3))
        if len(re.findall("[a-z]", key)) >= 3 and any(
            h.endswith(key) and len(h) < len(key) + 10 for h in heads
        ):
            yield entry


def _built(source: Source) -> bytes:
    """Return the PDF of a source, made once for each text of the source."""
    made, old = FOLDER / f"{source.name}.pdf", FOLDER / f"{source.name}.{source.suffix}"
    if not (made.exists() and old.exists() and old.read_text("utf-8") == source.text):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / old.name
            file.write_text(source.text, "utf-8")
            latex = ("pdflatex", "-interaction=batchmode", file.name)
            office = (
                "soffice",
                "--headless",
                f"-env:UserInstallation=file://{folder}/u",
                "--convert-to",
                _OFFICE,
                file.name,
            )
            for _ in range(2 if source.suffix == "tex" else 1):
                command = latex if source.suffix == "tex" else office
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
    data: bytes,
    others: re.Pattern[str],
) -> Score:
    """Score one PDF. ``others``: keys of optional headings."""
    nothing = patch.object(structure, "tags", lambda page: structure.Tags())
    with patch.object(pdf_parser, "_outline", lambda document: iter(())), nothing:
        document = _PARSER.parse(Blob(data, f"{name}.pdf"))
    wanted = Counter(_key(said) for _, said in true)
    headings = _found(document, wanted)
    found = Counter(key for _, key in headings if key in wanted or not _is_open(key, others))
    right = wanted & found
    levels = {_key(said): level for level, said in true}
    return Score(
        name, held, wanted.total(), found.total(), right.total(),
        _levels(levels, headings, right),
        tuple((wanted - found).elements()), tuple((found - wanted).elements()),
    )  # fmt: skip


def _levels(true: dict[str, int], found: Iterable[tuple[int, str]], right: Counter[str]) -> int:
    """Count right headings whose level equals that of the source, whose outermost is 1."""
    least = min(true.values(), default=1) - 1
    return min(sum(key in right and true[key] - least == level for level, key in found), right.total())


def _found(document: Document, wanted: Container[str]) -> list[tuple[int, str]]:
    return [
        (block.level, _wanted_key(block.title or "", wanted))
        for block in document.blocks
        if block.kind == "heading"
    ]


def _wanted_key(title: str, wanted: Container[str]) -> str:
    """Return the key of a title, without a class's label if that key is wanted."""
    key, bare = _key(title), _key(_LABEL.sub("", title))
    return bare if key not in wanted and bare in wanted else key


def _is_open(key: str, others: re.Pattern[str]) -> bool:
    """Return whether a heading is optional: the document's title, dates of a history of changes."""
    return key in _UNNUMBERED or key in _captions() or bool(others.fullmatch(key) or _DATED.match(key))


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
