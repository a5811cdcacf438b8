"""Words as the page shows them, whatever the file's order, spaces and turns."""

from pathlib import Path
from unicodedata import category, combining, normalize

import pytest
from pypdfium2 import PdfDocument

from ingestor.model import Blob, Document
from ingestor.parsers.pdf import structure
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from tests.parsers.files import numbered
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(PdfOptions())
GOLDEN = Path(__file__).parents[1] / "golden"
HELVETICA = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
WIDE, HIGH = 600, 800


def drawn(content: str, page: str = "", font: str = HELVETICA, *more: str, catalog: str = "") -> Document:
    """Read a page with this content, set in font F; ``more``: objects from number 6 on."""
    data = numbered([
        f"<</Type/Catalog/Pages 2 0 R{catalog}>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {WIDE} {HIGH}]/Contents 4 0 R"
        f"/Resources<</Font<</F 5 0 R>>>>{page}>>",
        f"<</Length {len(content)}>>stream\n{content}\nendstream",
        font,
        *more,
        "<<>>",
    ])  # fmt: skip
    document = obeys_laws(PARSER, Blob(data, "a.pdf"))
    assert document is not None
    return document


def said(*lines: tuple[float, float, str], size: float = 10) -> str:
    return "\n".join(f"BT /F {size} Tf {x} {y} Td ({text}) Tj ET" for x, y, text in lines)


STOCK = [
    ("Item", "Description", "Quantity"), ("A-1", "Oak table", "3"), ("A-2", "Pine chair", "12"),
    ("A-3", "Lamp", "7"),
]  # fmt: skip
TURNS = {
    0: lambda x, y: f"1 0 0 1 {x} {y}",
    90: lambda x, y: f"0 1 -1 0 {WIDE - y} {x}",
    180: lambda x, y: f"-1 0 0 -1 {WIDE - x} {HIGH - y}",
    270: lambda x, y: f"0 -1 1 0 {y} {HIGH - x}",
}  # fmt: skip


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("told", [True, False])
def test_turned_page_reads_like_an_upright_one(turn: int, told: bool) -> None:
    content = "\n".join(
        f"BT /F 10 Tf {TURNS[turn](80 + 120 * column, 500 - 15 * row)} Tm ({cell}) Tj ET"
        for row, cells in enumerate(STOCK)
        for column, cell in enumerate(cells)
    )
    document = drawn(content, f"/Rotate {turn}" if told else "")
    assert document.text == "\n".join(" ".join(row) for row in STOCK)
    assert [(block.kind, block.header_rows) for block in document.blocks] == [("table", 1)]


@pytest.mark.parametrize("shift", [0, 0.3, 0.8])
def test_text_painted_twice_is_read_once(shift: float) -> None:
    lines = [(60, 700, "The tall ship sails"), (60, 660, "Share code: 300218")]
    again = [(x + shift, y - shift / 2, text) for x, y, text in lines]
    assert drawn(said(*lines, *again)).text == "The tall ship sails\nShare code: 300218"
    apart = [(60, 640, "Share code: 300218")]
    assert drawn(said(*lines, *apart)).text.count("300218") == 2


@pytest.mark.parametrize("box", ["/CropBox[0 0 600 720]", "/MediaBox[0 0 600 720]"])
def test_text_outside_the_page_is_not_read(box: str) -> None:
    lines = [(60, 750, "cut off"), (60, 700, "on the page"), (700, 600, "beside it")]
    assert drawn(said(*lines), box).text == "on the page"


def test_space_before_a_last_letter_set_otherwise_is_none() -> None:
    words = ["Invoice", "number", "seven", "hundred"]
    content, x = "", 60.0
    for word in words:
        content += f"BT /F 12 Tf 1.5 Tc {x} 700 Td ({word[:-1]}) Tj ET\n"
        x += sum(WIDTHS[letter] * 0.012 + 1.5 for letter in word[:-1])
        content += f"BT /F 12 Tf 0 Tc {x} 700 Td ({word[-1]}) Tj ET\n"
        x += WIDTHS[word[-1]] * 0.012 + 6
    assert drawn(content).text == " ".join(words)


# Helvetica's, in thousandths of its size.
WIDTHS = dict(zip("abcdefghijklmnopqrstuvwxyzI", (
    556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278,
    556, 500,
    722, 500, 500, 500, 278,
), strict=True))  # fmt: skip


def test_words_set_tightly_stand_apart() -> None:
    words = ["a", "player", "who", "tries", "it", "in", "the", "hall", "is", "made", "for", "it"]
    content, x = "", 60.0
    for word in words:
        content += f"BT /F 10 Tf {x} 700 Td ({word}) Tj ET\n"
        x += sum(WIDTHS[letter] * 0.01 for letter in word) + 1.8
    assert drawn(content).text == " ".join(words)


def letters(text: str) -> tuple[str, str, str]:
    """A font whose codes from A on stand for these characters, and its map."""
    pairs = " ".join(
        f"<{65 + at:02X}><{letter.encode('utf-16-be').hex()}>"
        for at, letter in enumerate(dict.fromkeys(text))
    )
    count = len(dict.fromkeys(text))
    mapping = (
        f"/CMapName/X def 1 begincodespacerange<00><FF>endcodespacerange {count} beginbfchar{pairs}endbfchar"
    )
    return (
        "<</Type/Font/Subtype/Type1/BaseFont/Courier/ToUnicode 6 0 R>>",
        f"<</Length {len(mapping)}>>stream\n{mapping}\nendstream",
        "".join(chr(65 + list(dict.fromkeys(text)).index(letter)) for letter in text),
    )


