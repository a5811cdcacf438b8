"""What office documents hold beside running text: pictures, charts, diagrams, formulas, symbols, comments."""

# ruff: noqa: E501 - markup reads better in one line

from collections.abc import Mapping

import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.shared.detect import parser_of
from ingestor.registry import find
from tests.parsers.files import A, P, R, docx, odf, paragraph, pptx, relations, xlsx, zipped

PNG = "http://schemas.openxmlformats.org/drawingml/2006/picture"
C = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
D = 'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'


def read(data: bytes, **options: object) -> Document:
    blob = Blob(data, "file")
    plugin = find("parsers", parser_of(blob))
    document: Document = plugin.build(plugin.options(**options)).parse(blob)
    return document


def blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def word(body: str, targets: list[tuple[str, str, str]], parts: Mapping[str, str], **more: str) -> bytes:
    """A DOCX whose document refers to other parts."""
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(docx(body, **more))) as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    named = [(f"x{name}", name, f"{name}.xml") for name in more]
    return zipped({**found, "word/_rels/document.xml.rels": relations(*targets, *named), **parts})


def drawn(inside: str, description: str = "") -> str:
    frame = f'<wp:docPr xmlns:wp="w" id="1" name="Picture 1" descr="{description}"/>'
    return f"<w:p><w:r><w:drawing>{frame}<a:graphic {A}>{inside}</a:graphic></w:drawing></w:r></w:p>"


PICTURE = '<a:blip r:embed="pic"/>'
VML = """<w:p><w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml" alt="{}"><v:imagedata r:id="pic"
xmlns:o="urn:schemas-microsoft-com:office:office" o:title="{}"/></v:shape></w:pict></w:r></w:p>"""
MEDIA = [("pic", "image", "media/image1.png")]
CAPTION = '<w:style w:styleId="C" w:type="paragraph"><w:name w:val="caption"/></w:style>'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (drawn(PICTURE, "A lighthouse at night"), [("figure", "A lighthouse at night")]),
        (drawn(PICTURE, "image1.png"), []),
        (VML.format("A buoy", "buoy"), [("figure", "A buoy")]),
        (VML.format("", "A pier in the fog"), [("figure", "A pier in the fog")]),
        (VML.format("", "") + paragraph("Figure 1: The harbour", "C"), [("figure", "Figure 1: The harbour")]),
        (drawn(PICTURE, "Picture 12"), []),
        (drawn(PICTURE) + paragraph("Figure 1: The harbour", "C"), [("figure", "Figure 1: The harbour")]),
        (
            drawn(PICTURE, "A lighthouse") + paragraph("Figure 1: The harbour", "C"),
            [("figure", "A lighthouse\nFigure 1: The harbour")],
        ),
        (
            drawn(PICTURE, "A lighthouse") + paragraph("Words") + paragraph("Table 1: Ships", "C"),
            [("figure", "A lighthouse"), ("paragraph", "Words"), ("paragraph", "Table 1: Ships")],
        ),
    ],
)
def test_pictures_of_word_with_their_captions(body: str, expected: list[tuple[str, str]]) -> None:
    document = read(word(body, MEDIA, {}, styles=CAPTION))
    assert blocks(document) == expected
    figures = {block.figure for block in document.blocks if block.kind == "figure"}
    assert figures <= {"word/media/image1.png"}


SERIES = (
    "<c:ser><c:tx><c:strRef><c:f>x</c:f><c:strCache><c:pt idx='0'><c:v>{}</c:v></c:pt></c:strCache></c:strRef></c:tx>"
    "<c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>Oslo</c:v></c:pt><c:pt idx='1'><c:v>Bergen</c:v></c:pt>"
    "</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache><c:pt idx='0'><c:v>0.30000000000000004</c:v></c:pt>"
    "<c:pt idx='1'><c:v>{}</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>"
)
CHART = (
    f"<c:chartSpace {C} {A}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Tons by</a:t></a:r><a:r><a:t> port</a:t></a:r></a:p>"
    f"</c:rich></c:tx></c:title><c:plotArea><c:barChart>{SERIES.format('Wheat', 2)}{SERIES.format('Rye', 3)}</c:barChart>"
    "<c:valAx><c:title><c:tx><c:rich><a:p><a:r><a:t>kilotons</a:t></a:r></a:p></c:rich></c:tx></c:title></c:valAx>"
    "</c:plotArea></c:chart></c:chartSpace>"
)
SMART = f"<dgm:dataModel {D} {A}><dgm:ptLst>" + "".join(
    f"<dgm:pt><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>" for text in ("Plan", "Do", "Check")
) + "</dgm:ptLst></dgm:dataModel>"  # fmt: skip
CHARTED = [
    ("figure", "Tons by port\nkilotons"),
    ("table", "|  | Wheat | Rye |\n| --- | --- | --- |\n| Oslo | 0.3 | 0.3 |\n| Bergen | 2 | 3 |"),
]
IN_WORD = f'<a:graphicData><c:chart {C} r:id="ch"/></a:graphicData>'
IN_SMART = f'<a:graphicData><dgm:relIds {D} r:dm="dm"/></a:graphicData>'


