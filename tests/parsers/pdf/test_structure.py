"""Tagged PDFs: their structure tree says what is a heading, and where the cells of tables are."""

from collections.abc import Sequence

from pypdfium2 import PdfDocument

from ingestor.core.completeness import shortfall
from ingestor.model import Blob, Document
from ingestor.parsers.pdf import structure
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from tests.parsers.files import numbered
from tests.parsers.laws import obeys_laws

Said = tuple[str, int, int]  # text, and where it stands
Element = tuple[str, Sequence["Element"] | Sequence[Said]]


def tagged(elements: Sequence[Element], roles: str = "") -> bytes:
    """A page with all text in one size; each piece of text is a marked content of its own."""
    first, objects, parents, drawn = 8, list[str](), list[str](), list[str]()

    def add(element: Element, parent: int) -> int:
        kind, inside = element
        own = len(objects)
        objects.append("")
        number, kids = first + own, list[str]()
        for part in inside:
            if isinstance(part[1], int):
                text, x, y = part  # type: ignore[misc]
                kids.append(str(len(drawn)))
                parents.append(f"{number} 0 R")
                drawn.append(f"/P <</MCID {len(drawn)}>> BDC BT /F 11 Tf {x} {y} Td ({text}) Tj ET EMC")
            else:
                kids.append(f"{add(part, number)} 0 R")  # type: ignore[arg-type]
        name, _, more = kind.partition(" ")
        wide = f"/A <</O /Table /{more}>>" if "Span" in more else f"/Alt ({more})" if more else ""
        objects[own] = (
            f"<</Type /StructElem /S /{name} /P {parent} 0 R /Pg 3 0 R /K [{' '.join(kids)}]{wide}>>"
        )
        return number

    top = add(("Document", elements), 6)
    content = "\n".join(drawn)
    return numbered([
        "<</Type /Catalog /Pages 2 0 R /MarkInfo <</Marked true>> /StructTreeRoot 6 0 R>>",
        "<</Type /Pages /Kids [3 0 R] /Count 1>>",
        "<</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /StructParents 0 /Contents 4 0 R"
        " /Resources <</Font <</F 5 0 R>>>>>>",
        f"<</Length {len(content)}>>\nstream\n{content}\nendstream",
        "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding>>",
        f"<</Type /StructTreeRoot /K {top} 0 R /ParentTree 7 0 R /RoleMap <<{roles}>>>>",
        f"<</Nums [0 [{' '.join(parents)}]]>>",
        *objects,
        "<</Producer (test)>>",
    ])  # fmt: skip


def parse(data: bytes) -> Document:
    parser, blob = PLUGIN.build(PdfOptions()), Blob(data, "a.pdf")
    obeys_laws(parser, blob)
    document = parser.parse(blob)
    assert shortfall(document) is None
    return document


def told(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, block.title or document.text[block.start : block.end]) for block in document.blocks]


def prose(y: int) -> Element:
    return ("P", [("Ships enter the harbour at any hour of the day, and leave it at", 50, y),
                  ("night, when the tide is high and the wind is from the land.", 50, y - 14)])  # fmt: skip


def test_tags_tell_headings_that_look_like_text() -> None:
    document = parse(tagged([
        ("H1", [("Harbours of the north", 50, 760), ("and of the south", 50, 746)]), prose(730),
        ("Sect", [("Kapitel", [("How to enter", 50, 700)]), prose(684)]),
    ], roles="/Kapitel /H2"))  # fmt: skip
    assert [(block.title, block.level) for block in document.blocks if block.kind == "heading"] == [
        ("Harbours of the north and of the south", 1), ("How to enter", 2),
    ]  # fmt: skip
    assert [kind for kind, _ in told(document)] == ["heading", "paragraph", "heading", "paragraph"]


def test_one_line_in_larger_type_says_more_than_no_tag() -> None:
    document = parse(tagged([("P", [("Harbours", 50, 760)]), prose(730)]))
    assert [kind for kind, _ in told(document)] == ["paragraph", "paragraph"]


def test_tags_tell_cells_where_no_line_is_drawn() -> None:
    rows = [("Port", "Tons", "Ships"), ("Oslo and", "12", "3"), ("Kiel", "9", "")]
    cells: list[Element] = []
    for row, said in enumerate(rows):
        places = enumerate(said)
        row_of = [("TD", [(cell, 50 + 90 * at, 700 - 16 * row)] if cell else []) for at, cell in places]
        cells.append(("TR", row_of))
    wide: Element = ("TR", [("TD ColSpan 2", [("Both", 50, 650)]), ("TD", [("15", 230, 650)])])
    table: Element = ("Table", [("THead", cells[:1]), ("TBody", [*cells[1:], wide])])
    document = parse(tagged([prose(760), table, prose(620)]))
    assert [kind for kind, _ in told(document)] == ["paragraph", "table", "paragraph"]
    assert told(document)[1][1].splitlines() == [
        "Port Tons Ships", "Oslo and 12 3", "Kiel 9", "Both 15",
    ]  # fmt: skip


def test_cell_that_spans_rows_keeps_the_columns_of_those_below() -> None:
    rows: list[Element] = [
        ("TR", [("TH", [("Port", 50, 700)]), ("TH", [("Quay", 140, 700)]), ("TH", [("Tons", 230, 700)])]),
        (
            "TR",
            [("TD RowSpan 2", [("Kiel", 50, 684)]), ("TD", [("North", 140, 684)]), ("TD", [("9", 230, 684)])],
        ),
        ("TR", [("TD", [("South", 140, 668)]), ("TD", [("12", 230, 668)])]),
    ]
    found = structure.tags(PdfDocument(tagged([prose(760), ("Table", rows), prose(620)]))[0])
    places = sorted((cell.row, cell.column, cell.head) for cell in found.cells.values())
    assert places == [
        (0, 0, True), (0, 1, True), (0, 2, True), (1, 0, False), (1, 1, False), (1, 2, False), (2, 1, False),
        (2, 2, False),
    ]  # fmt: skip


def test_a_tree_without_end_costs_no_time() -> None:
    deep: Element = ("P", [("Harbour", 50, 760)])
    for _ in range(200):
        deep = ("Sect", [deep])
    assert "Harbour" in parse(tagged([deep])).text
    ring = tagged([("Sect", [("P", [("Harbour", 50, 760)])])]).replace(b"/K [0]", b"/K [9 0 R 9 0 R 0]")
    assert "Harbour" in parse(ring).text


def test_what_is_said_of_a_picture_is_a_figure() -> None:
    drawn = [("", 50, 600)]
    pictures: list[Element] = [
        ("Figure The harbour at night", drawn), ("Figure Picture 3", drawn), ("Figure", drawn),
    ]  # fmt: skip
    document = parse(tagged([prose(730), *pictures, prose(684), pictures[0]]))
    assert told(document)[-1] == ("figure", "The harbour at night")
    assert [kind for kind, _ in told(document)].count("figure") == 1
