"""Reads the text on a page that is a picture by OCR, as lines in reading order.

The text is recognised by rapidocr (Apache-2.0), whose package contains models for Latin, Chinese and Japanese
script; it reads no other scripts. It runs on one thread and takes one line at a time. So a page always gives
the same text on one kind of processor. A page of 40 lines takes 3 to 4 s (benchmarks/ocr.py).

A line is read before the lines below it, and before those to its right in the same row. Of two columns of
text the left one is read first, unless a line across both separates them [Breuel, "High performance document
layout analysis", 2003]. Columns of short entries, as in a form or a bill, are read row by row.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ingestor.parsers.pdf.lines import Line
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
_WIDE = 0.25  # of the page: a line of a column of text
_SHARED = 0.3  # of the narrower one's width: what stands above the other, or below it
_TYPE = 0.8  # of the height of a line's box: the size of its type
_DESCENT = 0.3  # of that size: from the baseline to the middle of the box

Before = npt.NDArray[np.bool_]  # [a, b]: whether line a is to be read before line b


def recognise(page: "PdfPage") -> tuple[Line, ...]:
    """Return the lines that OCR finds on a page. Raises BadDocument if rapidocr is not installed."""
    width, height = page.get_size()
    scale = min(SIDE / max(width, height), _SCALE)
    _engine()  # where it is missing, nothing is drawn
    return lines_in(page.render(scale=scale).to_numpy(), scale, width, height)


def lines_in(pixels: Any, scale: float, width: float, height: float) -> tuple[Line, ...]:
    """Return the lines that OCR finds in a picture, in points.

    ``scale``: pixels per point. ``width``, ``height``: size of the picture in points. Raises BadDocument if
    rapidocr is not installed.
    """
    result = _engine()(pixels)
    if result.boxes is None or result.txts is None:
        return ()
    seen = [
        OcrLine(text, *box.min(axis=0).tolist(), *box.max(axis=0).tolist())
        for text, box in zip(result.txts, result.boxes / scale, strict=True)
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


@dataclass(frozen=True, slots=True)
class OcrLine:
    """The text and the box of a line that OCR found, in points from the left and the top of the page."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def lines(seen: Sequence[OcrLine], width: float, height: float) -> tuple[Line, ...]:
    """Return OCR's lines in reading order as lines of a page with this size.

    Type sizes are rounded to halves of the usual size.
    """
    if not seen:
        return ()
    usual = median(line.bottom - line.top for line in seen)
    return tuple(_line(seen[at], usual, height) for at in _order(seen, width))


def _line(seen: OcrLine, usual: float, height: float) -> Line:
    times = max(2, round(2 * (seen.bottom - seen.top) / usual)) / 2
    size = times * max(1, round(_TYPE * usual))
    text = seen.text.strip()
    divided = text.endswith("-") and text[-2:-1].isalpha()
    baseline = height - seen.middle - _DESCENT * size
    return Line(
        text.removesuffix("-") if divided else text, seen.left, seen.right, baseline, size, hyphen=divided
    )


def _order(seen: Sequence[OcrLine], width: float) -> list[int]:
    before = _before(seen, width)
    waiting = before.sum(axis=0)
    left = sorted(range(len(seen)), key=lambda at: (seen[at].middle, seen[at].left))
    order = []
    while left:
        first = next((at for at in left if not waiting[at]), left[0])
        left.remove(first)
        waiting -= before[first]
        order.append(first)
    return order


def _before(seen: Sequence[OcrLine], width: float) -> Before:
    left, top, right, bottom = np.array([(s.left, s.top, s.right, s.bottom) for s in seen]).T
    middle, tall, long = (top + bottom) / 2, bottom - top, right - left
    shared = np.minimum.outer(right, right) - np.maximum.outer(left, left)
    across = shared > _SHARED * np.minimum.outer(long, long)
    beside = ~across & np.less.outer(left + right, left + right)
    row = abs(np.subtract.outer(middle, middle)) < np.minimum.outer(tall, tall) / 2
    columns = beside & np.logical_and.outer(long > _WIDE * width, long > _WIDE * width)
    for at in range(len(seen)):
        between = np.multiply.outer(middle - middle[at], middle - middle[at]) < 0
        columns &= ~(between & np.logical_and.outer(across[at], across[at]))
    below: Before = np.less.outer(middle, middle)
    before: Before = (across & below & ~row) | (beside & row) | columns
    return before
