"""Word documents: options, parts in other formats, damage. What else is found is in the golden files."""

# ruff: noqa: E501 - markup reads better in one line

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.completeness import shortfall
from ingestor.model import Blob, Document
from ingestor.parsers.office.docx import PLUGIN, DocxOptions
from ingestor.ports import BadDocument
from tests.examples import examples
from tests.parsers.files import W, docx, paragraph, relations, zipped
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(DocxOptions())
CHUNK = '<w:altChunk r:id="c"/>'
MHT = (
    'MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary="b"\r\n\r\n--b\r\n'
    "Content-Type: text/html; charset=utf-8\r\n\r\n<html><body><p>Twelve chairs</p></body></html>\r\n--b--\r\n"
)


def parse(data: bytes, **options: bool) -> Document:
    document = obeys_laws(PLUGIN.build(DocxOptions(**options)), Blob(data, "a.docx"))
    assert document is not None
    return document


def found(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, text) for block, text in zip(document.blocks, texts(document), strict=True)]


def with_chunk(name: str, content: str | bytes) -> bytes:
    """A document whose middle is a part in another format."""
    body = paragraph("Before") + CHUNK + paragraph("After")
    names = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    return zipped(
        {
            "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relations(("c", "aFChunk", name)),
            "word/document.xml": f"<w:document {W} {names}><w:body>{body}</w:body></w:document>",
            f"word/{name}": content,
        }
    )


def test_comments_follow_their_block_where_they_are_asked_for() -> None:
    noted = '<w:p><w:r><w:t>A claim.</w:t><w:commentReference w:id="7"/></w:r></w:p>' + paragraph("More.")
    comment = '<w:comment w:id="7" w:author="Bo"><w:p><w:r><w:t>Says who?</w:t></w:r></w:p></w:comment>'
    file = docx(noted, comments=comment)
    assert parse(file).text == "A claim.\n\nMore."
    assert found(parse(file, comments=True)) == [
        ("paragraph", "A claim."), ("comment", "Bo: Says who?"), ("paragraph", "More."),
    ]  # fmt: skip


def test_large_first_letter_belongs_to_its_word() -> None:
    letter = '<w:framePr w:dropCap="drop" w:lines="3" w:wrap="around"/>'
    word = paragraph("nce upon a time there was a king in a far land")
    assert texts(parse(docx(paragraph("O", "", letter) + word))) == [
        "Once upon a time there was a king in a far land"
    ]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.html", "<h1>Offer</h1><p>Twelve chairs</p>", ["Offer", "Twelve chairs"]),
        ("a.rtf", r"{\rtf1 Twelve chairs\par}", ["Twelve chairs"]),
        ("a.txt", "Twelve chairs", ["Twelve chairs"]),
        (
            "a.html",
            "<nav>Home</nav><main>Twelve chairs</main><footer>Imprint</footer>",
            ["Home", "Twelve chairs", "Imprint"],
        ),
        ("a.mht", MHT, ["Twelve chairs"]),
        ("a.docx", docx(paragraph("Twelve chairs")), ["Twelve chairs"]),
    ],
)
def test_part_in_another_format_is_read_in_its_place(
    name: str, content: str | bytes, expected: list[str]
) -> None:
    assert texts(parse(with_chunk(name, content))) == ["Before", *expected, "After"]


@pytest.mark.parametrize(
    "data",
    [
        with_chunk("a.bin", "x"),
        with_chunk("a.docx", with_chunk("b.txt", "deeper")),
        docx(CHUNK + paragraph("x")),
    ],
)
def test_part_that_is_not_read_makes_the_document_incomplete(data: bytes) -> None:
    document = parse(data)
    missing = shortfall(document)
    assert missing is not None
    assert "a part in another format" in missing.reason


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
        (docx("<w:sdt>" * 280 + "</w:sdt>" * 280), "deeper than is read"),
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
def test_absurd_numbers_are_no_defect(digits: str) -> None:
    levels = (
        f'<w:numPr><w:ilvl w:val="{digits}"/><w:numId w:val="1"/></w:numPr><w:outlineLvl w:val="{digits}"/>'
    )
    pattern = f'<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="{digits}"><w:numFmt w:val="aiueo"/></w:lvl></w:abstractNum>'
    assert parse(docx(paragraph("text", "", levels), numbering=pattern)).text.endswith("text")


def test_styles_that_inherit_from_each_other_in_a_circle_are_read() -> None:
    based = "".join(
        f'<w:style w:styleId="{a}"><w:name w:val="{a}"/><w:basedOn w:val="{b}"/></w:style>'
        for a, b in ("AB", "BA", "CC")
    )
    assert texts(parse(docx(paragraph("x", "A") + paragraph("y", "C"), styles=based))) == ["x", "y"]
