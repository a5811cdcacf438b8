"""Pictures as documents, where OCR is installed; elsewhere they say what would read them."""

import io
from contextlib import closing

import pytest

from ingestor.model import Blob
from ingestor.parsers.shared import detect
from ingestor.parsers.shared.detect import parser_kind
from ingestor.ports import BadDocument, Unsupported
from ingestor.registry import Options
from ingestor.sandbox.pool import Isolated, Isolation
from ingestor.sandbox.process import Limits
from tests.parsers.laws import blocks_cover_text

LINES = ("Harbour report", "Nine ships came in before the winter.", "Wheat was dear that year.")


@pytest.mark.parametrize("kind", ["png", "jpeg", "tiff", "bmp", "webp", "gif"])
def test_picture_without_ocr_names_the_package(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "reads_pictures", lambda: False)
    with pytest.raises(
        Unsupported, match=rf"looks like an image \(image/{kind}\); OCR would read text in it: "
    ):
        parser_kind(f"image/{kind}")
    monkeypatch.setattr(detect, "reads_pictures", lambda: True)
    assert parser_kind(f"image/{kind}") == "image"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_pictures_of_text_are_read(form: str) -> None:
    pytest.importorskip("rapidocr")
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (1200, 500), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(40)
    for at, line in enumerate(LINES):
        draw.text((60, 60 + 90 * at), line, "black", font)
    file = io.BytesIO()
    more = {"save_all": True, "append_images": [picture]} if form == "TIFF" else {}
    picture.save(file, form, **more)
    with closing(Isolation(Limits(processes=1))) as isolation:
        parser = Isolated("image", Options(), isolation)
        document = parser.parse(Blob(file.getvalue(), "a"))
        blocks_cover_text(document)
        for line in LINES:
            assert line in document.text.replace("\n", " ")
        assert {block.page for block in document.blocks} == ({0, 1} if form == "TIFF" else {0})
        with pytest.raises(BadDocument, match="is damaged or cut off"):
            parser.parse(Blob(file.getvalue()[:60], "a"))
