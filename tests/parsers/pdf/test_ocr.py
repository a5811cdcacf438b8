"""Pages that are pictures. These run where rapidocr is installed; test_ocr_extra.py installs it."""

import io
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache

import pytest

from ingestor.core.completeness import shortfall
from ingestor.model import Blob, Document
from ingestor.registry import find
from ingestor.sandbox.pool import Isolated, Isolation
from ingestor.sandbox.process import Limits
from tests.parsers.files import pdf
from tests.parsers.laws import blocks_cover_text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Parse = Callable[[bytes], Document]
ENGLISH = """\
The harbour master keeps a book in which every ship is written down with its name, its cargo and the day on
which it came in. In the winter of that year the river froze, and for nine weeks no vessel could leave; the
merchants stored their barrels of salt and bales of wool in the cellars below the old market, where the
clerk counted them twice a month."""
GERMAN = """\
Für die Größe der Fässer galten strenge Maße. Wer süßen Wein über die Brücke führte, zahlte jährlich
zwölf Gulden; häufig wählten die Händler daher den längeren Weg durch das Moor."""


@pytest.fixture(scope="module")
def parse() -> Iterator[Parse]:
    """As it is done in earnest: in a process of its own, without a network, within the usual limits."""
    pytest.importorskip("rapidocr")
    plugin = find("parsers", "pdf")
    with closing(Isolation(Limits(processes=1))) as isolation:
        yield lambda data: Isolated("pdf", plugin.options.model_validate({"ocr": True}), isolation).parse(
            Blob(data, "scan.pdf")
        )


def page(text: str, title: str = "") -> list[tuple[int, int, int, str]]:
    drawn = [(40, 640 - 16 * at, 11, line) for at, line in enumerate(text.split("\n"))]
    return [(40, 700, 24, title), *drawn] if title else drawn


def pictures(*pages: list[tuple[int, int, int, str]], turned: float = 0.0) -> bytes:
    """The pages as a scanner gives them; ``turned``: degrees."""
    from pypdfium2 import PdfDocument

    typed = PdfDocument(pdf(pages))
    seen = [typed[at].render(scale=150 / 72).to_pil() for at in range(len(pages))]
    first, *rest = [one.convert("L").rotate(turned, fillcolor=255) for one in seen]
    file = io.BytesIO()
    first.save(file, "PDF", resolution=150, save_all=True, append_images=rest)
    return file.getvalue()


@cache
def scan() -> bytes:
    return pictures(page(ENGLISH, "The Frozen River"), page(GERMAN), turned=0.4)


def share(text: str, document: Document, page: int) -> float:
    """Of its words that are found on the page."""
    found = {
        word
        for block in document.blocks
        for word in document.text[block.start : block.end].split()
        if block.page == page
    }
    words = text.split()
    return sum(word in found for word in words) / len(words)


def test_scan_gives_words_pages_and_headings(parse: Parse) -> None:
    document = parse(scan())
    blocks_cover_text(document)
    assert share(ENGLISH, document, 0) > 0.95
    assert share(GERMAN, document, 1) > 0.95
    kinds = [(block.kind, block.page, block.title) for block in document.blocks]
    assert kinds == [("heading", 0, "The Frozen River"), ("paragraph", 0, None), ("paragraph", 1, None)]
    assert dict(document.extra)["pages_recognised"] == 2
    assert "pages_without_text" not in dict(document.extra)


def test_scan_gives_the_same_in_every_process(parse: Parse) -> None:
    plugin = find("parsers", "pdf")
    options = plugin.options.model_validate({"ocr": True})
    here = plugin.build(options).parse(Blob(scan(), "scan.pdf"))
    assert parse(scan()) == here == parse(scan())


def test_text_that_is_there_is_not_recognised_again(parse: Parse) -> None:
    from pypdfium2 import PdfDocument

    whole = PdfDocument(pdf([[(50, 700, 10, "Words of the text layer.")]]))
    whole.import_pages(PdfDocument(scan()), [1])
    file = io.BytesIO()
    whole.save(file)
    document = parse(file.getvalue())
    assert document.text.startswith("Words of the text layer.\n\n")
    assert share(GERMAN, document, 1) > 0.95
    assert dict(document.extra)["pages_recognised"] == 1


def test_pictures_without_text_are_reported(parse: Parse) -> None:
    found = shortfall(parse(pictures([])))
    assert found is not None
    assert (found.state, found.reason) == (
        "empty", "only pictures on 1 of 1 page, in which OCR finds no text that it can read",
    )  # fmt: skip
