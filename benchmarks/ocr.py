"""OCR of scanned pages with a known text: share of words read, and time.

``python -m benchmarks ocr [LINES]``: LINES lines on a page (default 40). Pages are rendered at 300 dpi,
turned by half a degree, blurred and made noisy. Needs rapidocr.
"""

import io
import time
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap

import numpy as np
from pypdfium2 import PdfDocument

from benchmarks._needs import need
from ingestor.model import Blob, Document
from ingestor.parsers.pdf.ocr import INSTALL
from ingestor.registry import find
from tests.parsers.files import pdf

_TEXT = Path(__file__).parent.parent / "documents"


def main(lines: int = 40) -> None:
    need(find_spec("rapidocr"), f"rapidocr is not installed: {INSTALL}")
    words = " ".join(word for path in sorted(_TEXT.rglob("*.md")) for word in path.read_text("utf-8").split())
    plain = (
        words.encode("cp1252", "ignore").decode("cp1252").translate(dict.fromkeys(map(ord, "()\\|*#`_"), " "))
    )
    _recognised(_scan(["Once, to load the models."], 10))
    print("type  words  read  CPU s")
    for size, width in ((8, 110), (10, 90), (12, 75)):
        text = wrap(plain, width)[:lines]
        began = time.process_time()
        document = _recognised(_scan(text, size))
        took = time.process_time() - began
        found, wanted = set(document.text.split()), " ".join(text).split()
        share = sum(word in found for word in wanted) / len(wanted)
        print(f"{size:2} pt {len(wanted):6} {share:5.1%} {took:6.1f}")


def _recognised(scan: bytes) -> Document:
    plugin = find("parsers", "pdf")
    document: Document = plugin.build(plugin.options.model_validate({"ocr": True})).parse(Blob(scan, "a.pdf"))
    return document


def _scan(text: list[str], size: int) -> bytes:
    from PIL import Image, ImageFilter

    typed = PdfDocument(pdf([[(40, 760 - int(1.5 * size) * at, size, line) for at, line in enumerate(text)]]))
    seen = typed[0].render(scale=300 / 72).to_pil().convert("L").rotate(0.5, fillcolor=255)
    grey = np.asarray(seen.filter(ImageFilter.GaussianBlur(1.5)), np.float32)
    noisy = grey + np.random.default_rng(1).normal(0, 15, grey.shape)
    file = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(file, "PDF", resolution=300)
    return file.getvalue()
