import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.office.docx import PLUGIN, DocxOptions
from ingestor.ports import BadDocument
from tests.parsers.files import docx, paragraph, zipped
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(DocxOptions())
STYLES = """
<w:docDefaults><w:rPrDefault><w:rPr><w:lang w:val="de-CH"/></w:rPr></w:rPrDefault></w:docDefaults>
<w:style w:type="paragraph" w:default="1" w:styleId="N"><w:name w:val="Normal"/></w:style>
<w:style w:styleId="T"><w:name w:val="Title"/></w:style>
<w:style w:styleId="H1"><w:name w:val="heading 1"/>
  <w:pPr><w:numPr><w:numId w:val="9"/></w:numPr></w:pPr></w:style>
<w:style w:styleId="H2"><w:name w:val="Mine"/><w:basedOn w:val="H1"/><w:pPr>
  <w:outlineLvl w:val="1"/><w:numPr><w:ilvl w:val="1"/><w:numId w:val="9"/></w:numPr></w:pPr></w:style>
<w:style w:styleId="C"><w:name w:val="Source Code"/></w:style>
<w:style w:styleId="Q"><w:name w:val="Intense Quote"/></w:style>
<w:style w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>
"""
NUMBERING = """
<w:abstractNum w:abstractNumId="1">
  <w:lvl w:ilvl="0"><w:start w:val="2"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>
  <w:lvl w:ilvl="1"><w:numFmt w:val="lowerRoman"/><w:lvlText w:val="%1.%2"/></w:lvl></w:abstractNum>
<w:abstractNum w:abstractNumId="2">
  <w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="x"/></w:lvl></w:abstractNum>
<w:num w:numId="9"><w:abstractNumId w:val="1"/></w:num>
<w:num w:numId="5"><w:abstractNumId w:val="2"/></w:num>
<w:num w:numId="6"><w:abstractNumId w:val="1"/>
  <w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>
"""


def parse(body: str, **parts: str) -> Document:
    document = obeys_laws(PARSER, Blob(docx(body, {"l": "https://example.org/x"}, **parts), "a.docx"))
    assert document is not None
    return document


def found(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, text) for block, text in zip(document.blocks, texts(document), strict=True)]


def listed(id_: int, level: int = 0) -> str:
    return f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{id_}"/></w:numPr>'


def cells(*rows: list[str]) -> str:
    lines = "".join(f"<w:tr>{''.join(row)}</w:tr>" for row in rows)
    return f"<w:tbl>{lines}</w:tbl>"


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def test_headings_have_levels_and_the_numbers_that_word_shows() -> None:
    body = (
        paragraph("My Title", "T") + paragraph("One", "H1") + paragraph("Sub", "H2") + paragraph("Sub", "H2")
    )
    body += (
        paragraph("Two", "H1")
        + paragraph("Sub", "H2")
        + paragraph("Bare", "H2", '<w:numPr><w:numId w:val="0"/></w:numPr>')
    )
    document = parse(body, styles=STYLES, numbering=NUMBERING)
    assert [(b.kind, b.level, b.title, b.number) for b in document.blocks] == [
        ("heading", 1, "My Title", None),
        ("heading", 1, "2. One", "2"),
        ("heading", 2, "2.i Sub", "2.i"),
        ("heading", 2, "2.ii Sub", "2.ii"),
        ("heading", 1, "3. Two", "3"),
        ("heading", 2, "3.i Sub", "3.i"),
        ("heading", 2, "Bare", None),
    ]
    assert (document.title, document.language) == ("A study", "de-CH")
    assert document.extra == (("author", "Ada"), ("created", "2024-01-02T03:04:05Z"))


def test_lists_code_quotes_and_paragraphs() -> None:
    body = paragraph("text") + paragraph("a", "", listed(5)) + paragraph("b", "", listed(5, 1))
    body += paragraph("first", "", listed(6)) + paragraph("second", "", listed(6)) + paragraph(" ")
    body += (
        paragraph("if x:", "C")
        + paragraph("", "C")
        + paragraph("    y", "C")
        + paragraph("said", "Q")
        + paragraph("odd", "Loop")
    )
    assert found(parse(body, styles=STYLES, numbering=NUMBERING)) == [
        ("paragraph", "text"),
        ("list", "- a\n  - b\n1. first\n2. second"),
        ("code", "if x:\n\n    y"),
        ("quote", "said"),
        ("paragraph", "odd"),
    ]