def test_charts_and_diagrams_of_word() -> None:
    targets = [("ch", "chart", "charts/chart1.xml"), ("dm", "diagramData", "diagrams/data1.xml")]
    parts = {"word/charts/chart1.xml": CHART, "word/diagrams/data1.xml": SMART}
    document = read(word(drawn(IN_WORD) + drawn(IN_SMART), targets, parts))
    assert blocks(document) == [*CHARTED, ("list", "- Plan\n- Do\n- Check")]


def test_charts_diagrams_pictures_and_comments_of_slides() -> None:
    frames = "".join(
        f"<p:graphicFrame><a:graphic>{part}</a:graphic></p:graphicFrame>" for part in (IN_WORD, IN_SMART)
    )
    picture = f'<p:pic><p:nvPicPr><p:cNvPr id="1" name="x" descr="A crane"/></p:nvPicPr>{PICTURE}</p:pic>'
    comment = f"<p:cmLst {P}><p:cm><p:text>Is this so?</p:text></p:cm></p:cmLst>"
    targets = [
        ("ch", "chart", "../charts/chart1.xml"), ("dm", "diagramData", "../diagrams/data1.xml"),
        ("pic", "image", "../media/a.png"), ("co", "comments", "../comments/c.xml"),
    ]  # fmt: skip
    slide = f"<p:sld {P} {A} {R}><p:cSld><p:spTree>{frames}{picture}</p:spTree></p:cSld></p:sld>"
    entries = '<p:sldIdLst><p:sldId r:id="r0"/></p:sldIdLst>'
    file = zipped(
        {
            "ppt/presentation.xml": f"<p:presentation {P} {R}>{entries}</p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(("r0", "slide", "slides/slide0.xml")),
            "ppt/slides/slide0.xml": slide,
            "ppt/slides/_rels/slide0.xml.rels": relations(*targets),
            "ppt/charts/chart1.xml": CHART,
            "ppt/diagrams/data1.xml": SMART,
            "ppt/comments/c.xml": comment,
        }
    )
    document = read(file)
    assert blocks(document) == [*CHARTED, ("list", "- Plan\n- Do\n- Check"), ("figure", "A crane")]
    assert document.blocks[-1].figure == "ppt/media/a.png"
    assert document.blocks[-1].page == 0
    assert blocks(read(file, comments=True))[-1] == ("comment", "Is this so?")
    assert not blocks(read(pptx("")))


@pytest.mark.parametrize(
    ("font", "char", "expected"),
    [
        ("Symbol", "F06D", "μ"), ("Symbol", "6D", "μ"), ("Wingdings", "F0E0", "→"), ("Symbol", "F0AE", "→"),
        ("Wingdings", "F0FC", "✓"), ("Times New Roman", "2192", "→"), ("Wingdings", "F001", "\ufffd"),
        ("Some font", "F0E0", "\ufffd"), ("Symbol", "zz", ""),
    ],
)  # fmt: skip
def test_symbols_of_word(font: str, char: str, expected: str) -> None:
    run = f'<w:p><w:r><w:t>5 </w:t><w:sym w:font="{font}" w:char="{char}"/><w:t>m</w:t></w:r></w:p>'
    assert read(docx(run)).text == f"5 {expected}m"


def test_private_characters_of_a_symbol_font() -> None:
    fonts = '<w:rPr><w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/></w:rPr>'
    assert (
        read(docx(f"<w:p><w:r>{fonts}<w:t>\uf061\uf0b3x</w:t></w:r><w:r><w:t>\uf061</w:t></w:r></w:p>")).text
        == "α≥x\uf061"
    )


def test_comments_of_word_are_read_where_they_are_asked_for() -> None:
    noted = '<w:p><w:r><w:t>A claim.</w:t><w:commentReference w:id="7"/></w:r></w:p>' + paragraph("More.")
    comment = '<w:comment w:id="7" w:author="Bo"><w:p><w:r><w:t>Says who?</w:t></w:r></w:p></w:comment>'
    file = docx(noted, comments=comment)
    assert read(file).text == "A claim.\n\nMore."
    assert blocks(read(file, comments=True)) == [
        ("paragraph", "A claim."), ("comment", "Bo: Says who?"), ("paragraph", "More."),
    ]  # fmt: skip


def test_headings_in_text_boxes_and_content_controls() -> None:
    heading = paragraph("In a box", "", '<w:outlineLvl w:val="1"/>')
    box = f"<w:p><w:r><w:drawing><wps:txbx xmlns:wps='s'><w:txbxContent>{heading}</w:txbxContent></wps:txbx></w:drawing></w:r></w:p>"
    first = paragraph("In a control", "", '<w:outlineLvl w:val="0"/>')
    control = f"<w:sdt><w:sdtContent>{first}</w:sdtContent></w:sdt>"
    inside = f"<w:tbl><w:tr><w:tc>{control}</w:tc></w:tr></w:tbl>"
    found = read(docx(box + control + inside)).blocks
    assert [(b.kind, b.level, b.title) for b in found] == [
        ("heading", 2, "In a box"), ("heading", 1, "In a control"), ("heading", 1, "In a control"),
    ]  # fmt: skip


