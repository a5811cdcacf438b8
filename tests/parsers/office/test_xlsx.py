from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.office.xlsx import PLUGIN, XlsxOptions
from ingestor.parsers.office.xlsx_format import formats, writer
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
    assert "| 4500050.0% | 2023-03-15 | 45,000.50 |" in texts(parse(xlsx({"S": rows}, formats=formats)))[1]


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (3.0, "", "3"),
        (0.1 + 0.2, "", "0.3"),
        (1e20, "", "1e+20"),
        (1234.5, "0", "1234"),
        (1234.5678, "#,##0.00", "1,234.57"),
        (0.125, "0%", "12%"),
        (0.125, "0.00%", "12.50%"),
        (45000.0, "yyyy-mm-dd", "2023-03-15"),
        (45000.75, "d/m/yy h:mm", "2023-03-15 18:00"),
        (0.75, "h:mm:ss", "18:00:00"),
        (1.5, "[h]:mm:ss", "36:00:00"),
        (45000.0, "mmm-yy", "2023-03"),
        (-1.0, "yyyy", "-1"),
        (1e300, "0.00E+00", "1e+300"),
    ],
)
def test_numbers_as_they_are_shown(value: float, form: str, text: str) -> None:
    assert writer(form)(value) == text


@given(st.floats(), st.text("#0,.%ymdhs[]E ", max_size=10))
def test_any_number_in_any_format_is_shown(value: float, form: str) -> None:
    try:
        assert writer(form)(value)
    except (ValueError, OverflowError):
        assert value != value or abs(value) > 1e5  # the value as it stands is shown then


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
