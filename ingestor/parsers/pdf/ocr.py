"""The text on a page that is a picture, by OCR.

Done by rapidocr (Apache-2.0), whose package holds its models: Latin, Chinese and Japanese script; of others
it reads nothing. On one thread and a line at a time, so that the same page gives the same text on one kind
of processor. A page of 40 lines takes 3 to 4 s (benchmarks/ocr.py).
"""

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from ingestor.parsers.pdf.lines import Line
from ingestor.parsers.pdf.ocr_lines import OcrLine, lines
from ingestor.ports import BadDocument

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

INSTALL = f"{sys.executable} -m pip install rapidocr"
SIDE = 1754  # pixels of the longer side: 150 dpi of A4; with more, no more is recognised
_SCALE = 300 / 72  # pixels a point at most
_PARAMETERS = {
    "Global.log_level": "critical",
    "Global.use_cls": False,  # it takes some upright lines for upside down
    "Rec.rec_batch_num": 1,
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
}


def recognised(page: "PdfPage") -> tuple[Line, ...]:
    """Return the lines that OCR finds, in points. Raises BadDocument if rapidocr is not installed."""
    width, height = page.get_size()
    scale = min(SIDE / max(width, height), _SCALE)
    _engine()  # where it is missing, nothing is drawn
    return lines_in(page.render(scale=scale).to_numpy(), scale, width, height)


def lines_in(pixels: Any, scale: float, width: float, height: float) -> tuple[Line, ...]:
    """Lines of a picture, ``scale`` pixels to the point; its size in points.

    Raises BadDocument where rapidocr is not installed.
    """
    found = _engine()(pixels)
    if found.boxes is None or found.txts is None:
        return ()
    seen = [
        OcrLine(text, *box.min(axis=0).tolist(), *box.max(axis=0).tolist())
        for text, box in zip(found.txts, found.boxes / scale, strict=True)
    ]
    return lines([line for line in seen if line.text.strip()], width, height)


@cache
def _engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError:
        raise BadDocument(
            "has pages that are pictures of text, and rapidocr, which reads them, is not installed:"
            f" {INSTALL}, then `ingestor retry --all`"
        ) from None
    return RapidOCR(params=_PARAMETERS)
