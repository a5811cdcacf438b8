"""Presentations: options, order of slides, damage. What else is found is in the golden files."""

from pathlib import Path

import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.office.pptx import PLUGIN, PptxOptions
from ingestor.ports import BadDocument
from tests.parsers.files import P, R, pptx, zipped
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(PptxOptions())
GOLDEN = Path(__file__).parents[1] / "golden"


def parse(data: bytes, **options: bool) -> Document:
    document = obeys_laws(PLUGIN.build(PptxOptions(**options)), Blob(data, "a.pptx"))
    assert document is not None
    return document


def test_comments_end_their_slide_if_configured() -> None:
    file = (GOLDEN / "figures.pptx").read_bytes()
    assert "Is this so?" not in parse(file).text
    document = parse(file, comments=True)
    last = document.blocks[-1]
    assert (last.kind, last.page, texts(document)[-1]) == ("comment", 0, "Is this so?")


def test_presentation_without_slides_is_empty() -> None:
    assert not parse(pptx()).blocks
    assert not parse(pptx("")).blocks


def test_missing_slide_is_damage() -> None:
    entries = '<p:sldIdLst><p:sldId r:id="r0"/></p:sldIdLst>'
    file = zipped({"ppt/presentation.xml": f"<p:presentation {P} {R}>{entries}</p:presentation>"})
    with pytest.raises(BadDocument, match="a slide is missing"):
        PARSER.parse(Blob(file, "a.pptx"))
