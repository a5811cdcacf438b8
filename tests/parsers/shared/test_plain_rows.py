"""Rows that are read by patterns are those that the XML parser reads."""

import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.odf import sheets as odf_sheets
from ingestor.parsers.odf.parser import OdfOptions, OdfParser
from ingestor.parsers.office import xlsx as xlsx_module
from ingestor.parsers.office.xlsx import XlsxOptions, XlsxParser
from ingestor.parsers.shared import plain_rows
from ingestor.parsers.shared.plain_rows import PlainRows, pieces
from ingestor.ports import BadDocument
from tests.parsers.files import odf, xlsx

Read = Callable[[str], Document | str]

XLSX_CELLS = (
    *('<c r="A{}"><v>12</v></c>', '<c r="B{}" s="0"><v>0.1</v></c>', '<c r="C{}" t="s"><v>1</v></c>'),
    *('<c r="D{}" s="1" t="n"><v>45000</v></c>', '<c r="E{}" s="1"/>', '<c r="F{}" t="b"><v>1</v></c>'),
    *('<c r="G{}" t="str"><f>A1&amp;"x"</f><v>a &lt;b&gt; |</v></c>', '<c r="H{}" t="s"><v>2</v></c>'),
    *('<c r="I{}"><f t="shared" ref="A1:A9" si="0">B1+1</f><v>-7</v></c>', '<c r="J{}"><v>1e3</v></c>'),
    *('<c r="K{}"><f t="shared" si="0"/><v/></c>', '<c r="L{}" t="e"><v>#N/A</v></c>', '<c r="M{}"></c>'),
    *('<c t="n" r="N{}"><v>5</v></c>', '<c r="O{}" t="inlineStr"><is><t>in<!-- no --></t></is></c>'),
    *('<c r="P{}"><v>1<!-- 2 --></v></c>', '<c r="Q{}" t="str"><v><![CDATA[<c r="Q1"/>]]></v></c>'),
    *('<c r="R{}" t="str"><v>&#65;\n b</v></c>', '<c r="S{}" t="d"><v>2024-01-01T00:00:00</v></c>'),
    *('<c r="T{}" t="str"><v> </v></c>', "<c><v>8</v></c>", '<x:c xmlns:x="urn:x" r="U{}"><v>9</v></x:c>'),
    '<c r="X{}" t="str"><v><![CDATA[</row><row r="2"><c r="A2"><v>2</v></c></row>]]></v></c>',
    *('<c r="V{}" t="s"><v>7</v></c>', '<c r="W{}"><v>nan</v></c>', "\n  "),
)
XLSX_ROWS = (
    *('<row r="{}">{}</row>', '<row r="{}" spans="1:9" ht="15.5">{}</row>', "<row>{1}</row>"),
    *('<row r="{}"/>', '\n<row r="{}" xml:space="preserve">{}</row>', '<!-- <row r="{}">{}</row> -->'),
)
ODS_CELLS = (
    *(
        "<table:table-cell/>",
        '<table:table-cell table:number-columns-repeated="3"/>',
        "<table:covered-table-cell/>",
    ),
    "<table:table-cell><text:p>one  two</text:p></table:table-cell>",
    '<table:table-cell office:value-type="string"><text:p>a &amp; b|c</text:p></table:table-cell>',
    '<table:table-cell table:number-columns-repeated="2" office:a="3"><text:p>3</text:p></table:table-cell>',
    "<table:table-cell><text:p>one</text:p><text:p>two</text:p></table:table-cell>",
    "<table:table-cell><text:p>with <text:span>style</text:span></text:p></table:table-cell>",
    '<table:table-cell table:formula="of:=A1&gt;2"><text:p><!-- x -->3</text:p></table:table-cell>',
    '<table:table-cell table:formula="a/>b"><text:p>after</text:p></table:table-cell>',
    '<table:table-cell xmlns:text="urn:x"><text:p>no paragraph</text:p></table:table-cell>',
    "<table:table-cell><text:p> </text:p></table:table-cell>",
    "<table:table-cell><text:p><![CDATA[</table:table-row>]]></text:p></table:table-cell>",
    "<table:table-cell><office:annotation><text:p>said</text:p></office:annotation></table:table-cell>",
)
ODS_ROWS = (
    *("<table:table-row>{}</table:table-row>", '<table:table-row table:style-name="a">{}</table:table-row>'),
    '<table:table-row table:number-rows-repeated="2">{}</table:table-row>\n',
    *('<table:table-row table:number-rows-repeated="3"/>', "<!-- <table:table-row>{}</table:table-row> -->"),
    "<table:table-row-group><table:table-row>{}</table:table-row></table:table-row-group>",
)