def math(body: str) -> str:
    """Short tags: <f/> is m:f; what is not a tag is a run of text."""
    tags = re.sub(r"<(/?)", r"<\1m:", re.sub(r">([^<]+)<", r"><r><t>\1</t></r><", body))
    names = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    return f"<w:p><m:oMath {names}>{tags}</m:oMath></w:p>"


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ("<e>y=</e><f><num>1</num><den>a+b</den></f>", "y=1/(a+b)"),
        ("<sSup><e>x</e><sup>2</sup></sSup><sSup><e>e</e><sup>i+1</sup></sSup>", "x²e^(i+1)"),
        (
            "<sSubSup><e>x</e><sub>ij</sub><sup>n</sup></sSubSup><sSub><e>y</e><sub>0</sub></sSub>",
            "x_ij^ny_0",
        ),
        ("<rad><deg/><e>2x</e></rad><rad><deg>3</deg><e>8</e></rad>", "√(2x)³√(8)"),
        ('<nary><naryPr><chr m:val="∑"/></naryPr><sub>i=1</sub><sup>n</sup><e>i</e></nary>', "∑_(i=1)^n i"),
        ('<d><dPr><begChr m:val="["/><endChr m:val="]"/></dPr><e>a</e><e>b</e></d>', "[a|b]"),
        ("<d><e><m><mr><e>1</e><e>0</e></mr><mr><e>0</e><e>1</e></mr></m></e></d>", "(1, 0; 0, 1)"),
        ("<func><fName><limLow><e>lim</e><lim>x→0</lim></limLow></fName><e>f</e></func>", "lim_(x→0) f"),
        ("<acc><accPr/><e>a</e></acc><eqArr><e>p</e><e>q</e></eqArr>", "ap; q"),
    ],
)
def test_formulas_keep_what_their_places_mean(formula: str, shown: str) -> None:
    assert found(parse(math(formula))) == [("paragraph", shown)]


def test_a_raised_number_is_no_part_of_the_number_before_it() -> None:
    up = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
    body = f"<w:p><w:r><w:t>10</w:t></w:r><w:r>{up}<w:t>-6</w:t></w:r><w:r><w:t> 1</w:t></w:r>"
    body += f"<w:r>{up}<w:t>st</w:t></w:r></w:p>"
    assert found(parse(body)) == [("paragraph", "10⁻⁶ 1st")]


def test_tables_are_markdown_with_merged_cells_left_empty() -> None:
    wide, down = '<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>'
    body = cells(
        [cell("a|b"), cell("wide", wide)],
        [cell("1", down), cell("two\nlines"), cell("")],
        [cell("1", "<w:vMerge/>"), cell("3"), cell("4")],
    )
    assert found(parse(body)) == [
        ("table", "| a\\|b | wide |  |\n| --- | --- | --- |\n| 1 | two lines |  |\n|  | 3 | 4 |")
    ]


def test_a_table_of_one_cell_is_a_frame() -> None:
    assert found(parse(cells([cell("note")]))) == [("paragraph", "note")]


def test_running_text() -> None:
    body = """
    <w:p><w:r><w:t>A</w:t><w:tab/><w:t>B</w:t><w:noBreakHyphen/><w:t>C</w:t><w:br/><w:t>D</w:t></w:r>
      <w:del><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r></w:del><w:ins><w:r><w:t>!</w:t></w:r></w:ins></w:p>
    <w:p><w:hyperlink r:id="l"><w:r><w:t>here</w:t></w:r></w:hyperlink><w:r><w:t>, </w:t></w:r>
      <w:hyperlink r:id="l"><w:r><w:t>example.org</w:t></w:r></w:hyperlink></w:p>
    <w:sdt><w:sdtContent><w:p><w:r><w:t>controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>
    <w:p><w:r><w:t>around</w:t></w:r><w:r><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent></w:r></w:p>
    """
    assert found(parse(body)) == [
        ("paragraph", "A\tB-C\nD!"),
        ("paragraph", "[here](https://example.org/x), example.org"),
        ("paragraph", "controlled"),
        ("paragraph", "around"),
        ("paragraph", "boxed"),
    ]


