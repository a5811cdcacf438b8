import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.odf.parser import PLUGIN, OdfOptions
from ingestor.ports import BadDocument
from tests.parsers.files import ODF, odf, zipped
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(OdfOptions())
STYLES = """
<style:style style:name="P1" style:parent-style-name="Preformatted_20_Text"/>
<style:style style:name="P2" style:parent-style-name="P2"/>
<text:list-style style:name="L1"><text:list-level-style-number style:num-suffix="." style:num-format="a"/>
  <text:list-level-style-bullet/></text:list-style>
"""
NOTE = (
    "<text:note><text:note-citation>1</text:note-citation>"
    "<text:note-body><text:p>the note</text:p></text:note-body></text:note>"
)


def parse(kind: str, body: str, styles: str = STYLES) -> Document:
    document = obeys_laws(PARSER, Blob(odf(kind, body, styles), "a.odt"))
    assert document is not None
    return document


def found(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, text) for block, text in zip(document.blocks, texts(document), strict=True)]


def test_a_text() -> None:
    document = parse("text", f"""
    <text:tracked-changes><text:p>gone</text:p></text:tracked-changes>
    <text:p text:style-name="Title">My Title</text:p>
    <text:h text:outline-level="2"><text:number>1.1.</text:number>Head</text:h>
    <text:section><text:p>A<text:s text:c="2"/>B<text:tab/>C<text:line-break/>D <text:a xlink:href="http://x.org/y">link</text:a>
      and <text:span>tail</text:span>{NOTE}.</text:p></text:section>
    <text:list text:style-name="L1"><text:list-item><text:p>one</text:p><text:p>more</text:p>
      <text:list><text:list-item><text:p>deep</text:p></text:list-item></text:list></text:list-item>
      <text:list-item><text:p>two</text:p></text:list-item></text:list>
    <text:p text:style-name="P1">x = 1</text:p><text:p text:style-name="P1"/>
    <text:p text:style-name="P1">y = 2</text:p>
    <text:p text:style-name="P2">loop<office:annotation><text:p>gone</text:p></office:annotation></text:p>
    <text:p text:style-name="Quotations">said</text:p>
    <text:p>around<draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame></text:p>
    """)  # fmt: skip
    assert found(document) == [
        ("heading", "My Title"),
        ("heading", "1.1. Head"),
        ("paragraph", "A  B\tC\nD [link](http://x.org/y)\n      and tail[^1]."),
        ("footnote", "[^1]: the note"),
        ("list", "a. one\n  more\n  - deep\nb. two"),
        ("code", "x = 1\n\ny = 2"),
        ("paragraph", "loop"),
        ("quote", "said"),
        ("paragraph", "around"),
        ("paragraph", "boxed"),
    ]
    heading = document.blocks[1]
    assert (heading.level, heading.number, heading.title) == (2, "1.1", "1.1. Head")
    assert (document.title, document.language, document.extra) == ("A study", "en-GB", (("author", "Ada"),))


OUTLINE = """<text:outline-style style:name="Outline">
<text:outline-level-style text:level="1" style:num-format="1" style:num-suffix="."/>
<text:outline-level-style text:level="2" style:num-format="a" text:display-levels="2" style:num-prefix="("
  style:num-suffix=")"/><text:outline-level-style text:level="3" style:num-format=""/></text:outline-style>
<style:style style:name="Plain" style:list-style-name=""/>
<style:style style:name="P7" style:parent-style-name="Plain"/>"""


def test_numbers_of_headings_are_counted_where_they_do_not_stand_in_the_file() -> None:
    heads = [(1, ""), (2, ""), (1, "P7"), (1, ""), (2, ""), (2, ""), (3, "")]
    body = "".join(
        f'<text:h text:outline-level="{level}" text:style-name="{style}">Head</text:h>'
        for level, style in heads
    )
    styles = (
        f"<office:document-styles {ODF}><office:styles>{OUTLINE}</office:styles></office:document-styles>"
    )
    document = obeys_laws(PARSER, Blob(odf("text", body, **{"styles.xml": styles}), "a.odt"))
    assert document is not None
    assert texts(document) == [
        "1. Head", "(1.a) Head", "Head", "2. Head", "(2.a) Head", "(2.b) Head", "Head",
    ]  # fmt: skip
    assert [block.number for block in document.blocks] == ["1", "1.a", None, "2", "2.a", "2.b", None]


