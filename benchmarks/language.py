"""Language detection on paragraphs of the Debian handbook in 26 languages: share detected, and share right.

``python -m benchmarks language [PARAGRAPHS]``: at most PARAGRAPHS of each language (default 150), cut to
different lengths. Paragraphs that a translation leaves in English are not counted.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks._corpus import package
from benchmarks._needs import need
from ingestor.model import Blob
from ingestor.pipeline.language import language_of
from ingestor.registry import find

_SAME = {"no": "nb"}  # Norwegian, and the Bokmål that most of it is
_ENGLISH = "en-US"


def main(paragraphs: int = 150) -> None:
    folder = package("debian-handbook") / "usr/share/doc/debian-handbook/html"
    need(
        folder.is_dir(),
        "the package debian-handbook could not be had: apt-get download needs its package lists",
    )
    texts = list(_texts(folder, paragraphs))
    print(f"{len(texts)} paragraphs in {len({code for code, _ in texts})} languages")
    print("characters  paragraphs  told  right  ms each  wrong")
    for length in (60, 100, 200, 400):
        _judge([(code, text[:length]) for code, text in texts if len(text) >= length], length)


def _judge(texts: list[tuple[str, str]], length: int) -> None:
    began = time.perf_counter()
    answers = [(code, language_of(text)) for code, text in texts]
    each = (time.perf_counter() - began) / len(texts)
    told = [(code, _SAME.get(answer, answer)) for code, answer in answers if answer]
    wrong = Counter(f"{code} as {answer}" for code, answer in told if code != answer)
    print(
        f"{length:10} {len(texts):11} {len(told) / len(texts):5.1%} {1 - wrong.total() / len(told):6.2%}"
        f" {1000 * each:8.2f}  {', '.join(wrong) or 'none'}"
    )


def _texts(folder: Path, most: int) -> Iterator[tuple[str, str]]:
    """Yield language code and paragraph."""
    english = list(_paragraphs(folder / _ENGLISH))
    known = {word for text in english for word in text.split()}
    for translation in sorted(folder.iterdir()):
        found = english if translation.name == _ENGLISH else _paragraphs(translation)
        own = [text for text in found if translation.name == _ENGLISH or not _is_english(text, known)]
        for text in Random(1).sample(own, min(most, len(own))):
            yield translation.name[:2], text


def _is_english(text: str, known: set[str]) -> bool:
    words = text.split()
    return sum(word in known for word in words) >= len(words) / 2


def _paragraphs(folder: Path) -> Iterator[str]:
    plugin = find("parsers", "html")
    parser = plugin.build(plugin.options())
    for page in sorted(folder.glob("*.html")):
        document = parser.parse(Blob(page.read_bytes(), page.name))
        for block in document.blocks:
            if block.kind == "paragraph":
                yield document.text[block.start : block.end]
