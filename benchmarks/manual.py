"""Borders of chunks in a manual written in reStructuredText: what they part, and which section they cite.

``INGESTOR_MANUAL=FOLDER python -m benchmarks manual [N]`` reads every N-th ``.txt`` and ``.rst`` file below
the folder, such as ``docs`` of Django's source distribution. Sections are found here by another way than the
parser's: a title is an underlined line, and its section begins with the explicit markup directly above it.

*cited wrongly* are chunks that name another section than the one that holds most of their characters, *after
a label* those of them that begin with the markup above a title. *ends with* counts chunks whose last line is
a label, a colon, or the midst of a sentence.
"""

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks._needs import need
from ingestor.model import Blob, Chunk, Document, DocumentId, Item, RecordId, SourceName
from ingestor.parsers.shared import detect
from ingestor.pipeline import metadata
from ingestor.ports import Embed
from ingestor.registry import find
from ingestor.text.tokens import Tokens
from tests.minilm import CachedModel

TOKENS = Tokens()
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*")
_MARKUP = re.compile(r"\.\. ")
_SHOWN = re.compile(
    r"\.\. (_.*: \S|\[|(version|deprec|note|image|figure|toctree|function|method|class|include)\S*::)"
)
_OPTION = re.compile(r"\s+:\w+:|   \S")
_LABEL = re.compile(
    r"\s*\.\. (_[^:]+:|(setting|index|module|currentmodule|templatetag|fieldlookup|highlight)::.*)"
)
_OPEN = re.compile(r"[\w,]\s*")


@dataclass(frozen=True, slots=True)
class Truth:
    """Where sections begin, with the text before the first title, and their titles."""

    starts: Sequence[int]
    titles: Sequence[str]
    announced: frozenset[int]  # starts of those that do not begin with their title

    def section(self, chunk: Chunk) -> tuple[str, int]:
        """The title of the section that holds most of the chunk, and how many sections it touches."""
        shares: Counter[int] = Counter()
        for at in range(bisect_right(self.starts, chunk.start) - 1, len(self.starts)):
            low, high = self.starts[at], self.starts[at + 1] if at + 1 < len(self.starts) else chunk.end
            if low >= chunk.end:
                break
            shares[at] = min(high, chunk.end) - max(low, chunk.start)
        return self.titles[max(shares, key=lambda at: (shares[at], -at))], len(shares)


def truth(text: str) -> Truth:
    lines = text.splitlines(keepends=True)
    offsets = [0, *np.cumsum([len(line) for line in lines]).tolist()]
    starts, titles, announced = [0], [""], set()
    for at, title in _titles(lines):
        first = _above(lines, at)
        starts.append(offsets[first])
        titles.append(title)
        if first < at:
            announced.add(offsets[first])
    return Truth(starts, titles, frozenset(announced))


