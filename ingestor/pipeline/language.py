"""The language of a document's prose, beside those that an embedding model knows.

Prose whose format states no language is judged by py3langid: naive Bayes over byte n-grams [Lui & Baldwin,
"langid.py", ACL 2012], about a millisecond a document. A language is given only if the model is sure. It is
for metadata alone, and detected after chunking: an edit may change the result, which must not move the
borders of chunks.

The same text gives the same answer in every thread. The model sums float32, so processors of different kinds
may differ in the last bits of a confidence. Where that lies so close to ``_SURE``, a document that is read
again elsewhere costs a patch of its metadata.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from math import ceil
from threading import Lock, Thread
from typing import TYPE_CHECKING

from ingestor.core.fingerprint import fingerprint
from ingestor.model import Document, Fingerprint
from ingestor.units import quantity

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
REMEDY = "a multilingual model finds more: docs/first-collection.md, Languages"
_FEWEST = 3  # documents; fewer show nothing
_SAMPLED = 8  # texts of a document whose tokens are counted
_MOST_UNKNOWN = 0.05  # share of tokens
_COUNTED = 10_000  # documents of a source; more would show no more
_FEWEST_TOKENS = 50  # unknown ones; fewer show nothing
_ENGLISH = re.compile(  # names of models that were trained on English alone
    r"all-(minilm|mpnet|distilroberta|roberta)|multi-qa-|(^|[-_/])en([-_]|$)|[-_]en[-_.]v?\d|^msmarco-"
    r"|(^|/)(e5|gte|bge)-(small|base|large)(-v\d[\d.]*)?$|nomic-embed-text-v1",
    re.IGNORECASE,
)


def identify(document: Document) -> Document:
    """Return the document with its language: stated by the format, else detected in the prose, else None."""
    if document.language or (language := language_of("".join(_prose(document)))) is None:
        return document
    return replace(document, language=language)


def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of a text, by its first 2,000 characters; None if in doubt or no prose."""
    if len(text) < _LEAST:
        return None
    words = _WORD.sub(lambda word: " " if _NO_WORD.search(word[0]) else word[0], text[:_SAMPLE])
    if sum(map(str.isalpha, words)) < _LEAST:
        return None
    code, confidence = _model().classify(words)
    return str(code) if confidence >= _SURE and code != _NO_LANGUAGE else None


@cache
def rules() -> Fingerprint:
    """Return the fingerprint of everything besides the text that decides the result."""
    return fingerprint([sorted(_PROSE), _SAMPLE, _PLACES, _LEAST, _SURE, version("py3langid")])


def _prose(document: Document) -> Iterator[str]:
    """Yield beginnings of prose blocks, evenly spread over the document."""
    blocks = [block for block in document.blocks if block.kind in _PROSE]
    chosen = blocks[:: max(1, ceil(len(blocks) / _PLACES))]
    for block in chosen:
        yield document.text[block.start : min(block.end, block.start + _SAMPLE // len(chosen) - 1)] + "\n"


def _model() -> "LanguageIdentifier":
    """Return the model, which never changes after loading: threads share it."""
    with _LOADING:
        return _load()


@cache
def expect() -> None:
    """Load the model in a thread of its own, while the first documents wait for their vectors."""

    def load() -> None:
        with suppress(OSError):  # a full disk: the first document raises the error again
            _model()

    Thread(target=load, name="language", daemon=True).start()


@cache
def _load() -> "LanguageIdentifier":
    """Return the model, limited to languages with a code of two letters."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    model.set_languages([name for name in model.labels if len(name) == 2 or name == _NO_LANGUAGE])
    # It keeps the table of all languages beside that of these, so another one is made of what is left.
    return LanguageIdentifier(
        model.nb_ptc, model.nb_pc, model.nb_classes, model.tk_nextmove, model.tk_output,
        norm_probs=True, tk_row=model.tk_row,
    )  # fmt: skip


# --- languages of models ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelLanguages:
    """Languages that a model knows, as ISO 639-1 codes."""

    model: str
    languages: frozenset[str]


def languages_of(model: str) -> ModelLanguages | None:
    """Return the languages of a model; None if its name does not show that they are few."""
    name = model.rstrip("/").rpartition("/")[2]
    return ModelLanguages(name, frozenset({"en"})) if _ENGLISH.search(name) else None


@dataclass(frozen=True, slots=True)
class ModelVocabulary:
    """Vocabulary of a model.

    ``count``: returns the numbers of unknown tokens and of all tokens of some texts.
    """

    model: str
    count: Callable[[Sequence[str]], tuple[int, int]]

    def sample(self, texts: Sequence[str]) -> tuple[int, int]:
        """Count the tokens of a few of a document's texts, evenly spread."""
        return self.count(texts[:: -(-len(texts) // _SAMPLED)]) if texts else (0, 0)


class LanguageCounts:
    """The first documents of each source by language, and their sampled tokens.

    A document that is prepared again counts once. ``document``: its row in the journal.
    """

    def __init__(self) -> None:
        self._languages: dict[str, dict[int, str]] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._sampled: dict[str, dict[int, tuple[int, int]]] = {}
        self._tokens: dict[str, tuple[int, int]] = {}

    def add_tokens(self, source: str, document: int, sampled: tuple[int, int], model: str) -> str | None:
        """Count a document's sampled tokens. Return a warning if too many of the source are unknown."""
        known = self._sampled.setdefault(source, {})
        unknown, total = self._tokens.get(source, (0, 0))
        if document in known or len(known) < _COUNTED:
            before = known.get(document, (0, 0))
            known[document] = sampled
            unknown, total = unknown + sampled[0] - before[0], total + sampled[1] - before[1]
            self._tokens[source] = unknown, total
        if unknown < _FEWEST_TOKENS or unknown <= _MOST_UNKNOWN * total:
            return None
        return (
            f"{unknown:,} of {quantity(total, 'sampled token')} ({100 * unknown / total:.0f} %) are unknown"
            f" to {model}, which does not read them; {REMEDY}"
        )

    def add(self, source: str, document: int, language: str, known: ModelLanguages) -> str | None:
        """Count a document. Return a warning if the model knows the language of too few of the source."""
        languages = self._languages.setdefault(source, {})
        counts = self._counts.setdefault(source, Counter())
        if document in languages or len(languages) < _COUNTED:
            counts[languages.get(document, language)] -= document in languages
            counts[language] += 1
            languages[document] = language
        return describe_foreign(+counts, known)


def describe_foreign(counts: Mapping[str, int], known: ModelLanguages) -> str | None:
    """Return what to say of documents by language; None if the model knows the language of half of them."""
    total = sum(counts.values())
    foreign = {language: number for language, number in counts.items() if language not in known.languages}
    number = sum(foreign.values())
    if number < _FEWEST or 2 * number <= total:
        return None
    most = sorted(foreign, key=lambda language: (-foreign[language], language))[:3]
    return (
        f"{number:,} of {quantity(total, 'document')} are in a language that {known.model} does not know "
        f"({', '.join(most)}); {REMEDY}"
    )
