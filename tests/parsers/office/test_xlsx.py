from xml.etree.ElementTree import fromstring

import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.office.number_format import formats
from ingestor.parsers.office.xlsx import PLUGIN, XlsxOptions
from ingestor.parsers.shared import sheets
from ingestor.ports import BadDocument
from tests.parsers.files import xlsx
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(XlsxOptions())


def parse(data: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(data, "a.xlsx"))
    assert document is not None
    return document


def row(at: int, *cells: str) -> str:
    return f'<row r="{at}">{"".join(cells)}</row>'


def cell(place: str, value: object, kind: str = "n", style: int | None = None) -> str:
    styled = "" if style is None else f' s="{style}"'
    return f'<c r="{place}" t="{kind}"{styled}><v>{value}</v></c>'


def test_sheets_are_pages_of_tables() -> None:
    first = row(1, cell("A1", 0, "s"))
    first += row(2, cell("A2", 1, "s"), cell("C2", 2, "s")) + row(3, cell("A3", 12), cell("C3", 0.1))
    first += row(
        7, cell("B7", 1, "b"), cell("C7", "#N/A", "e"), '<c r="D7" t="inlineStr"><is><t>in</t></is></c>'
    )
    sheets = {
        "One": first,
        "hidden": row(1, cell("A1", 5)),
        "Empty": "",
        "Two": row(1, cell("A1", 2, "s")),
    }
    document = parse(xlsx(sheets, ["The title", "name", "value|"]))
    found = [(b.kind, b.page, b.page_label, t) for b, t in zip(document.blocks, texts(document), strict=True)]
    assert found == [
        ("heading", 0, "One", "One"),
        ("paragraph", 0, "One", "The title"),
        ("table", 0, "One", "| name | value\\| |\n| --- | --- |\n| 12 | 0.1 |"),
        ("table", 0, "One", "| TRUE | #N/A | in |\n| --- | --- | --- |"),
        ("heading", 2, "Two", "Two"),
        ("paragraph", 2, "Two", "value|"),
    ]
    assert (document.title, document.extra[0]) == ("A study", ("author", "Ada"))


def test_cells_far_apart_cost_nothing() -> None:
    document = parse(
        xlsx({"S": row(1, cell("A1", 1)) + row(1_048_576, cell("A1048576", 2), cell("XFD1048576", 3))})
    )
    assert texts(document) == ["S", "1", "| 2 | 3 |\n| --- | --- |"]


def test_only_cells_that_are_counted_can_be_left_out() -> None:
    styled = '<c r="B1" s="1"/><c r="C1" t="str"><f>""</f><v></v></c><c r="D1" t="d" s="1"/>'
    document = parse(
        xlsx({"S": row(1, cell("A1", 7), styled, cell("E1", 0, "s"), cell("F1", 1, "s"))}, ["", "--"])
    )
    assert (document.raw_words, document.left_out) == (3, (("cells without a letter or digit", 2),))


def test_cells_without_places_follow_each_other() -> None:
    document = parse(xlsx({"S": "<row><c><v>1</v></c><c><v>2</v></c></row>" * 2}))
    assert texts(document)[1] == "| 1 | 2 |\n| --- | --- |\n| 1 | 2 |"


def test_styles_say_how_numbers_look() -> None:
    formats = ["0.0%", "dd/mm/yyyy", "[$-409]#,##0.00&quot; EUR&quot;;[Red]-0"]
    rows = row(1, *(cell(f"{letter}1", 45_000.5, style=at) for at, letter in enumerate("ABC")))
    assert (
        "| 4500050.0% | 2023-03-15 | 45,000.50 EUR |" in texts(parse(xlsx({"S": rows}, formats=formats)))[1]
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Main Street 1_x000D_ Bern", "Main Street 1 Bern"),
        ("a_x0009_b", "a b"),
        ("_x005F_x000D_", "_x000D_"),
        ("_xD83D__xDE00_ _xD83D_", "\N{GRINNING FACE} \ufffd"),
        ("file_x1", "file_x1"),
    ],
)
def test_escapes_of_excel_are_characters(written: str, shown: str) -> None:
    inline = f'<c r="B1" t="inlineStr"><is><t>{written}</t></is></c>'
    formula = f'<c r="C1" t="str"><f>A1</f><v>{written}</v></c>'
    document = parse(xlsx({"S": row(1, cell("A1", 0, "s"), inline, formula)}, [written]))
    assert texts(document)[1] == f"| {shown} | {shown} | {shown} |\n| --- | --- | --- |"


def test_numbers_that_a_format_hides_are_left_out() -> None:
    rows = row(1, cell("A1", 0, style=0), cell("B1", 7, style=0), cell("C1", 8))
    document = parse(xlsx({"S": rows}, formats=["0;-0;;@"]))
    assert texts(document)[1] == "| 7 | 8 |\n| --- | --- |"
    assert document.left_out == (("cells without a letter or digit", 1),)


def test_hidden_sheets_and_comments_are_read_where_they_are_asked_for() -> None:
    cells = '<row><c t="inlineStr"><is><t>cell</t></is></c></row>'
    file = Blob(xlsx({"A": cells, "hidden": cells}), "a.xlsx")
    assert texts(PARSER.parse(file)) == ["A", "cell"]
    reader = PLUGIN.build(XlsxOptions(hidden_sheets=True))
    assert texts(reader.parse(file)) == ["A", "cell", "hidden", "cell"]


def test_damage_and_absurd_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadDocument, match="a cell's text is missing"):
        parse_strictly(xlsx({"S": row(1, cell("A1", 7, "s"))}))
    monkeypatch.setattr(sheets, "_CELLS", 3)
    with pytest.raises(BadDocument, match="more than 3 cells"):
        parse_strictly(xlsx({"S": row(1, *(cell(f"{letter}1", 1) for letter in "ABCD"))}))


def parse_strictly(data: bytes) -> Document:
    document: Document = PARSER.parse(Blob(data, "a.xlsx"))
    return document


@pytest.mark.parametrize("digits", ["9" * 5000, "²", "-1", ""])
def test_absurd_numbers_are_no_defect(digits: str) -> None:
    styles = (
        f'<s:styleSheet xmlns:s="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<s:numFmts><s:numFmt numFmtId="200" formatCode="{"[" * 200_000}"/></s:numFmts>'
        f'<s:cellXfs><s:xf numFmtId="{digits}"/><s:xf numFmtId="200"/></s:cellXfs></s:styleSheet>'
    )
    found = formats(fromstring(styles), False)
    assert found["0"](1.5) == found["1"](1.5) == found[""](1.5) == "1.5"
