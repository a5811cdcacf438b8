import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.pdf.forms import Field, placed
from ingestor.parsers.pdf.lines import Word
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from tests.parsers.files import numbered
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(PdfOptions())
LABELS = [(50, 700, "Name:"), (300, 700, "Town:"), (50, 670, "Your profession"), (80, 600, "Member"),
          (180, 600, "Guest"), (80, 570, "By post"), (180, 570, "By mail")]  # fmt: skip
TEXT, LIST, TICK = "/FT/Tx", "/FT/Ch/Ff 131072/Opt[(Baker)(Smith)]", "/FT/Btn"
RADIO = "/FT/Btn/Ff 49152/T(way)/TU(Way)/V/mail"
FIELDS = [
    (f"{TEXT}/T(n)/V(Ada Lovelace)", (85, 696, 280, 712)),
    (f"{TEXT}/T(t)/V(Porthaven)", (340, 696, 500, 712)),
    (f"{LIST}/T(p)/V(Smith)", (50, 645, 200, 662)),  # its label stands above
    (f"{TICK}/T(m)/V/Yes/AS/Yes/AP<</N<</Yes 4 0 R/Off 4 0 R>>>>", (60, 598, 72, 610)),
    (f"{TICK}/T(g)/V/Off/AS/Off/AP<</N<</Yes 4 0 R/Off 4 0 R>>>>", (160, 598, 172, 610)),
    (f"{RADIO}/AS/Off/AP<</N<</post 4 0 R/Off 4 0 R>>>>", (60, 568, 72, 580)),
    (f"{RADIO}/AS/mail/AP<</N<</mail 4 0 R/Off 4 0 R>>>>", (160, 568, 172, 580)),
    (f"{TEXT}/T(remark)/TU(Remark)/V(None \\(yet\\))", (400, 100, 500, 120)),
    (f"{TEXT}/T(empty)/V()", (85, 300, 280, 312)),
    (f"{TEXT}/Ff 8192/T(word)/V(secret)", (85, 350, 280, 362)),
]
NOTES = [
    "/Subtype/Text/Rect[500 700 520 720]/T(Grace)/Contents(Please check the year.)",
    "/Subtype/Highlight/Rect[50 690 90 710]/Contents(not filled in)",
    "/Subtype/Text/F 2/Rect[500 700 520 720]/Contents(hidden)",
    "/Subtype/Popup/Rect[500 600 520 620]/Contents(no comment)",
]


def form(fields: list[tuple[str, tuple[int, ...]]], notes: list[str]) -> bytes:
    drawn = "\n".join(f"BT /F1 10 Tf {x} {y} Td ({said}) Tj ET" for x, y, said in LABELS)
    first = 5
    widgets = [
        f"<</Type/Annot/Subtype/Widget/F 4{field}/Rect[{' '.join(map(str, box))}]>>" for field, box in fields
    ]
    objects = [*widgets, *(f"<</Type/Annot{note}>>" for note in notes)]
    places = " ".join(f"{first + at} 0 R" for at in range(len(objects)))
    inputs = " ".join(f"{first + at} 0 R" for at in range(len(widgets)))
    font = "<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>>>"
    return numbered(
        [
            f"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[{inputs}]>>>>",
            "<</Type/Pages/Kids[3 0 R]/Count 1>>",
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Annots[{places}]"
            f"/Resources<</Font{font}>>>>",
            f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream",
            *objects,
            "<<>>",
        ]
    )


def parse(data: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(data, "a.pdf"))
    assert document is not None
    return document


def test_values_of_a_form_stand_beside_their_labels() -> None:
    text = " ".join(parse(form(FIELDS, [])).text.split())
    for said in (
        "Name: Ada Lovelace Town: Porthaven",
        "Your profession Smith",
        "[x] Member [ ] Guest",
        "[ ] By post [x] By mail",
        "Remark: None (yet)",
    ):
        assert said in text
    assert "secret" not in text
    assert "empty" not in text


