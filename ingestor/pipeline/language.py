"""The language of a document's prose, if its format does not state it.

Judged by py3langid: naive Bayes over byte n-grams [Lui & Baldwin, "langid.py", ACL 2012], about a millisecond
a document. A language is given only if the model is sure. It is for metadata alone, and detected
after chunking: an edit may change the result, which must not move the borders of chunks.

The same text gives the same answer in every thread. The model sums float32, so processors of different kinds
may differ in the last bits of a confidence. Where that lies so close to ``_SURE``, a document that is read
again elsewhere costs a patch of its metadata.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from math import ceil
from threading import Lock
from typing import TYPE_CHECKING

from ingestor.core.fingerprint import fingerprint
from ingestor.model import Document, Fingerprint

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_PROSE = frozenset(("paragraph", "list", "quote", "heading", "definition", "footnote", "notes"))
_SAMPLE = 2000  # characters that are examined ...
_PLACES = 40  # ... from at most so many blocks, spread over the document
_LEAST = 40  # letters; fewer are too few to be sure
_SURE = 0.8  # confidence; `python -m benchmarks language`: no wrong answer
_WORD = re.compile(r"[!-~]+")  # of ASCII: other scripts may write without spaces
_NO_WORD = re.compile(r"[0-9_@\\/<>{}=$`#|]")
_NO_LANGUAGE = "zxx"
_LOADING = Lock()


def identified(document: Document) -> Document:
    """The document with its language: stated by the format, else detected in the prose, else None."""
    if document.language or (language := language_of("".join(_prose(document)))) is None:
        return document
    return replace(document, language=language)


def language_of(text: str) -> str | None:
    """ISO 639-1 code of the first 2,000 characters; None if they are few, no prose, or in doubt."""
    if len(text) < _LEAST:
        return None
    words = _WORD.sub(lambda word: " " if _NO_WORD.search(word[0]) else word[0], text[:_SAMPLE])
    if sum(map(str.isalpha, words)) < _LEAST:
        return None
    code, confidence = _model().classify(words)
    return str(code) if confidence >= _SURE and code != _NO_LANGUAGE else None


@cache
def rules() -> Fingerprint:
    """The fingerprint of everything besides the text that decides the result."""
    return fingerprint([sorted(_PROSE), _SAMPLE, _PLACES, _LEAST, _SURE, version("py3langid")])


def _prose(document: Document) -> Iterator[str]:
    """Beginnings of prose blocks, evenly spread over the document."""
    blocks = [block for block in document.blocks if block.kind in _PROSE]
    chosen = blocks[:: max(1, ceil(len(blocks) / _PLACES))]
    for block in chosen:
        yield document.text[block.start : min(block.end, block.start + _SAMPLE // len(chosen) - 1)] + "\n"


def _model() -> "LanguageIdentifier":
    """The model, which never changes after loading: threads share it."""
    with _LOADING:
        return _load()


@cache
def _load() -> "LanguageIdentifier":
    """The model, limited to languages with a code of two letters."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    model.set_languages([name for name in model.labels if len(name) == 2 or name == _NO_LANGUAGE])
    # It keeps the table of all languages beside that of these, so another one is made of what is left.
    return LanguageIdentifier(
        model.nb_ptc, model.nb_pc, model.nb_classes, model.tk_nextmove, model.tk_output,
        norm_probs=True, tk_row=model.tk_row,
    )  # fmt: skip
