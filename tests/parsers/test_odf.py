"""OpenDocument: options, flat files, damage. What else is found is in the golden files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.odf.parser import PLUGIN, OdfOptions
from ingestor.ports import BadDocument
from tests.examples import examples
from tests.parsers.files import odf, zipped
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(OdfOptions())
GOLDEN = Path(__file__).parent / "golden"
NOTE = "<office:annotation><dc:creator>Bo</dc:creator><text:p>Says who?</text:p></office:annotation>"


def parse(data: bytes, **options: bool) -> Document:
    document = obeys_laws(PLUGIN.build(OdfOptions(**options)), Blob(data, "a.odt"))
    assert document is not None
    return document


def found(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, text) for block, text in zip(document.blocks, texts(document), strict=True)]


def test_comments_of_a_text_are_read_if_configured() -> None:
    file = odf("text", f"<text:p>A claim{NOTE}.</text:p>")
    assert parse(file).text == "A claim."
    assert found(parse(file, comments=True)) == [("paragraph", "A claim."), ("comment", "Bo: Says who?")]


def test_hidden_sheets_and_comments_are_read_if_configured() -> None:
    file = (GOLDEN / "sheets.ods").read_bytes()
    assert "Secret" not in parse(file).text
    assert "Secret" in texts(parse(file, hidden_sheets=True))
    assert ("comment", "Bo: Says who?") in found(parse(file, comments=True))
    assert parse(file).blocks[-1].page == parse(file, hidden_sheets=True).blocks[-1].page == 4


def test_flat_file_reads_as_the_packed_one() -> None:
    packed = parse((GOLDEN / "running-text.odt").read_bytes())
    assert parse((GOLDEN / "running-text.fodt").read_bytes()).blocks == packed.blocks


def test_encrypted_document_is_refused() -> None:
    parts = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": b"\x8f\x01garbage",
             "META-INF/manifest.xml": "<m><manifest:encryption-data/></m>"}  # fmt: skip
    with pytest.raises(BadDocument, match="is encrypted; save it without a password"):
        PARSER.parse(Blob(zipped(parts), "a.odt"))


NAMES = [
    *(
        "text:p",
        "text:h",
        "text:span",
        "text:list",
        "text:list-item",
        "text:section",
        "text:number",
        "text:s",
    ),
    *(
        "table:table",
        "table:table-row",
        "table:table-cell",
        "draw:frame",
        "draw:text-box",
        "draw:g",
        "draw:page",
    ),
    "office:annotation",
]


def element(name: str, inner: list[str]) -> str:
    return f"<{name}>{''.join(inner)}</{name}>"


trees = st.recursive(
    st.text("ab |\n#\ufdd4", max_size=5),
    lambda inner: st.builds(element, st.sampled_from(NAMES), st.lists(inner, max_size=4)),
    max_leaves=20,
)


@examples(150)
@given(st.sampled_from(["text", "presentation", "spreadsheet"]), trees)
def test_laws_hold_for_any_tree(kind: str, tree: str) -> None:
    obeys_laws(PARSER, Blob(odf(kind, tree), "a.odt"), sound=False)
