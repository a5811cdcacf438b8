"""Turns text into the terms that are indexed and searched. Pure.

- Words are lower-cased and stemmed by the record's language, with Snowball's algorithms [Porter 2001].
  Words with joiners, such as Persian, are also indexed without them. Hebrew has rules of our own (decision
  0167). Accents and vowel signs are left out.
- Names, numbers and code are kept whole and in parts: ``chroma.get_or_create`` gives itself,
  ``chroma``, ``get_or_create``, ``get``, ``or`` and ``create``; ``§ 12`` gives ``§12`` and ``12``.
- Korean, and scripts without spaces such as Chinese and Thai, give overlapping pairs of characters.
  Chinese characters are also indexed alone.

A term holds no white space, no quotation mark and no control character.
"""

import re
from collections.abc import Iterable, Iterator, Set
from functools import lru_cache
from itertools import chain, pairwise
from unicodedata import normalize

import Stemmer

from ingestor.lexical.rules import ALGORITHMS, LONGEST

_KEPT_STEMS = 2**14  # stems that are kept in memory; most words are found in the larger cache of terms
_ACCENTS = {  # marks of Latin, Greek and Cyrillic letters, and the vowel signs of Hebrew and Arabic
    *range(0x300, 0x370), *range(0x591, 0x5C8), *range(0x64B, 0x653), 0x670,
}  # fmt: skip
_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
DENSE = (  # scripts that are indexed as pairs: kana, Korean, Thai, Lao, Tibetan, Burmese, Khmer, and Han
    f"\u3040-\u30ff\u31f0-\u31ff\u1100-\u11ff\uac00-\ud7af\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff{_HAN}"
)
_MARKS = (  # that \\w leaves out: accents, vowel signs, joiners
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0963\u0966-\u0dff\u200c\u200d"
)
_JOINERS = dict.fromkeys(map(ord, "\u200c\u200d\u0640"))  # ZWNJ, ZWJ, and the stroke that stretches Arabic
_IS_HAN = re.compile(f"[{_HAN}]")
_PART = f"[^\\W{DENSE}](?:[^\\W{DENSE}]|[{_MARKS}])*"
_SIGN = r"(?P<sign>[§¶№#]{1,2}\s?\d+[a-z]?\b)"
_NAME = r"(?P<name>PART(?:(?:::|->|[.:@/\\+&-])PART|(?<=\d),(?=\d\d\d)PART)*(?:\+\+|\#(?!\w))?)"
_TOKEN = re.compile(f"(?P<dense>[{DENSE}]+)|{_SIGN}|{_NAME}".replace("PART", _PART))
# Finds in ASCII text what _TOKEN finds, and is three times as fast.
_ASCII_TOKEN = re.compile(f"{_SIGN}|{_NAME}".replace("PART", r"\w+"))
_KEPT = 2**15  # words whose terms are kept in memory
_BETWEEN = re.compile(f"[^\\w{_MARKS}]+")
_RUN = re.compile(r"[^\W_]+")
_UNDERSCORES = re.compile("_+")
_SMALL = r"[^\W\d_]"
_HUMPS = re.compile(r"(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ])")
_BORDERS = re.compile(rf"(?<=\d)(?={_SMALL})|(?<={_SMALL})(?=\d)")
_RELEASE = re.compile(r"v(\d[\d.]*)", re.IGNORECASE)
_BEFORE = re.compile("^(?:ו?[בכלמש]?ה|ו?[בכלמש]|ו)(?=[א-ת]{3})")  # and, the, in, to and others, in one word
_AFTER = re.compile("(?<=[א-ת]{3})(?:ים|ות|יות|ה|ת|י)$")  # endings of many, of hers, of mine
_PLAIN = re.compile(f"(?:[^\\W\\d_]|[{_MARKS}])+")


def terms(text: str, language: str | None = None) -> list[str]:
    """Return the terms of a text in order, with repetitions. ``language``: BCP 47, None if unknown."""
    return list(_terms(text, primary(language)))


def question_words(text: str, languages: Iterable[str]) -> list[tuple[str, ...]]:
    """Return each word of a question once, as its terms in each of the languages and without a language."""
    known = ["", *sorted({primary(language) for language in languages} - {""})]
    in_each = zip(*(_by_token(text, language, question=True) for language in known), strict=True)
    words = (tuple(dict.fromkeys(filter(None, chain.from_iterable(forms)))) for forms in in_each)
    return list(dict.fromkeys(filter(None, words)))


