"""Headings of ten filings against outlines made by reading them: recall, precision, and right parents.

``python -m benchmarks outlines FOLDER``: ``pdfs/*.pdf`` of FOLDER, as for ``financebench``. ``outlines.txt``
names each filing by the SHA-256 of its file and the pages that were read. Then each heading has a line with
its page, its level and its title. A title after ``?`` is optional: the number of an exhibit, a signature, or
a title that is repeated because its table continues.

A heading is right if a title of that page has the same letters and digits. *parents* is the share of right
headings with the right parent, or rightly without one. The repository has titles, but no texts of filings.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from benchmarks._needs import Missing, need
from ingestor.model import Blob
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions

_GOLDEN = Path(__file__).with_suffix(".txt")
_NOT_ALNUM = re.compile(r"[\W_]+")


class Heading(NamedTuple):
    page: int
    level: int
    key: str
    optional: bool = False


class Marks(NamedTuple):
    wanted: int
    found: int
    right: int
    parents: int


def main(folder: str = "") -> None:
    if not folder:
        raise Missing("name a folder of filings: python -m benchmarks outlines FOLDER")
    paths = {sha256(path.read_bytes()).hexdigest(): path for path in Path(folder, "pdfs").glob("*.pdf")}
    total = Marks(0, 0, 0, 0)
    print(f"{'filing':40}{'headings':>9}{'found':>7}{'recall':>8}{'precision':>11}{'parents':>9}")
    for digest, pages, golden in _outlines():
        if path := paths.get(digest):
            marks = compared(golden, [one for one in _read(path) if one.page in pages])
            total = Marks(*map(sum, zip(total, marks, strict=True)))
            _show(path.stem, marks)
    need(total.wanted, f"{folder} has none of the filings in {_GOLDEN.name}")
    _show("all", total)


def _outlines() -> Iterator[tuple[str, range, list[Heading]]]:
    for part in _GOLDEN.read_text("utf-8").split("# ")[1:]:
        head, *lines = part.splitlines()
        digest, pages = head.split()
        first, last = map(int, pages.split("-"))
        rows = [line.split(" ", 2) for line in lines]
        yield (
            digest,
            range(first, last + 1),
            [
                Heading(int(page), int(level), _key(title), title.startswith("?"))
                for page, level, title in rows
            ],
        )


def _read(path: Path) -> list[Heading]:
    document = PLUGIN.build(PdfOptions()).parse(Blob(path.read_bytes(), path.name))
    return [
        Heading(block.page or 0, block.level or 0, _key(block.title or ""))
        for block in document.blocks
        if block.kind == "heading"
    ]


def compared(golden: list[Heading], found: list[Heading]) -> Marks:
    """Count headings that are wanted, detected, right, and below the right heading."""
    free = list(range(len(golden)))
    pairs: dict[int, int] = {}  # from detected headings to golden headings
    for at, heading in enumerate(found):
        same = (n for n in free if (golden[n].page, golden[n].key) == (heading.page, heading.key))
        if (match := next(same, None)) is not None:
            free.remove(match)
            pairs[at] = match
    above, wanted_above = _parents(found), _parents(golden)
    right = {at: n for at, n in pairs.items() if not golden[n].optional}
    parents = sum(
        wanted_above[n] is None if (own := above[at]) is None else pairs.get(own, -1) == wanted_above[n]
        for at, n in right.items()
    )
    spared = len(pairs) - len(right)
    return Marks(sum(not one.optional for one in golden), len(found) - spared, len(right), parents)


def _parents(headings: list[Heading]) -> list[int | None]:
    """Return, for each heading, the last previous heading with a smaller level."""
    found: list[int | None] = []
    for at, heading in enumerate(headings):
        above = (n for n in range(at - 1, -1, -1) if headings[n].level < heading.level)
        found.append(next(above, None))
    return found


def _key(title: str) -> str:
    return _NOT_ALNUM.sub("", title).casefold()


def _show(name: str, marks: Marks) -> None:
    recall, precision = 100 * marks.right / max(marks.wanted, 1), 100 * marks.right / max(marks.found, 1)
    below = 100 * marks.parents / max(marks.right, 1)
    counts = f"{marks.wanted:9}{marks.found:7}"
    print(f"{name[:39]:40}{counts}{recall:8.1f}{precision:11.1f}{below:9.1f}", flush=True)