def _titles(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The first line of each title with its rules, and the title."""
    for at, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        if not line[:1].isspace() and _RULE.fullmatch(below) and not _RULE.fullmatch(line):
            if len(below.strip()) >= len(line.strip()) > 0:
                overlined = at and lines[at - 1] == below
                yield at - bool(overlined), line
        elif line[:1].isspace() and at and _RULE.fullmatch(below) and lines[at - 1] == below:
            yield at - 1, line


def _above(lines: Sequence[str], at: int) -> int:
    """Where the labels, comments and announcing directives begin that stand directly above a line."""
    first, line = at, at - 1
    while line >= 0:
        if lines[line].strip():
            while line > 0 and _OPTION.match(lines[line]):
                line -= 1
            if not _MARKUP.match(lines[line]) or _SHOWN.match(lines[line]):
                break
            first = line
        line -= 1
    return first


def chunked(strategy: str, documents: Sequence[Document], embed: Embed) -> list[tuple[Chunk, ...]]:
    """All documents as one collection: each beside the sums of the others."""
    plugin = find("chunkers", strategy)
    chunker = plugin.build(plugin.options(), TOKENS)
    alone = [chunker.chunk(document, embed, None) for document in documents]
    sums = [made.sums for made in alone if made.sums is not None]
    if not sums:
        return [made.chunks for made in alone]
    total = np.sum(sums, axis=0)
    return [
        chunker.chunk(document, embed, total - made.sums if made.sums is not None else total).chunks
        for document, made in zip(documents, alone, strict=True)
    ]


def named(document: Document, chunks: Sequence[Chunk]) -> list[str]:
    """The section that each chunk's metadata name."""
    rows = metadata.build(
        document, Item("a.txt", "1", "a.txt"), DocumentId("a"), chunks, [RecordId("a")] * len(chunks),
        [()] * len(chunks),
        source=SourceName(""), tokens=[0] * len(chunks), content_hashes=[""] * len(chunks), strategy="",
        recipe="",
    )  # fmt: skip
    return [str(row["section_title"] or "") for row in rows]


def _letters(title: str) -> str:
    title = re.sub(r":[\w:+-]+:(?=`)|<[^<>]*>|`~[\w.]*\.", "", title)
    return re.sub(r"[\W_]", "", title).casefold()


def _ending(document: Document, chunk: Chunk, following: Chunk) -> str:
    """What a chunk ends with: label, colon, sentence (in its midst), or something else ("")."""
    last = chunk.text.rsplit("\n", 1)[-1]
    if _LABEL.fullmatch(last):
        return "label"
    if last.endswith(":"):
        return "colon"
    kinds = {block.kind for block in document.blocks if block.start < chunk.end <= block.end}
    gap = document.text[chunk.end : following.start]
    midst = gap.count("\n") < 2 and _OPEN.fullmatch(last[-1]) and following.text[0].islower()
    return "sentence" if midst and kinds & {"paragraph", "list"} else ""


def measure(documents: Sequence[Document], made: Sequence[Sequence[Chunk]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for document, chunks in zip(documents, made, strict=True):
        known = truth(document.text)
        for chunk, title in zip(chunks, named(document, chunks), strict=True):
            right, several = known.section(chunk)
            wrong = _letters(title) != _letters(right)
            after = chunk.start in known.announced
            found.update({"chunks": 1, "tokens": TOKENS.count(chunk.text), "wrong": wrong, "after": after})
            found.update({"wrong after": wrong and after, "several": several > 1})
        for chunk, following in pairwise(chunks):
            found[_ending(document, chunk, following)] += 1
    return found


def main(every: int = 1) -> None:
    folder = Path(os.environ.get("INGESTOR_MANUAL", ""))
    files = sorted(path for end in ("txt", "rst") for path in folder.rglob(f"*.{end}"))
    there = os.environ.get("INGESTOR_MANUAL") and files
    need(there, "INGESTOR_MANUAL names no folder with .txt or .rst files, such as docs of Django's source")
    types = Counter(detect.content_type(Blob(path.read_bytes(), path.name)) for path in files)
    print("read as:", ", ".join(f"{kind} {count}" for kind, count in types.most_common()))
    parser = find("parsers", "rst").build(find("parsers", "rst").options())
    documents = [parser.parse(Blob(path.read_bytes(), path.name)) for path in files[::every]]
    heads = ("cited wrongly", "after a label", "several sections", "ends with label", "colon", "mid-sentence")
    print(f"{'strategy':12} {'chunks':>6} {'tokens':>6}  {'  '.join(f'{head:>16}' for head in heads)}")
    for strategy in ("structure", "changepoint"):
        found = measure(documents, chunked(strategy, documents, CachedModel().embed))
        chunks = max(found["chunks"], 1)
        counts = [found[key] for key in ("wrong", "several", "label", "colon", "sentence")]
        cells = [f"{count} ({count / chunks:.1%})" for count in counts]
        cells.insert(1, f"{found['wrong after']} of {found['after']}")
        size = found["tokens"] / chunks
        print(f"{strategy:12} {chunks:6} {size:6.0f}  {'  '.join(f'{c:>16}' for c in cells)}", flush=True)