def test_a_form_without_values_reads_as_it_is_printed() -> None:
    document = parse(form([FIELDS[-2]], []))
    assert "Name: Town:" in " ".join(document.text.split())


def test_comments_are_blocks_of_their_own_kind() -> None:
    document = parse(form([], NOTES))
    comments = [t for b, t in zip(document.blocks, texts(document), strict=True) if b.kind == "comment"]
    assert comments == ["Grace: Please check the year.", "not filled in"]
    assert document.blocks[-1].page == 0
    assert "hidden" not in document.text


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (Field("n", "Ada", (60, 98, 200, 112)), {0: ("", " Ada")}),  # beside "Name:"
        (Field("n", "Ada", (0, 80, 100, 96)), {0: ("", " Ada")}),  # below it
        (Field("b", "", (40, 60, 50, 70), ticked=True), {9: ("[x] ", "")}),  # left of "Member"
        (Field("b", "", (300, 60, 310, 70), ticked=False), {9: ("", " [ ]")}),  # right of it
    ],
)
def test_form_value_stands_at_its_field(field: Field, expected: dict[int, tuple[str, str]]) -> None:
    words = [Word("Name:", 20, 55, 100, 0), Word("____", 60, 190, 99, 5), Word("Member", 55, 100, 62, 9)]
    assert placed([field], words).values == expected


def test_a_field_without_a_label_is_a_line_after_its_name() -> None:
    (line,) = placed([Field("year", "1843", (300, 500, 340, 510))], []).lines
    assert (line.text, line.left, line.baseline) == ("year: 1843", 300, 500)


def test_an_empty_box_beside_no_words_says_nothing() -> None:
    assert placed([Field("c1_09[0]", "", (300, 500, 310, 510), ticked=False)], []).lines == ()


TEMPLATE = """<template xmlns="http://www.xfa.org/schema/xfa-template/3.3/"><subform name="form1">
<draw><value><exData contentType="text/html"><body xmlns="http://www.w3.org/1999/xhtml"><p>Application for a
<b>berth</b></p></body></exData></value></draw><field name="Ship"><caption><value><text>Name of the ship:
</text></value></caption></field><field name="Length"><caption><value><text>Length</text></value></caption>
<value><text>12 m</text></value></field><field name="Secret" presence="hidden"/></subform></template>"""
DATA = """<xfa:datasets xmlns:xfa="http://www.xfa.org/schema/xfa-data/1.0/"><xfa:data><form1>
<Ship>Gr\xf8nland</Ship><Crew><Mate>Ada</Mate><Mate>Bo</Mate></Crew></form1></xfa:data></xfa:datasets>"""


def in_xml(template: str, data: str) -> bytes:
    parts = [part.encode().decode("cp1252") for part in (template, data)]
    waiting = "BT /F 11 Tf 50 700 Td (Please wait...) Tj ET"
    return numbered([
        "<</Type/Catalog/Pages 2 0 R/NeedsRendering true"
        "/AcroForm<</Fields[]/XFA[(template) 5 0 R(datasets) 6 0 R]>>>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F<</Type/Font"
        "/Subtype/Type1/BaseFont/Helvetica>>>>>>>>",
        f"<</Length {len(waiting)}>>stream\n{waiting}\nendstream",
        *(f"<</Length {len(part.encode('cp1252'))}>>stream\n{part}\nendstream" for part in parts),
        "<<>>",
    ])  # fmt: skip


def test_a_form_in_xml_gives_its_words_and_values() -> None:
    document = parse(in_xml(TEMPLATE, DATA))
    assert texts(document)[1:] == [
        "Application for a berth", "Name of the ship: Grønland", "Length: 12 m", "Mate: Ada", "Mate: Bo",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "template", ["", "<template", "<!DOCTYPE a [<!ENTITY x 'y'>]><template>&x;</template>"]
)
def test_a_form_in_xml_that_is_damaged_leaves_the_page(template: str) -> None:
    assert texts(parse(in_xml(template, DATA)))[0] == "Please wait..."
