"""Word documents: options, parts in other formats, damage. What else is found is in the golden files."""

# ruff: noqa: E501 - markup reads better in one line

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.office.docx import PLUGIN, DocxOptions
from ingestor.ports import BadDocument
from tests.examples import examples
from tests.parsers.files import W, docx, paragraph, zipped
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(DocxOptions())


def parse(data: bytes, **options: bool) -> Document:
    document = obeys_laws(PLUGIN.build(DocxOptions(**options)), Blob(data, "a.docx"))
    assert document is not None
    return document


def found(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, text) for block, text in zip(document.blocks, texts(document), strict=True)]


def test_comments_follow_their_block_if_configured() -> None:
    noted = '<w:p><w:r><w:t>A claim.</w:t><w:commentReference w:id="7"/></w:r></w:p>' + paragraph("More.")
    comment = '<w:comment w:id="7" w:author="Bo"><w:p><w:r><w:t>Says who?</w:t></w:r></w:p></w:comment>'
    file = docx(noted, comments=comment)
    assert parse(file).text == "A claim.\n\nMore."
    assert found(parse(file, comments=True)) == [
        ("paragraph", "A claim."), ("comment", "Bo: Says who?"), ("paragraph", "More."),
    ]  # fmt: skip


DEEPER = '<w:ind w:left="720"/>'


@pytest.mark.parametrize(
    ("term", "definition", "kind"),
    [
        (paragraph("--password"), paragraph("Asks for it.", properties=DEEPER), "definition"),
        (paragraph("--password"), paragraph("Asks for it.", "Deep"), "definition"),
        (paragraph("--password", "Deep"), paragraph("Asks for it.", "Deep"), "paragraph"),
        (paragraph("--password"), paragraph("Asks for it."), "paragraph"),
        (paragraph("It asks."), paragraph("A quotation.", properties=DEEPER), "paragraph"),
        (paragraph("Word " * 20), paragraph("A quotation.", properties=DEEPER), "paragraph"),
        (paragraph("These"), paragraph("An item.", properties=f"<w:numPr/>{DEEPER}"), "paragraph"),
    ],
)
def test_short_paragraph_above_deeper_paragraph_is_a_definition(
    term: str, definition: str, kind: str
) -> None:
    styles = f'<w:style w:styleId="Deep"><w:name w:val="Deep"/><w:pPr>{DEEPER}</w:pPr></w:style>'
    assert found(parse(docx(term + definition, styles=styles)))[0][0] == kind


def test_noncharacters_of_a_document_are_dropped() -> None:
    """They are the marks by which facts travel through the library."""
    marks = "".join(map(chr, range(0xFDD0, 0xFDF0)))
    body = paragraph(f"a{marks}b") + paragraph("\ufddc9\ufddfx\ufddd0\ufddf") + paragraph("end")
    document = obeys_laws(PARSER, Blob(docx(body), "a.docx"), sound=False)
    assert document is not None
    assert not set(document.text) & set(marks)
    assert document.text.endswith("end")


def test_damaged_documents_are_refused_with_a_reason() -> None:
    unknown = f"<w:document {W.replace('openxml', 'example')}><w:body>{paragraph('x')}</w:body></w:document>"
    for data, reason in (
        (zipped({"[Content_Types].xml": "<Types/>"}), "its part word/document.xml is missing"),
        (docx("<w:p>"), "is damaged"),
        (docx("<w:sdt>" * 5000 + "</w:sdt>" * 5000), "nested too deeply"),
        (docx("<w:sdt>" * 280 + "</w:sdt>" * 280), "nested too deeply"),
        (zipped({"word/document.xml": unknown}), "is damaged .*no document body"),
    ):
        with pytest.raises(BadDocument, match=reason):
            PARSER.parse(Blob(data, "a.docx"))


NAMES = [
    "p",
    "r",
    "t",
    "tbl",
    "tr",
    "tc",
    "pPr",
    "numPr",
    "hyperlink",
    "sdt",
    "txbxContent",
    "br",
    "altChunk",
]


def element(name: str, inner: list[str]) -> str:
    return f"<w:{name}>{''.join(inner)}</w:{name}>"


trees = st.recursive(
    st.text("ab |\n#\ufdd4\ufddf", max_size=5),
    lambda inner: st.builds(element, st.sampled_from(NAMES), st.lists(inner, max_size=4)),
    max_leaves=20,
)


@examples(150)
@given(trees)
def test_laws_hold_for_any_tree(tree: str) -> None:
    obeys_laws(PARSER, Blob(docx(f"<w:p>{tree}</w:p>{tree}"), "a.docx"), sound=False)


@pytest.mark.parametrize("digits", ["9" * 5000, "²", "-1"])
def test_absurd_numbers_raise_no_defect(digits: str) -> None:
    levels = (
        f'<w:numPr><w:ilvl w:val="{digits}"/><w:numId w:val="1"/></w:numPr><w:outlineLvl w:val="{digits}"/>'
    )
    pattern = f'<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="{digits}"><w:numFmt w:val="aiueo"/></w:lvl></w:abstractNum>'
    assert parse(docx(paragraph("text", "", levels), numbering=pattern)).text.endswith("text")
