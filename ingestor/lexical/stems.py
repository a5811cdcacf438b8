"""The stem of a word in a language, by Snowball's algorithms [Porter 2001]; what decides terms. Pure."""

from functools import lru_cache
from unicodedata import normalize

import Stemmer

# Languages as metadata has them (ISO 639-1), and their names in Snowball.
ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "nb": "norwegian", "ne": "nepali",
    "nl": "dutch", "nn": "norwegian", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
    "yi": "yiddish",
}  # fmt: skip
VERSION = 2  # raised whenever the same text gives other terms: indexes are made again
LONGEST = 64  # characters of a term; longer ones are cut
_KEPT = 2**14  # stems that are kept in memory; most words are found in the larger cache of terms.py
_ACCENTS = range(0x300, 0x370)  # combining marks of Latin, Greek and Cyrillic letters


def primary(language: str | None) -> str:
    """``de`` of ``de-AT``; empty where it is unknown, or has no algorithm."""
    code = (language or "").partition("-")[0].lower()
    return code if code in ALGORITHMS else ""


@lru_cache(maxsize=_KEPT)
def stem(word: str, language: str) -> str:
    """Return the stem of a word in lower case, without accents.

    ``language``: a key of ALGORITHMS; if empty, only accents are removed.
    """
    if language:
        word = Stemmer.Stemmer(ALGORITHMS[language], 0).stemWord(word)  # threads must not share a stemmer
    return word if word.isascii() else _plain(word)


def _plain(word: str) -> str:
    """Without accents: many people leave them out."""
    letters = (letter for letter in normalize("NFD", word) if ord(letter) not in _ACCENTS)
    return normalize("NFC", "".join(letters))