def places(text: str, language: str | None, wanted: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of words with one of the ``wanted`` terms: whole names, or words in names."""
    code = primary(language)
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "dense":
            yield from _dense_places(token[0], token.start(), wanted)
        elif token.lastgroup == "sign" or _is_plain(token[0]) or _whole(token[0]) in wanted:
            if not wanted.isdisjoint({*_terms(token[0], code), *_terms(token[0], "")}):
                yield token.span()
        else:
            yield from _places_within(token[0], token.start(), code, wanted)


def _places_within(name: str, start: int, language: str, wanted: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield places of wanted words inside a name such as ``BackupTooOld`` or ``var/tmp/restore``."""
    for run in _RUN.finditer(name):
        at = start + run.start()
        for word in _HUMPS.split(run[0]):
            if not wanted.isdisjoint({*_terms(word, language), *_terms(word, "")}):
                yield at, at + len(word)
            at += len(word)


def _dense_places(run: str, start: int, wanted: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield places of wanted pairs; overlapping pairs are one place."""
    at = 0
    while at < len(run):
        end = at
        while run[end : end + 2] in wanted and end + 2 <= len(run):
            end += 1
        if end > at:
            yield start + at, start + end + 1
        elif run[at] in wanted:
            yield start + at, start + at + 1
        at = max(at, end) + 1


def _terms(text: str, language: str) -> Iterator[str]:
    return chain.from_iterable(_by_token(text, language))


def _by_token(text: str, language: str, *, question: bool = False) -> Iterator[Iterable[str]]:
    """Yield the terms of each token; a run of a script without spaces is one token."""
    tokens = _ASCII_TOKEN.finditer(text) if text.isascii() else _TOKEN.finditer(normalize("NFKC", text))
    for token in tokens:
        if token.lastgroup == "name":
            word = token[0]
            yield _kept(word, language) if len(word) <= LONGEST else _of_word(word, language)
        elif token.lastgroup == "dense":
            yield _pairs(token[0], alone=not question)
        else:
            whole = "".join(token[0].split()).replace("§§", "§")
            yield whole.lower(), whole.lstrip("§¶№#").lower()


def _of_word(word: str, language: str) -> tuple[str, ...]:
    """Return the terms of a word, or of a name of several words."""
    if _is_plain(word):
        plain = word.translate(_JOINERS)
        forms = (word,) if plain == word else (word, plain)
        return tuple(dict.fromkeys(_cut(stem(form.lower(), language)) for form in forms))
    return tuple(dict.fromkeys(_name(word, language)))


_kept = lru_cache(_KEPT)(_of_word)  # few words make up most of any text


def _is_plain(token: str) -> bool:
    """Return whether a token is one word, not a name of several."""
    return _PLAIN.fullmatch(token) is not None and not _HUMPS.search(token)


def _pairs(run: str, *, alone: bool) -> Iterator[str]:
    if len(run) == 1:
        yield run
        return
    yield from map("".join, pairwise(run))
    if alone:
        yield from _IS_HAN.findall(run)


def _name(token: str, language: str) -> Iterator[str]:
    """Yield the whole name, then its parts between punctuation, then their words."""
    yield _whole(token)
    if "," in token:
        yield _cut(token.replace(",", "").lower())
    if (number := _RELEASE.fullmatch(token)) is not None:
        yield _cut(number[1])
    for part in filter(None, _BETWEEN.split(token)):
        if part != token:
            yield _whole(part)
        yield from _words(part, language)


def _words(part: str, language: str) -> Iterator[str]:
    for piece in filter(None, _UNDERSCORES.split(part)):
        for hump in _HUMPS.split(piece):
            yield _cut(stem(hump.lower(), language))
            split = _BORDERS.split(hump)
            if len(split) > 1:
                yield from (_cut(stem(bit.lower(), language)) for bit in split if len(bit) > 1)


def _whole(name: str) -> str:
    return _cut(stem(name.lower(), ""))


def _cut(term: str) -> str:
    return term[:LONGEST]


def primary(language: str | None) -> str:
    """Return ``de`` for ``de-AT``; empty if the language is unknown or has no algorithm."""
    code = (language or "").partition("-")[0].lower()
    return code if code in ALGORITHMS else ""


@lru_cache(maxsize=_KEPT_STEMS)
def stem(word: str, language: str) -> str:
    """Return the stem of a word in lower case, without accents.

    ``language``: a key of ALGORITHMS; if empty, only accents are removed.
    """
    if language:
        (word,) = _stems([word], language)
    return word if word.isascii() else _plain(word)


def all_stems(words: Iterable[str], languages: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the terms of words in lower case: in no language, and in each of the languages."""
    known = list(dict.fromkeys(words))
    codes = {primary(language) for language in languages} - {""}
    stemmed = [_stems(known, code) for code in sorted(codes)]
    rows = zip(known, *stemmed, strict=True)
    return {row[0]: tuple(dict.fromkeys(_cut(stem(form, "")) for form in row)) for row in rows}


def _stems(words: list[str], language: str) -> list[str]:
    if language == "he":
        return [_AFTER.sub("", _BEFORE.sub("", _plain(word))) for word in words]
    stemmer = Stemmer.Stemmer(ALGORITHMS[language], 0)  # threads must not share it
    return list(stemmer.stemWords(words))


def _plain(word: str) -> str:
    """Remove accents, which many people omit."""
    letters = (letter for letter in normalize("NFD", word) if ord(letter) not in _ACCENTS)
    return normalize("NFC", "".join(letters))
