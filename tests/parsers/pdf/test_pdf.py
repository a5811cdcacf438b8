import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.core.completeness import Shortfall, shortfall
from ingestor.model import Blob, Document
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from ingestor.ports import BadDocument
from tests.parsers.files import pdf
from tests.parsers.laws import obeys_laws

PARSER = PLUGIN.build(PdfOptions())
OUTLINE = (Path(__file__).parents[1] / "golden/outline.pdf").read_bytes()
Drawn = tuple[int, int, int, str]


def parse(data: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(data, "a.pdf"))
    assert document is not None
    return document


def page(number: int, *lines: Drawn) -> list[Drawn]:
    """With a running header and a page number."""
    return [(50, 780, 8, "A running header"), *lines, (300, 20, 8, str(number))]


def test_pages_without_text_are_counted_and_what_would_read_them_is_reported() -> None:
    document = parse(pdf([[], [(50, 700, 10, "text")]]))
    assert ("pages_without_text", 1) in document.extra
    assert shortfall(document) == Shortfall(
        "incomplete",
        "only pictures and no text layer on 1 of 2 pages: OCR would read them:"
        f" {sys.executable} -m pip install rapidocr, and `parsing: {{pdf: {{ocr: true}}}}` for its source;"
        " or run a tool such as ocrmypdf on it",
    )
    scanned = shortfall(parse(pdf([[], []])))
    assert scanned is not None
    assert scanned.state == "empty"
    assert scanned.reason.startswith("only pictures and no text layer on 2 of 2 pages: OCR would read them")


@pytest.mark.parametrize("others", [[], [(50, 700, 10, "text")]])
def test_ocr_that_is_not_installed_is_missed_where_it_is_needed(
    others: list[Drawn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    parser = PLUGIN.build(PdfOptions(ocr=True))
    assert parser.parse(Blob(pdf([[(50, 700, 10, "Text, and no picture.")]]), "a.pdf")).text
    with pytest.raises(BadDocument, match=r"rapidocr, .* not installed: \S+ -m pip install rapidocr, then"):
        parser.parse(Blob(pdf([others, []]), "a.pdf"))


def test_damaged_and_encrypted_messages_are_reported() -> None:
    with pytest.raises(BadDocument, match="is a damaged or cut-off PDF"):
        PARSER.parse(Blob(b"%PDF-1.7\ngarbage", "a.pdf"))
    locked = OUTLINE.replace(
        b"/Info",
        b"/Encrypt<</Filter/Standard/V 1/R 2/P -1/O(%b)/U(%b)>>/ID[(a)(b)]/Info" % (b"x" * 32, b"y" * 32),
    )
    foreign = OUTLINE.replace(b"/Info", b"/Encrypt<</Filter/Adobe.PubSec/V 1>>/Info")
    for data in (locked, foreign):
        with pytest.raises(BadDocument, match="is encrypted; save it without a password"):
            PARSER.parse(Blob(data, "a.pdf"))


@settings(max_examples=60)
@given(st.integers(0, 4000), st.binary(min_size=1, max_size=8))
def test_laws_hold_for_any_damage(at: int, damage: bytes) -> None:
    data = bytearray(OUTLINE)
    data[at : at + len(damage)] = damage
    obeys_laws(PARSER, Blob(bytes(data), "a.pdf"))
