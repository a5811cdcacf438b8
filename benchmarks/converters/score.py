"""Scores how much of a document's content a converter returned. Pure.

Words are compared without case, headings by their letters and digits, rows of tables by their cells in order.
"""

import html
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--.*?-->", re.S)
_NUMBER = re.compile(
    r"^\W*(?:chapter|appendix|part)?\s*(?:[A-Z]\.|[A-Z](?=\.\d)|[IVX]+\.|\d+)(?:\.\d+)*[.):]?\s+(?=\w)", re.I
)
_FENCE = re.compile(r"(?ms)^ *(```+|~~~+).*?^ *\1[ \t]*$")
_PAGE_HEAD = re.compile(r"(?is)<h[1-6]\b[^>]*>(.*?)</h[1-6]>")
_HEAD = re.compile(r"(?m)^ {0,3}#{1,6}[ \t]+(.+?)[ \t#]*$")
_ROW = re.compile(r"(?m)^ *\|(.*)\|? *$")

_ADDRESS = re.compile(r"\]\([^()\s]*\)")  # of a link in Markdown

LEAST = 5  # words of a document that is compared


@dataclass(frozen=True)
class Shares:
    """Shares from 0 to 1, and counts of headings and rows: in the source, returned, and right."""

    words: float
    order: float
    headings: tuple[int, int, int] | None
    rows: tuple[int, int] | None


def score(text: str, truth: str, headings: Sequence[str] | None, rows: Sequence[Sequence[str]] | None,
          optional: Iterable[str] = ()) -> Shares:  # fmt: skip
    """Score a document with words. ``optional``: headings that may be returned or not."""
    wanted, given = words(truth), words(_without_marks(text))
    both = Counter(wanted) & Counter(given)
    return Shares(
        both.total() / len(wanted),
        _in_order(wanted, given) / len(wanted),
        None if headings is None else _headings(text, headings, optional),
        None if rows is None else (len(rows), _rows(text, rows)),
    )


def words(text: str) -> list[str]:
    return _WORD.findall(normalize("NFKC", text).replace("\u00ad", "").casefold())


def _without_marks(text: str) -> str:
    """Remove the marks of Markdown and HTML inside words."""
    return html.unescape(re.sub(r"\\(?=[^\w\s])|\*+|~~", "", _TAG.sub(_gap, text.replace("[^", " ["))))


def _gap(tag: re.Match[str]) -> str:
    return "" if re.match(r"</?(?:b|i|em|strong|sub|sup|u|span|a|code)\b", tag[0], re.I) else " "


def _in_order(wanted: Sequence[str], given: Sequence[str]) -> int:
    """Count the words of the longest common sequence."""
    from rapidfuzz.distance import LCSseq

    return LCSseq.similarity(wanted, given)


def _headings(text: str, true: Sequence[str], optional: Iterable[str]) -> tuple[int, int, int]:
    wanted = Counter(key for said in true if (key := _key(said)))
    spared = {_key(said) for said in optional}
    prose = _FENCE.sub("", text)
    said = [*_HEAD.findall(prose), *_PAGE_HEAD.findall(prose)]
    given = Counter(key for one in said if (key := _key(_without_marks(one))))
    for key in spared:
        if given[key] > wanted[key]:
            given[key] = wanted[key]
    return wanted.total(), given.total(), (wanted & given).total()


def _key(heading: str) -> str:
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)|\{#[^}]*\}", r"\1", heading.strip())
    return "".join(words(_NUMBER.sub("", heading, count=1))) or "".join(words(heading))


def _rows(text: str, true: Sequence[Sequence[str]]) -> int:
    """Count the rows of which a returned row has every cell, in order."""
    said = [re.split(r"(?<!\\)\|", line) for line in _ROW.findall(text)]
    said += [
        re.findall(r"(?is)<t[dh]\b[^>]*>(.*?)(?=</t[dh]>|<t[dh]\b|$)", row)
        for row in re.findall(r"(?is)<tr\b[^>]*>(.*?)</tr>", text)
    ]
    given: dict[str, list[list[str]]] = {}
    for row in said:
        cells = [key for cell in row if (key := "".join(words(_without_marks(_ADDRESS.sub("]", cell)))))]
        for cell in set(cells):
            given.setdefault(cell, []).append(cells)
    right = 0
    for row in true:
        said_in = (_without_marks(html.escape(cell, quote=False)) for cell in row)
        keys = [key for cell in said_in if (key := "".join(words(cell)))]
        at = next(
            (n for n, cells in enumerate(given.get(keys[0], ()) if keys else ()) if _holds(cells, keys)), None
        )
        if at is not None:
            given[keys[0]].pop(at)
        right += at is not None or not keys
    return right


def _holds(cells: Sequence[str], keys: Sequence[str]) -> bool:
    rest = iter(cells)
    return all(key in rest for key in keys)


def main(truth: str, given: str) -> None:
    """Print [words, order, headings, rows] for each document."""
    known = {key: rest for key, *rest in map(json.loads, Path(truth).read_text("utf-8").splitlines())}
    found = {}
    for key, text, _, error in map(json.loads, Path(given).read_text("utf-8").splitlines()):
        if key not in known or len(words(known[key][0])) < LEAST:
            continue
        made = score("" if error else text, *known[key])
        found[key] = [made.words, made.order, made.headings, made.rows]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
