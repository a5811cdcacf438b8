"""Pictures of text (PNG, JPEG, TIFF, BMP, WebP, GIF), read by OCR where rapidocr is installed.

Every page of a TIFF is a page of the document. Blocks are found as on a scanned page of a PDF. A picture in
which OCR finds no text becomes an empty document.
"""

from collections.abc import Iterator
from io import BytesIO

from ingestor.model import Blob, Document
from ingestor.parsers.pdf.lines import PageLines
from ingestor.parsers.pdf.ocr import SIDE, lines_in
from ingestor.parsers.shared.detect import content_type
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.ports import BadDocument

_POINTS = 842  # of the longer side, as if it were a page of A4
_PIXELS = 200_000_000  # of a picture
_PAGES = 1000


def parse(blob: Blob) -> Document:
    """Read the text in a picture by OCR.

    Raises BadDocument if the picture is damaged or far too large, or if rapidocr is not installed.
    """
    from ingestor.parsers.pdf.layout import compose  # slow to import

    pages = list(_pages(blob.data))
    composed = compose(pages, [])
    return composed.document(
        content_type(blob),
        title=composed.title,
        extra={"pages": len(pages)},
        lost=() if composed.text else ("OCR finds no text in it",),
    )


def _pages(data: bytes) -> Iterator[PageLines]:
    from numpy import asarray
    from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # checked here, before anything is unpacked
    try:
        with Image.open(BytesIO(data)) as picture:
            for number, frame in enumerate(ImageSequence.Iterator(picture), 1):
                if frame.width * frame.height > _PIXELS or number > _PAGES:
                    raise BadDocument(
                        f"has more than {_PIXELS:,} pixels, or more than {_PAGES:,} "
                        "pages; make it smaller, or exclude it"
                    )
                upright = ImageOps.exif_transpose(frame).convert("RGB")
                upright.thumbnail((SIDE, SIDE))
                pixels = asarray(upright)
                height, width = pixels.shape[:2]
                scale = max(width, height) / _POINTS  # pixels to the point
                lines = lines_in(pixels, scale, width / scale, height / scale)
                yield PageLines(str(number), height / scale, lines)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
        raise BadDocument(f"is damaged or cut off ({error}); save it again, or exclude it") from error


PLUGIN = parser_plugin("image", 1, parse)
