"""Flat OpenDocument is read as itself."""

from ingestor.core.completeness import shortfall
from ingestor.model import Blob, Document
from ingestor.parsers.shared.detect import parser_of
from ingestor.registry import find
from tests.parsers.files import ODF
from tests.parsers.laws import obeys_laws, texts


def parse(source: str, name: str = "file", kind: str | None = None) -> Document:
    blob = Blob(source.encode(), name)
    plugin = find("parsers", parser_of(blob))
    assert kind is None or plugin.kind == kind
    document = obeys_laws(plugin.build(plugin.options()), blob)
    assert document is not None
    return document


def blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, text) for block, text in zip(document.blocks, texts(document), strict=True)]


FLAT = (
    f'<?xml version="1.0"?><office:document {ODF} office:mimetype="application/vnd.oasis.opendocument.{{}}">'
    "<office:meta><dc:title>A study</dc:title></office:meta><office:styles><style:style style:name='Q' "
    "style:parent-style-name='Quotations'/></office:styles><office:body><office:{}>{}</office:{}></office:body></office:document>"
)


def test_flat_odf() -> None:
    body = (
        "<text:h>Head</text:h><text:p text:style-name='Q'>Quoted</text:p><text:p><draw:frame><draw:image>"
        "<office:binary-data>aGVsbG8gd29ybGQ=</office:binary-data></draw:image></draw:frame></text:p>"
    )
    document = parse(FLAT.format("text", "text", body, "text"), "a.fodt", "odf")
    assert blocks(document) == [("heading", "Head"), ("quote", "Quoted")]
    assert (document.title, document.raw_words) == ("A study", 2)
    cells = (
        "<table:table table:name='S'><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
    )
    sheet = FLAT.format(
        "spreadsheet", "spreadsheet", f"{cells}</table:table-row></table:table>", "spreadsheet"
    )
    assert blocks(parse(sheet, "a.xml", "odf")) == [("heading", "S"), ("paragraph", "a")]


def test_a_chart_in_flat_odf_does_not_make_it_incomplete() -> None:
    """Its numbers' places and its maker are words of the file that nobody reads."""
    place = (
        "<draw:g><svg:desc>Sheet.B1:Sheet.B20 of the sheet that stands before this one</svg:desc></draw:g>"
    )
    cell = f"<table:table-cell><text:p>7</text:p>{place * 3}</table:table-cell>"
    chart = (
        f"<draw:frame {CHART}><draw:object><office:document><office:meta><meta:generator>An Office"
        " of a company</meta:generator></office:meta><office:body><office:chart><chart:chart>"
        f"<table:table><table:table-row>{cell}{cell}</table:table-row></table:table>"
        "</chart:chart></office:chart></office:body></office:document></draw:object></draw:frame>"
    )
    document = parse(FLAT.format("text", "text", f"<text:p>Words.</text:p>{chart}", "text"), "a.fodt", "odf")
    assert "| 7 | 7 |" in document.text
    assert shortfall(document) is None


CHART = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in (("chart", "chart"), ("svg", "svg-compatible"))
)