def read_xlsx(rows: str) -> Document | str:
    return _read(XlsxParser(XlsxOptions()), xlsx({"S": rows}, ["a", "b &amp; c", "-"], ["0.0", "yyyy-mm-dd"]))


def read_ods(rows: str) -> Document | str:
    sheet = f'<table:table table:name="S">{rows}</table:table>'
    return _read(OdfParser(OdfOptions()), odf("spreadsheet", sheet))


def _read(parser: XlsxParser | OdfParser, data: bytes) -> Document | str:
    try:
        return parser.parse(Blob(data, "a"))
    except BadDocument as bad:
        return str(bad).partition(":")[0]


def sheets(rows: tuple[str, ...], cells: tuple[str, ...]) -> st.SearchStrategy[str]:
    row = st.tuples(st.sampled_from(rows), st.lists(st.sampled_from(cells), max_size=6))
    return st.lists(row, max_size=6).map(_numbered)


def _numbered(rows: list[tuple[str, list[str]]]) -> str:
    filled = ((row, at, "".join(cells).replace("{}", str(at))) for at, (row, cells) in enumerate(rows, 1))
    return "".join(
        row.format(at, cells) if "r=" in row or "{1}" in row else row.format(cells)
        for row, at, cells in filled
    )


def unfolded(read: Read, rows: str) -> Document | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainRows, "fold", lambda self, data: pieces(data))
        return read(rows)


@given(sheets(XLSX_ROWS, XLSX_CELLS))
def test_rows_of_xlsx_are_those_that_the_xml_parser_reads(rows: str) -> None:
    assert read_xlsx(rows) == unfolded(read_xlsx, rows)


@given(sheets(ODS_ROWS, ODS_CELLS))
def test_rows_of_ods_are_those_that_the_xml_parser_reads(rows: str) -> None:
    assert read_ods(rows) == unfolded(read_ods, rows)


@pytest.mark.parametrize(
    ("read", "rows"),
    [
        (read_xlsx, '<row r="1"><c r="A1"><v>1</v></c><c r="B1" t="s"><v>0</v></c></row>' * 3),
        (
            read_ods,
            "<table:table-row><table:table-cell><text:p>1</text:p></table:table-cell></table:table-row>" * 3,
        ),
    ],
)
def test_plain_rows_do_not_reach_the_xml_parser(
    read: Read, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded: list[bytes] = []
    fold = PlainRows.fold

    def noted(self: PlainRows[object], data: bytes) -> Iterator[bytes]:
        folded.append(b"".join(fold(self, data)))
        yield folded[-1]

    monkeypatch.setattr(PlainRows, "fold", noted)
    assert isinstance(read(rows), Document)
    assert folded
    assert all(part.count(plain_rows.MARK.encode()) == 1 for part in folded)
    assert not any(b"<v>" in part or b"<text:p>" in part for part in folded)


IN_CDATA = (
    '<row r="1"><c r="A1" t="str"><v><![CDATA[</row><row r="2"><c r="A2"><v>2</v></c></row>]]></v></c></row>'
)
BLIND = re.compile(r'<c r="([A-Z]+)\d+"()()><v>(\d+)</v></c>')


@pytest.mark.parametrize(
    ("place", "name", "broken", "rows"),
    [
        (plain_rows, "_ENDS", (), IN_CDATA),
        (xlsx_module, "_PLAIN_CELL", BLIND, '<row r="1"><c r="A1" s="0"><v>0.1</v></c></row>'),
        (
            odf_sheets,
            "_marked",
            lambda name, attributes: 1,
            f"<table:table-row>{ODS_CELLS[5]}</table:table-row>",
        ),
    ],
)
def test_readers_of_plain_rows_that_are_wrong_are_found_out(
    place: object, name: str, broken: object, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_ods if "table:" in rows else read_xlsx
    assert read(rows) == unfolded(read, rows)
    monkeypatch.setattr(place, name, broken)
    assert read(rows) != unfolded(read, rows)
