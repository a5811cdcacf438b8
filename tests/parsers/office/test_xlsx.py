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


def test_hidden_sheets_and_comments_are_read_if_configured() -> None:
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
def test_absurd_numbers_raise_no_defect(digits: str) -> None:
    styles = (
        f'<s:styleSheet xmlns:s="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<s:numFmts><s:numFmt numFmtId="200" formatCode="{"[" * 200_000}"/></s:numFmts>'
        f'<s:cellXfs><s:xf numFmtId="{digits}"/><s:xf numFmtId="200"/></s:cellXfs></s:styleSheet>'
    )
    found = formats(fromstring(styles), False)
    assert found["0"](1.5) == found["1"](1.5) == found[""](1.5) == "1.5"