def test_a_heading_in_a_numbered_list_has_the_number_of_the_list() -> None:
    def listed(level: int, text: str) -> str:
        head = f'<text:list-item><text:h text:outline-level="{level}">{text}</text:h></text:list-item>'
        deeper = f"<text:list-item><text:list>{head}</text:list></text:list-item>"
        inner = head if level == 1 else deeper
        return f'<text:list text:style-name="N" text:continue-numbering="true">{inner}</text:list>'

    styles = """<text:list-style style:name="N"><text:list-level-style-number text:level="1"
      style:num-format="1" style:num-suffix="."/><text:list-level-style-number text:level="2"
      style:num-format="a" style:num-suffix=")" text:display-levels="2"/></text:list-style>"""
    part = f"<office:document-styles {ODF}><office:styles>{styles}</office:styles></office:document-styles>"
    body = "".join(listed(*one) for one in [(1, "Mill"), (2, "Wheel"), (2, "Stones"), (1, "Harbour")])
    document = obeys_laws(PARSER, Blob(odf("text", body, **{"styles.xml": part}), "a.odt"))
    assert document is not None
    assert texts(document) == ["1. Mill", "1.a) Wheel", "1.b) Stones", "2. Harbour"]
    assert [block.number for block in document.blocks] == ["1", "1.a", "1.b", "2"]


COUNTED = """<text:list-style style:name="C"><text:list-level-style-number text:level="1" style:num-format="1"
  style:num-prefix="(" style:num-suffix=")" text:start-value="4"/></text:list-style>"""


def test_lists_begin_where_they_say_and_go_on_where_they_say() -> None:
    item = "<text:list-item{}><text:p>x</text:p></text:list-item>"
    plain, ninth = item.format(""), item.format(' text:start-value="9"')
    lists = [
        f'<text:list xml:id="one" text:style-name="C">{plain * 2}</text:list>',
        f'<text:list text:style-name="C" text:continue-numbering="true">{plain}</text:list>',
        f'<text:list text:style-name="C">{plain}</text:list>',
        f'<text:list text:style-name="C" text:continue-list="one">{plain}</text:list>',
        f'<text:list text:style-name="C">{ninth}{plain}</text:list>',
    ]
    document = parse("text", "<text:p>and</text:p>".join(lists), COUNTED)
    assert [text for kind, text in found(document) if kind == "list"] == [
        "(4) x\n(5) x", "(6) x", "(4) x", "(7) x", "(9) x\n(10) x",
    ]  # fmt: skip


def test_pages_where_they_are_noted() -> None:
    turn = "<text:soft-page-break/>"
    body = f"<text:p>one</text:p>{turn}<text:p>two{turn} on</text:p><text:p>{turn}four</text:p>"
    assert [block.page for block in parse("text", body).blocks] == [0, 1, 3]
    assert [block.page for block in parse("text", "<text:p>one</text:p>").blocks] == [None]


CELLS = """<table:table table:name="Sums">
<table:table-header-rows><table:table-row><table:table-cell><text:p>name</text:p></table:table-cell>
  <table:table-cell table:number-columns-repeated="2"/><table:table-cell><text:p>n</text:p></table:table-cell>
  <table:table-cell table:number-columns-repeated="16000"/></table:table-row></table:table-header-rows>
<table:table-row table:number-rows-repeated="2">
  <table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell>
  </table:table-row>
<table:table-row table:number-rows-repeated="1000000"/>
<table:table-row><table:table-cell><text:p>after</text:p></table:table-cell></table:table-row>
</table:table>"""
ROWS = "| name |  | n |\n| --- | --- | --- |\n| x | x |  |\n| x | x |  |"


