import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.office.pptx import PLUGIN, PptxOptions
from ingestor.ports import BadDocument
from tests.parsers.files import pptx, shape, zipped
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(PptxOptions())
TABLE = (
    "<p:graphicFrame><a:tbl>"
    "<a:tr><a:tc><a:p><a:r><a:t>h1</a:t></a:r></a:p></a:tc><a:tc><a:p><a:r><a:t>h2</a:t></a:r></a:p></a:tc></a:tr>"
    "<a:tr><a:tc><a:p><a:r><a:t>1</a:t></a:r></a:p></a:tc><a:tc/></a:tr></a:tbl></p:graphicFrame>"
)
LINKED = '<p:sp><a:p><a:r><a:rPr><a:hlinkClick r:id="l"/></a:rPr><a:t>here</a:t></a:r></a:p></p:sp>'
INDENTED = (
    "<p:sp><p:nvSpPr><p:nvPr><p:ph/></p:nvPr></p:nvSpPr><a:p><a:r><a:t>a</a:t></a:r></a:p>"
    '<a:p><a:pPr lvl="1"/><a:r><a:t>b</a:t></a:r></a:p></p:sp>'
)


def parse(*slides: str, notes: str = "") -> Document:
    document = obeys_laws(PARSER, Blob(pptx(*slides, notes=notes), "a.pptx"))
    assert document is not None
    return document


def test_slides_are_pages_with_their_titles_first() -> None:
    document = parse(
        shape("free text")
        + shape("The title", placeholder="title")
        + shape("7", placeholder="sldNum")
        + TABLE,
        f"<p:grpSp>{INDENTED}</p:grpSp>",
        "",
        shape("Last", placeholder="ctrTitle") + shape("one line", placeholder="body"),
    )
    found = [(b.kind, b.page, b.page_label, t) for b, t in zip(document.blocks, texts(document), strict=True)]
    assert found == [
        ("heading", 0, "1", "The title"),
        ("paragraph", 0, "1", "free text"),
        ("table", 0, "1", "| h1 | h2 |\n| --- | --- |\n| 1 |  |"),
        ("list", 1, "2", "- a\n  - b"),
        ("heading", 3, "4", "Last"),
        ("paragraph", 3, "4", "one line"),
    ]
    assert document.title == "The title"


def test_notes_and_links() -> None:
    document = parse(LINKED, notes=shape("say this", placeholder="body") + shape("1", placeholder="sldNum"))
    assert [b.kind for b in document.blocks] == ["paragraph", "notes"]
    assert texts(document) == ["[here](https://example.org/)", "say this"]


def test_raised_numbers_and_formulas() -> None:
    math = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    half = "<m:f><m:num><m:t>1</m:t></m:num><m:den><m:t>2</m:t></m:den></m:f>"
    runs = (
        '<a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>6</a:t></a:r><a:r><a:t> H</a:t></a:r>'
        '<a:r><a:rPr baseline="-25000"/><a:t>2</a:t></a:r><a:r><a:t>O, x=</a:t></a:r>'
        f'<x><m:oMath xmlns:m="{math}">{half}</m:oMath></x>'
    )
    assert texts(parse(f"<p:sp><a:p>{runs}</a:p></p:sp>")) == ["10⁶ H2O, x=1/2"]


def test_a_missing_slide_is_said() -> None:
    parts = {"ppt/presentation.xml": '<p:x xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main">'
             "<p:sldId/></p:x>"}  # fmt: skip
    with pytest.raises(BadDocument, match="a slide is missing"):
        PARSER.parse(Blob(zipped(parts), "a.pptx"))