# --- OpenDocument ----------------------------------------------------------------------------------------

MATHML = (
    '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mrow><msup><mi>x</mi><mn>2</mn></msup><mo>=</mo>'
    "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac></mrow>"
    '<annotation encoding="StarMath 5.0">x^2 = {a+b} over 2</annotation></semantics></math>'
)
FORMULA = '<draw:frame><draw:object xlink:href="./Object 1"/><draw:image xlink:href="./ObjectReplacements/Object 1"/></draw:frame>'
SVG = 'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"'
IMAGE = f'<draw:frame {SVG}><draw:image xlink:href="Pictures/a.png"/><svg:desc>A lighthouse</svg:desc></draw:frame>'
ODF_CHART = (
    '<x xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><chart:chart><chart:title><text:p>Tons</text:p></chart:title>'
    "<table:table><table:table-header-rows><table:table-row><table:table-cell/><table:table-cell><text:p>Rye</text:p>"
    "</table:table-cell></table:table-row></table:table-header-rows><table:table-rows><table:table-row><table:table-cell>"
    "<text:p>Oslo</text:p></table:table-cell><table:table-cell><text:p>3</text:p></table:table-cell></table:table-row>"
    "</table:table-rows></table:table></chart:chart></x>"
)


def test_formulas_of_odf() -> None:
    body = f"<text:p>As {FORMULA} shows.</text:p>"
    assert read(odf("text", body, **{"Object 1/content.xml": MATHML})).text == "As x²=(a+b)/2 shows."
    slide = f"<draw:page>{FORMULA}</draw:page>"
    assert read(odf("presentation", slide, **{"Object 1/content.xml": MATHML})).text == "x²=(a+b)/2"
    assert read(odf("text", body)).text == "As  shows.", "without the object"


def test_charts_of_odf() -> None:
    expected = [("figure", "Tons"), ("table", "|  | Rye |\n| --- | --- |\n| Oslo | 3 |")]
    document = read(odf("text", f"<text:p>{FORMULA}</text:p>", **{"Object 1/content.xml": ODF_CHART}))
    assert blocks(document) == expected
    sheet = f'<table:table table:name="S"><table:shapes>{FORMULA}</table:shapes></table:table>'
    assert blocks(read(odf("spreadsheet", sheet, **{"Object 1/content.xml": ODF_CHART}))) == expected


def test_pictures_of_odf_with_their_captions() -> None:
    alone = read(odf("text", f"<text:p>{IMAGE}</text:p>"))
    assert blocks(alone) == [("figure", "A lighthouse")]
    assert alone.blocks[0].figure == "Pictures/a.png"
    caption = f'<text:p text:style-name="Illustration">{IMAGE}Figure 1: The harbour</text:p>'
    framed = f"<text:p><draw:frame><draw:text-box>{caption}</draw:text-box></draw:frame></text:p>"
    document = read(odf("text", framed))
    assert blocks(document) == [("figure", "A lighthouse\nFigure 1: The harbour")]
    assert document.blocks[0].figure == "Pictures/a.png"


def test_comments_and_hidden_sheets_of_odf_are_read_where_they_are_asked_for() -> None:
    note = "<office:annotation><dc:creator>Bo</dc:creator><text:p>Says who?</text:p></office:annotation>"
    text = odf("text", f"<text:p>A claim{note}.</text:p>")
    assert read(text).text == "A claim."
    assert blocks(read(text, comments=True)) == [("paragraph", "A claim."), ("comment", "Bo: Says who?")]
    row = (
        f"<table:table-row><table:table-cell>{note}<text:p>cell</text:p></table:table-cell></table:table-row>"
    )
    hidden = '<style:style style:name="h"><style:table-properties table:display="false"/></style:style>'
    sheets = odf(
        "spreadsheet",
        f'<table:table table:name="A">{row}</table:table>'
        f'<table:table table:name="B" table:style-name="h">{row}</table:table>',
        hidden,
    )
    assert blocks(read(sheets)) == [("heading", "A"), ("paragraph", "cell")]
    assert [text for _, text in blocks(read(sheets, hidden_sheets=True))] == ["A", "cell", "B", "cell"]
    assert ("comment", "Bo: Says who?") in blocks(read(sheets, comments=True))


def test_hidden_sheets_and_comments_of_excel_are_read_where_they_are_asked_for() -> None:
    row = '<row><c t="inlineStr"><is><t>cell</t></is></c></row>'
    file = xlsx({"A": row, "hidden": row})
    assert [text for _, text in blocks(read(file))] == ["A", "cell"]
    assert [text for _, text in blocks(read(file, hidden_sheets=True))] == ["A", "cell", "hidden", "cell"]