def test_tables_and_sheets_and_what_repeats_in_them() -> None:
    assert found(parse("text", CELLS)) == [("table", f"{ROWS}\n| after |  |  |")]
    document = parse("spreadsheet", CELLS)
    assert found(document) == [("heading", "Sums"), ("table", ROWS), ("paragraph", "after")]
    assert {(block.page, block.page_label) for block in document.blocks} == {(0, "Sums")}


def test_shapes_on_a_sheet() -> None:
    """Beside the cells, in one of them, and in a group."""
    said = "<draw:{0}><text:p>{1}</text:p></draw:{0}>"
    shapes = f"<table:shapes>{said.format('caption', 'one')}</table:shapes>"
    cell = f"<table:table-cell><text:p>x</text:p>{said.format('custom-shape', 'two')}</table:table-cell>"
    group = f"<table:table-cell><draw:g>{said.format('rect', 'three')}</draw:g></table:table-cell>"
    framed = (
        f"<table:table-cell><draw:frame>{said.format('text-box', 'four')}</draw:frame></table:table-cell>"
    )
    row = f"<table:table-row>{cell}{group}{framed}</table:table-row>"
    document = parse("spreadsheet", f'<table:table table:name="A">{shapes}{row}</table:table>')
    assert texts(document) == ["A", "x", "one", "two", "three", "four"]


def test_shapes_in_a_paragraph_stand_beside_its_words() -> None:
    shape = "<draw:custom-shape><text:p>{}</text:p></draw:custom-shape>"
    group = f"<draw:g>{shape.format('No')}{shape.format('Yes')}</draw:g>"
    document = parse("text", f"<text:p>Question{group}</text:p><text:p>End</text:p>")
    assert texts(document) == ["Question", "No", "Yes", "End"]


def test_a_chart_whose_frame_holds_an_empty_paragraph() -> None:
    """As LibreOffice 7 writes it in sheets and slides."""
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    rows = f"<table:table-row>{cell.format('a')}{cell.format('7')}</table:table-row>"
    part = (
        f'<office:document-content {ODF} xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0">'
        f"<office:body><office:chart><chart:chart><table:table>{rows}</table:table></chart:chart>"
        "</office:chart></office:body></office:document-content>"
    )
    named = '<draw:object xlink:href="./Object 1"><draw:p/></draw:object>'
    body = f"<draw:page><draw:frame>{named}</draw:frame></draw:page>"
    data = odf("presentation", body, **{"Object 1/content.xml": part})
    document = obeys_laws(PARSER, Blob(data, "a.odp"))
    assert document is not None
    assert document.text == "| a | 7 |\n| --- | --- |"


def test_words_of_a_hidden_sheet_are_counted_one_by_one() -> None:
    styles = '<style:style style:name="H"><style:table-properties table:display="false"/></style:style>'
    cells = "<table:table-cell><text:p>word</text:p></table:table-cell>" * 50
    sheet = '<table:table table:style-name="{}"><table:table-row>{}</table:table-row></table:table>'
    document = parse(
        "spreadsheet", sheet.format("H", cells) + sheet.format("S", cells[: len(cells) // 50]), styles
    )
    assert document.left_out == (("hidden sheets", 50),)


def test_slides() -> None:
    frame = (
        '<draw:frame presentation:class="{}"><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>'
    )
    slide = "<draw:page>{}</draw:page>"
    notes = f"<presentation:notes>{frame.format('notes', 'say this')}</presentation:notes>"
    body = slide.format(frame.format("outline", "text") + frame.format("title", "First") + notes)
    document = parse("presentation", body + slide.format(frame.format("subtitle", "more")))
    assert found(document) == [
        ("heading", "First"), ("paragraph", "text"), ("notes", "say this"), ("paragraph", "more"),
    ]  # fmt: skip
    assert [block.page for block in document.blocks] == [0, 0, 0, 1]


def test_an_encrypted_one_is_told() -> None:
    parts = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": b"\x8f\x01garbage",
             "META-INF/manifest.xml": "<m><manifest:encryption-data/></m>"}  # fmt: skip
    with pytest.raises(BadDocument, match="is encrypted; save it without a password"):
        PARSER.parse(Blob(zipped(parts), "a.odt"))