def test_a_large_first_letter_belongs_to_its_word() -> None:
    letter = '<w:framePr w:dropCap="drop" w:lines="3" w:wrap="around"/>'
    word = paragraph("nce upon a time there was a king in a far land")
    document = parse(f"{paragraph('O', '', letter)}{word}{paragraph('A', '', letter)}")
    assert texts(document) == ["Once upon a time there was a king in a far land", "A"]


def test_a_footnote_follows_what_cites_it() -> None:
    cite = '<w:p><w:r><w:t>said</w:t><w:footnoteReference w:id="{}"/><w:t>.</w:t></w:r></w:p>'
    notes = f'<w:footnote w:id="2">{paragraph("the note")}</w:footnote>'
    document = parse(cite.format(2) + cite.format(3) + paragraph("next"), footnotes=notes)
    assert found(document) == [
        ("paragraph", "said[^1]."),
        ("footnote", "[^1]: the note"),
        ("paragraph", "said."),
        ("paragraph", "next"),
    ]


def test_pages_are_those_of_the_first_character() -> None:
    turn = "<w:lastRenderedPageBreak/>"
    body = paragraph("one") + f"<w:p><w:r>{turn}<w:t>two</w:t>{turn}<w:t>goes on</w:t></w:r></w:p>"
    body += (
        "<w:p><w:r><w:t>three</w:t></w:r></w:p>"
        + cells([cell("a"), cell("b")])
        + paragraph("a", "", listed(5))
    )
    body += f"<w:p><w:pPr>{listed(5)}</w:pPr><w:r>{turn}<w:t>b</w:t></w:r></w:p>"
    pages = [(b.page, b.page_label) for b in parse(body, numbering=NUMBERING).blocks]
    assert pages == [(0, "1"), (1, "2"), (2, "3"), (2, "3"), (2, "3"), (3, "4")]
    assert {block.page for block in parse(paragraph("no pages")).blocks} == {None}


def test_what_is_no_sound_docx_is_refused_in_words() -> None:
    with pytest.raises(BadDocument, match=r"its part word/document.xml is missing"):
        PARSER.parse(Blob(zipped({"[Content_Types].xml": "<Types/>"}), "a.docx"))
    deep = "<w:sdt>" * 5000
    for body, reason in [("<w:p>", "damaged"), (deep, "nested too deeply|damaged")]:
        with pytest.raises(BadDocument, match=reason):
            PARSER.parse(Blob(docx(body), "a.docx"))


NAMES = ["p", "r", "t", "tbl", "tr", "tc", "pPr", "numPr", "hyperlink", "sdt", "txbxContent", "br"]


def element(name: str, inner: list[str]) -> str:
    return f"<w:{name}>{''.join(inner)}</w:{name}>"


trees = st.recursive(
    st.text("ab |\n#", max_size=5),
    lambda inner: st.builds(element, st.sampled_from(NAMES), st.lists(inner, max_size=4)),
    max_leaves=20,
)


@settings(max_examples=150)
@given(trees)
def test_laws_hold_for_any_tree(tree: str) -> None:
    obeys_laws(PARSER, Blob(docx(f"<w:p>{tree}</w:p>{tree}"), "a.docx"), sound=False)


@pytest.mark.parametrize("digits", ["9" * 5000, "²", "-1"])
def test_absurd_numbers_are_no_defect(digits: str) -> None:
    levels = (
        f'<w:numPr><w:ilvl w:val="{digits}"/><w:numId w:val="1"/></w:numPr><w:outlineLvl w:val="{digits}"/>'
    )
    data = docx(f"<w:p><w:pPr>{levels}</w:pPr><w:r><w:t>text</w:t></w:r></w:p>")
    assert PARSER.parse(Blob(data, "a.docx")).text.endswith("text")
