import sys
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.core.completeness import Shortfall, shortfall
from ingestor.model import Blob, Document
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from ingestor.ports import BadDocument
from tests.parsers.files import pdf
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(PdfOptions())
Drawn = tuple[int, int, int, str]


def parse(data: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(data, "a.pdf"))
    assert document is not None
    return document


def page(number: int, *lines: Drawn) -> list[Drawn]:
    """With a running header and a page number."""
    return [(50, 780, 8, "A running header"), *lines, (300, 20, 8, str(number))]


BODY = [
    page(1, (50, 700, 24, "The Title"), (50, 650, 10, "A first paragraph whose words run on and"),
         (50, 638, 10, "go on in the next line."), (50, 600, 10, "A second one."),
         (50, 570, 10, "\\225 an item"), (50, 558, 10, "\\225 another item of the list")),
    page(2, (50, 700, 16, "1 Methods"), (50, 670, 10, "Text on the second page.")),
    page(3, (50, 700, 16, "2 Results"), (50, 670, 10, "Text on the third page.")),
    page(4, (50, 700, 10, "The end.")),
]  # fmt: skip
OUTLINE = (
    "/Lang(de-CH)/PageLabels<</Nums[0<</S/r>>1<</S/D>>]>>"
    "/Outlines<</First<</Title(Methods)/Dest[5 0 R/Fit]/Next<</Title(Nowhere said)/Dest[7 0 R/Fit]"
    "/First<</Title(RESULTS)/Dest[7 0 R/Fit]>>>>>>>>"
)


def test_text_with_pages_and_headings_by_size() -> None:
    document = parse(pdf(BODY, info="/Author(Ada  L.)/CreationDate(D:20240131120000+01'00')"))
    found = [(b.kind, b.level, b.page, t) for b, t in zip(document.blocks, texts(document), strict=True)]
    assert found == [
        ("heading", 1, 0, "The Title"),
        ("paragraph", 0, 0, "A first paragraph whose words run on and go on in the next line."),
        ("paragraph", 0, 0, "A second one."),
        ("list", 0, 0, "• an item\n• another item of the list"),
        ("heading", 1, 1, "1 Methods"),
        ("paragraph", 0, 1, "Text on the second page."),
        ("heading", 1, 2, "2 Results"),
        ("paragraph", 0, 2, "Text on the third page."),
        ("paragraph", 0, 3, "The end."),
    ]
    assert [block.number for block in document.blocks if block.number] == ["1", "2"]
    assert [block.page_label for block in document.blocks][-1] == "4"
    assert document.title == "The Title"
    assert document.extra == (("pages", 4), ("author", "Ada L."), ("created", "2024-01-31T12:00:00+01:00"))


def test_the_raised_mark_of_a_note_is_no_line_of_its_own_size_and_place() -> None:
    note = [(50, 103, 5, "1"), (58, 100, 8, "A note on what was said above, which goes on"),
            (50, 90, 8, "in a second line.")]  # fmt: skip
    text = texts(parse(pdf([[(50, 700, 10, "Text to which there is a note at the foot."), *note]])))
    assert text[1:] == ["1 A note on what was said above, which goes on in a second line."]


def spaced(letters: str, between: int) -> list[Drawn]:
    """Each letter H by itself, with so much between; where there is a space, three times as much."""
    lefts = accumulate(15 + between if letter == "H" else 2 * between for letter in letters)
    return [
        (50 + left, 700, 20, letter) for left, letter in zip(lefts, letters, strict=True) if letter == "H"
    ]


def test_words_set_with_space_between_their_letters_are_words() -> None:
    assert texts(parse(pdf([spaced("HHH HHHHH", 4)])))[0] == "HHH HHHHH"
    assert texts(parse(pdf([spaced("HHHHHHHH", 7)])))[0] == "H H H H H H H H", "a space of words between"


def test_the_outline_goes_before_sizes() -> None:
    document = parse(pdf(BODY, OUTLINE, info="/Title(Report)"))
    headings = [
        (b.title, b.level, b.page, b.page_label, b.number) for b in document.blocks if b.kind == "heading"
    ]
    assert headings == [
        ("1 Methods", 1, 1, "1", "1"),
        ("Nowhere said", 1, 2, "2", None),
        ("2 Results", 2, 2, "2", "2"),
    ]
    assert document.blocks[0].page_label == "i"
    assert (document.title, document.language) == ("Report", "de-CH")


def test_pages_without_text_are_counted_and_what_would_read_them_is_said() -> None:
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


CELLS = [(60, 680, 10, "Weights of all"), (60, 650, 10, "stone"), (260, 650, 10, "12 kg"),
         (60, 630, 10, "feather"), (260, 630, 10, "1 g"), (60, 600, 10, "Text below.")]  # fmt: skip
ACROSS = "".join(f"50 {y} m 450 {y} l S " for y in (700, 670, 645, 620))


@pytest.mark.parametrize(
    "drawn",
    [
        f"{ACROSS} 50 620 m 50 700 l S 450 620 m 450 700 l S 250 620 m 250 670 l S ",
        f"{ACROSS} 250 620 m 250 700 l S ",  # open at its sides
        "50 670 400 30 re S " + "".join(f"{x} {y} 200 25 re S " for x in (50, 250) for y in (620, 645)),
        f"{ACROSS} 250 620 1 80 re f ",  # a line that is a thin area
    ],
)
def test_tables_that_are_drawn(drawn: str) -> None:
    document = parse(pdf([[(50, 740, 10, "Text above."), *CELLS]], lines=drawn))
    assert texts(document) == [
        "Text above.",
        "Weights of all\nstone 12 kg\nfeather 1 g",
        "Text below.",
    ]
    assert [block.kind for block in document.blocks] == ["paragraph", "table", "paragraph"]


def test_a_net_without_text_is_no_table_and_a_table_loses_no_words() -> None:
    empty = "".join(f"50 {y} m 450 {y} l S {y - 450} 300 m {y - 450} 400 l S " for y in range(300, 400, 20))
    assert "table" not in {block.kind for block in parse(pdf([CELLS], lines=empty)).blocks}
    cut = "".join(f"{x} 690 m {x} 720 l S " for x in (50, 90, 250)) + ACROSS
    words = " ".join(texts(parse(pdf([CELLS], lines=cut)))).split()
    assert {"Weights", "stone", "feather", "below."} <= set(words)


def test_damaged_and_encrypted_ones_are_told() -> None:
    with pytest.raises(BadDocument, match="is a damaged or cut-off PDF"):
        PARSER.parse(Blob(b"%PDF-1.7\ngarbage", "a.pdf"))
    locked = pdf(BODY).replace(
        b"/Info",
        b"/Encrypt<</Filter/Standard/V 1/R 2/P -1/O(%b)/U(%b)>>/ID[(a)(b)]/Info" % (b"x" * 32, b"y" * 32),
    )
    foreign = pdf(BODY).replace(b"/Info", b"/Encrypt<</Filter/Adobe.PubSec/V 1>>/Info")
    for data in (locked, foreign):
        with pytest.raises(BadDocument, match="is encrypted; save it without a password"):
            PARSER.parse(Blob(data, "a.pdf"))


@settings(max_examples=60)
@given(st.integers(0, 4000), st.binary(min_size=1, max_size=8))
def test_laws_hold_for_any_damage(at: int, damage: bytes) -> None:
    data = bytearray(pdf(BODY, OUTLINE))
    data[at : at + len(damage)] = damage
    obeys_laws(PARSER, Blob(bytes(data), "a.pdf"))
