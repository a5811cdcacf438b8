"""Texts with realistic words, from the docstrings of the packages that are installed here."""

import re
import site
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

LENGTH = 60  # words of a text
_STRING = re.compile(r'"""(.{200,20000}?)"""', re.DOTALL)


def texts(count: int) -> list[str]:
    """Return ``count`` different texts, the same as long as the same packages are installed."""
    distinct = list(islice(_texts(), count))
    assert len(distinct) == count, f"the packages that are installed here have only {len(distinct):,} texts"
    return distinct


def _texts() -> Iterator[str]:
    seen: set[str] = set()
    for path in _files():
        words = [
            word
            for string in _STRING.findall(path.read_text(encoding="utf-8", errors="ignore"))
            for word in string.split()
            if len(word) <= 40
        ]
        for start in range(0, len(words) - LENGTH, LENGTH):
            text = " ".join(words[start : start + LENGTH])
            if text not in seen:
                seen.add(text)
                yield text


def _files() -> Iterator[Path]:
    import numpy  # where packages are, though the environment may refer to another's

    folders = {*site.getsitepackages(), sysconfig.get_path("stdlib"), str(Path(numpy.__file__).parents[1])}
    for folder in sorted(folders):
        yield from sorted(Path(folder).rglob("*.py"))
