"""Detects the language of a document's prose, and compares languages with those that a model knows.

A format may state the language of its documents. For other documents py3langid detects the language of the
prose: naive Bayes over byte n-grams [Lui & Baldwin, "langid.py", ACL 2012], about a millisecond a document. A
language is returned only if py3langid is sure. The language is used as metadata only, and is detected after
chunking. An edit may change the result, and that must not move the borders of chunks.

The same text gives the same result in every thread. But py3langid sums float32, so different kinds of
processors may differ in the last bits of a confidence. If a confidence is that close to ``_SURE``, reading
the document on another machine may change its metadata.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from math import ceil
from threading import Lock
from typing import TYPE_CHECKING

from ingestor.core.fingerprint import fingerprint
from ingestor.model import Document, Fingerprint
from ingestor.units import quantity

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_PROSE = frozenset(("paragraph", "list", "quote", "heading", "definition", "footnote", "notes"))
_SAMPLE = 2000  # characters of a document that are examined
_PLACES = 40  # blocks that the sample is taken from at most, spread over the document
_LEAST = 40  # letters that a sample must have
_SURE = 0.8  # least confidence; `python -m benchmarks language` found no wrong result above it
_WORD = re.compile(r"[!-~]+")  # of ASCII: other scripts may write without spaces
_NO_WORD = re.compile(r"[0-9_@\\/<>{}=$`#|]")
_NO_LANGUAGE = "zxx"
_ENGLISH_CODES = ("en", "eng")  # as formats state them
_LOADING = Lock()
REMEDY = "a multilingual model finds more: docs/first-collection.md, Languages"
_FEWEST = 3  # documents in foreign languages that a warning needs
_SAMPLED = 8  # texts of a document whose tokens are counted
_MOST_UNKNOWN = 0.05  # of the tokens; a higher fraction is warned about
_FEWEST_TOKENS = 50  # unknown tokens that a warning needs
_ENGLISH = re.compile(  # names of models that were trained on English alone
    r"all-(minilm|mpnet|distilroberta|roberta)|multi-qa-|(^|[-_/])en([-_]|$)|[-_]en[-_.]v?\d|^msmarco-"
    r"|(^|/)(e5|gte|bge)-(small|base|large)(-v\d[\d.]*)?$|nomic-embed-text-v1",
    re.IGNORECASE,
)


def identify(document: Document) -> Document:
    """Return the document with its language: the one that its format states, else the detected one, else
    None. Regions are left out, so that a filter for ``en`` finds ``en-US``, too."""
    stated = primary(document.language or "")
    return replace(document, language=stated or language_of("".join(_prose(document))))


def primary(language: str) -> str:
    """Return the code of a language without its region or script: ``en`` for ``en-US``."""
    return re.split("[-_]", language.strip().lower())[0]


def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language; None if it is in doubt or there is too little prose.

    Only the first 2,000 characters are examined.
    """
    if len(text) < _LEAST:
        return None
    words = _WORD.sub(lambda word: " " if _NO_WORD.search(word[0]) else word[0], text[:_SAMPLE])
    if sum(map(str.isalpha, words)) < _LEAST:
        return None
    code, confidence = _model().classify(words)
    return str(code) if confidence >= _SURE and code != _NO_LANGUAGE else None


@cache
def rules() -> Fingerprint:
    """Return a fingerprint of everything that decides which language a text gets."""
    return fingerprint([sorted(_PROSE), _SAMPLE, _PLACES, _LEAST, _SURE, version("py3langid")])


def _prose(document: Document) -> Iterator[str]:
    """Yield the beginnings of some blocks of prose, evenly spread over the document."""
    blocks = [block for block in document.blocks if block.kind in _PROSE]
    chosen = blocks[:: max(1, ceil(len(blocks) / _PLACES))]
    for block in chosen:
        yield document.text[block.start : min(block.end, block.start + _SAMPLE // len(chosen) - 1)] + "\n"


def _model() -> "LanguageIdentifier":
    """Return the model of py3langid. All threads share it, since it does not change after loading."""
    with _LOADING:  # ``cache`` alone would let two threads load at the same time
        return _load()


@cache
def _load() -> "LanguageIdentifier":
    """Load the model of py3langid, limited to languages with a code of two letters."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    model.set_languages([name for name in model.labels if len(name) == 2 or name == _NO_LANGUAGE])
    # The loaded model keeps the table of all languages beside the limited one; a new one frees that memory.
    return LanguageIdentifier(
        model.nb_ptc, model.nb_pc, model.nb_classes, model.tk_nextmove, model.tk_output,
        norm_probs=True, tk_row=model.tk_row,
    )  # fmt: skip


# --- languages of models ---------------------------------------------------------------------------

CountUnknown = Callable[[Sequence[str]], tuple[int, int]]  # tokens that a model does not know, and all


def is_english(model: str) -> bool:
    """Return whether the name of a model shows that it was trained on English alone.

    Such a name has "en" in it, for example.
    """
    return _ENGLISH.search(model) is not None


def sample_unknown(texts: Sequence[str], count: CountUnknown | None) -> tuple[int, int]:
    """Return how many tokens of a document the model does not know, and how many there are.

    Only some of the document's texts are counted, evenly spread. ``count``: see ports.Vocabulary; None if the
    model knows every token.
    """
    return count(texts[:: -(-len(texts) // _SAMPLED)]) if texts and count else (0, 0)


def describe_foreign(counts: Mapping[str, int], model: str) -> str | None:
    """Return a warning if most documents are not in English, which alone the model knows, else None.

    ``counts``: numbers of documents by language. Regions do not count: ``en-US`` is English.
    """
    total = sum(counts.values())
    foreign = Counter[str]()
    for language, count in counts.items():
        if (code := primary(language)) not in _ENGLISH_CODES:
            foreign[code] += count
    number = foreign.total()
    if number < _FEWEST or 2 * number <= total:
        return None
    most = sorted(foreign, key=lambda language: (-foreign[language], language))[:3]
    return (
        f"{number:,} of {quantity(total, 'document')} are in a language that {model} does not know "
        f"({', '.join(most)}); {REMEDY}"
    )


def describe_unknown(unknown: int, tokens: int, model: str) -> str | None:
    """Return a warning if the model does not know many of a source's tokens, else None.

    ``unknown``, ``tokens``: numbers of unknown tokens and of all tokens in a sample of the source's texts.
    """
    if unknown < _FEWEST_TOKENS or unknown <= _MOST_UNKNOWN * tokens:
        return None
    return (
        f"{unknown:,} of {quantity(tokens, 'sampled token')} ({100 * unknown / tokens:.0f} %) are unknown"
        f" to {model}, which does not read them; {REMEDY}"
    )
