"""Real documents that ``python -m benchmarks._corpus`` has fetched; skipped where it has not run."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.model import Blob
from ingestor.parsers.shared.detect import content_type, parser_kind
from ingestor.ports import BadDocument, Parser
from ingestor.registry import find
from tests.parsers.laws import blocks_cover_text

CORPUS = Path(__file__).parents[2] / ".cache" / "corpus"
TEXTUAL = ("html", "rst", "asciidoc", "org", "latex", "code", "csv", "json", "yaml", "xml", "toml", "mail")
# Pages whose headings Sphinx makes: of other files, of a content's caption, with the release's number.
_MADE_OTHERWISE = ("changelog.rst.txt", "asyncio.rst.txt", "license.rst.txt")
PARSERS: dict[str, Parser] = {
    kind: find("parsers", kind).build(find("parsers", kind).options())
    for kind in (*TEXTUAL, "notebook", "subtitles")
}
needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="run: python -m benchmarks._corpus")


def titles(kind: str, path: Path) -> Counter[str]:
    """Of headings, without the numbers that only the HTML has."""
    document = PARSERS[kind].parse(Blob(path.read_bytes(), path.name))
    words = (re.sub(r"\W+", " ", b.title or "").strip() for b in document.blocks if b.kind == "heading")
    return Counter(re.sub(r"^(\d+ )+", "", title) for title in words)


def pairs() -> Iterator[tuple[Path, Path]]:
    """A page of Python's manual, and the source it was made from."""
    for source in sorted(CORPUS.glob("python3.11-doc/**/_sources/**/*.rst.txt")):
        page = Path(str(source).replace("/_sources", "").replace(".rst.txt", ".html"))
        if page.exists() and source.name not in _MADE_OTHERWISE:
            yield source, page


@pytest.mark.slow
@needs_corpus
def test_manual_has_the_same_headings_as_source_and_as_page() -> None:
    found = [(titles("rst", source), titles("html", page)) for source, page in pairs()]
    if not found:
        pytest.skip("Python's manual is not in the corpus")
    both, in_pages = sum((a & b).total() for a, b in found), sum(b.total() for _, b in found)
    assert in_pages > 4000
    assert both / in_pages > 0.999


@pytest.mark.slow
@needs_corpus
def test_every_real_document_is_covered_by_its_blocks() -> None:
    read: Counter[str] = Counter()
    for path in sorted(CORPUS.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        blob = Blob(path.read_bytes(), path.name)
        try:
            kind = parser_kind(content_type(blob))
        except BadDocument:
            continue
        if kind in PARSERS and read[kind] < 300:
            blocks_cover_text(PARSERS[kind].parse(blob))
            read[kind] += 1
    assert read.total() > 300