@pytest.mark.parametrize(
    ("seen", "read"),
    [
        ("םולש", "שלום"),
        ("םלוע םולש", "שלום עולם"),
        ("18:00-ל", "ל-18:00"),
        ("2024 תנש", "שנת 2024"),
        ("باتك", "كتاب"),
        ("http://a.b/c ובתכ", "כתבו http://a.b/c"),
        (".info@a.org ובתכ", "כתבו info@a.org."),
        ("https://a.org/b?page=2 עקומ", "מוקע https://a.org/b?page=2"),
        (".ABC Ltd תרבח םכסה", "הסכם חברת ABC Ltd."),
        (".(17%) סמ", "מס (17%)."),
        (",03-5551234 ןופלט", "טלפון 03-5551234,"),
        ("(ב)4 ףיעס", "סעיף 4(ב)"),
        ("+A ןויצ", "ציון A+"),
        ("13-6 ליג", "גיל 13-6"),
        ("18–13 ליג", "גיל 13–18"),
        ("1234-555 فتاه", "هاتف 555-1234"),
        ("Python 3.14 רבדמ", "מדבר Python 3.14"),
        ("+962-6-555 مقر", "رقم +962-6-555"),
        ("Rs. 250 سیف", "فیس Rs. 250"),
        ("تسا ۵۵۱-۰۲۱", "۰۲۱-۵۵۱ است"),
        ("۔(تیاعر)", "(رعایت)۔"),
        ("The word םולש is Hebrew.", "The word שלום is Hebrew."),
    ],
)
def test_line_from_right_to_left_is_read_in_its_order(seen: str, read: str) -> None:
    """``seen``: the letters from left to right."""
    font, mapping, codes = letters(seen.replace(" ", ""))
    content, at = "", 0
    for place, letter in enumerate(seen):
        if letter != " ":
            content += f"BT /F 10 Tf {60 + 6 * place} 700 Td <{ord(codes[at]):02X}> Tj ET\n"
            at += 1
    assert drawn(content, "", font, mapping).text == read


def test_combining_marks_stay_with_their_letters() -> None:
    text = "हिन्दी"
    font, mapping, codes = letters(text)
    content = "".join(
        f"BT /F 10 Tf {60 + 9 * at} 700 Td <{ord(code):02X}> Tj ET\n" for at, code in enumerate(codes)
    )
    words = drawn(content, "", font, mapping).text.split()
    assert not any(word[0] in "\u093f\u094d\u0940" for word in words)
    assert not any(word.endswith("\u094d") for word in words)


@pytest.mark.parametrize("name", ["hindi.pdf", "scripts.pdf"])
def test_space_is_removed_before_a_mark_and_after_a_joining_one(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    words = PARSER.parse(Blob(data, name)).text.split()
    assert len(words) > 20
    assert not [word for word in words if category(word[0])[0] == "M"]
    assert not [word for word in words if combining(word[-1]) == 9 and word[-1] not in "\u0bcd\u0d4d"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("marks.pdf", "أُنشِئَت المكتبةُ يوميًا، ثُمَّ سَأَلَ المُعَلِّمَ قارئٌ: «هَلْ تُهَاجِرُ الطُّيُورُ؟»"),
        ("marks.pdf", "The word for book is كتاب, for us."),
        ("niqqud.pdf", "וְחֹשֶׁךְ עַל־פְּנֵי תְהוֹם."),
    ],
)
def test_letters_with_marks_stay_in_their_words(name: str, wanted: str) -> None:
    text = PARSER.parse(Blob((GOLDEN / name).read_bytes(), name)).text
    assert normalize("NFC", wanted) in normalize("NFC", text)


LEFT = ["The river runs below the town and", "turns the wheels of two old mills",
        "which grind the corn of all farms",
        "between the hills and the harbour", "whose walls are green with moss."]  # fmt: skip
RIGHT = ["Ships that leave at night carry a", "lamp at the mast, so that nobody",
         "runs into them, and a bell which",
         "the mate rings when the fog comes", "in from the sea before the dawn."]  # fmt: skip


def test_columns_written_row_by_row_are_read_one_after_the_other() -> None:
    rows = [
        (x, 700 - 12 * row, text)
        for row in range(5)
        for x, text in ((50, LEFT[row]), (320, RIGHT[row]))
    ]  # fmt: skip
    assert " ".join(drawn(said(*rows)).text.split()) == " ".join([*LEFT, *RIGHT])


def test_cell_that_spans_rows_keeps_the_columns_of_those_below() -> None:
    found = structure.tags(PdfDocument(GOLDEN / "row-span.pdf")[0])
    places = sorted((cell.row, cell.column) for cell in found.cells.values() if not cell.head)
    assert places == [(1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]


def test_values_of_fields_without_a_form_are_read() -> None:
    widget = "<</Type/Annot/Subtype/Widget/F 4/FT/Tx/T(n)/V(Ada Lovelace)/Rect[85 696 280 712]>>"
    document = drawn(said((50, 700, "Name:")), "/Annots[6 0 R]", HELVETICA, widget)
    assert document.text == "Name: Ada Lovelace"


def test_outline_of_another_document_adds_nothing() -> None:
    entries = [
        f"<</Title(Creature {n})/Parent 6 0 R/Dest[3 0 R/Fit]{f'/Next {8 + n} 0 R' if n < 9 else ''}>>"
        for n in range(10)
    ]
    outline = "<</First 7 0 R/Last 16 0 R/Count 10>>"
    lines = said((50, 700, "Creature 0"), (50, 660, "It lives in the woods and sleeps all day."))
    document = drawn(lines, "", HELVETICA, outline, *entries, catalog="/Outlines 6 0 R")
    assert texts(document) == ["Creature 0", "It lives in the woods and sleeps all day."]
