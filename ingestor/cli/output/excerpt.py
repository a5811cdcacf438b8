"""Texts for people: the results of a query, and a document's chunks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from ingestor.cli.output.console import out, print_wrapped
from ingestor.cli.usage import command
from ingestor.core.escape import escape_invisible, line
from ingestor.search.values import NOT_RERANKED, heading_of, place_of
from ingestor.search.values import as_json as as_parsed
from ingestor.units import counted

if TYPE_CHECKING:
    from ingestor.model import Metadata
    from ingestor.queries.documents import Shown
    from ingestor.search.values import Answer, Copy

WIDEST = 100  # columns: longer lines are hard to read
LINES = 6  # of an answer's text that are shown
INDENT = "       "  # as wide as a score

_FENCE = re.compile(r"\s*(?:```|~~~)")
_PADDING = re.compile(r"( ) +|(---)-+")  # of a table's cells, and of the line below its header
_OWN_LINE = re.compile(r"\s*(?:[|>#]|[-*+] |\d+[.)] )|\s{4}")  # Markdown that means its line end


def show_hits(answer: Answer, as_json: bool, unsearchable: int = 0) -> None:
    """Print hits. ``unsearchable``: documents with a change unseen by readers, named if nothing is found."""
    if as_json:
        print(json.dumps(as_parsed(answer)))
        return
    _tell_fallback(answer)
    for hit in answer.hits:
        out.print(Text.assemble((f"{hit.score:5.3f}  ", "bold green"), (line(_place(hit.metadata)), "cyan")))
        if heading := heading_of(hit.metadata):
            print_wrapped(Text(line(heading), "bold"), INDENT)
        for shown in excerpt(hit.document, min(out.width, WIDEST) - len(INDENT)):
            out.print(Text(INDENT + shown))
        _tell_copies(hit.also_in, INDENT)
        out.print()
    if not answer.hits:
        _tell_nothing(answer, unsearchable)


def show_passages(answer: Answer, as_json: bool, unsearchable: int = 0) -> None:
    """Whole passages, each with its citation: a context for a prompt."""
    if as_json:
        print(json.dumps(as_parsed(answer)))
        return
    _tell_fallback(answer)
    for passage in answer.passages:
        lines = (
            {} if passage.lines is None else {"start_line": passage.lines[0], "end_line": passage.lines[1]}
        )
        where = {"source": passage.source, "page": passage.page, **lines}
        out.print(Text(line(_place(where)), "cyan"))
        if passage.heading_path:
            out.print(Text(line(passage.heading_path), "bold"))
        out.print(Text(escape_invisible(passage.text)))
        _tell_copies(passage.also_in, "")
        out.print()
    if not answer.passages:
        _tell_nothing(answer, unsearchable)


def _tell_copies(copies: Sequence[Copy], indent: str) -> None:
    names = dict.fromkeys(_place({"source": copy.source}) for copy in copies)
    if names:
        print_wrapped(Text(f"also in {line(', '.join(names))}", "dim"), indent)


def _tell_nothing(answer: Answer, unsearchable: int) -> None:
    if answer.needed_tokens is not None:
        print(f"the best hit has {counted(answer.needed_tokens, 'token')}: raise --budget")
        return
    changed = counted(unsearchable, "new or changed document")
    print(
        "nothing found"
        + (f"; {changed} cannot be searched yet, see `ingestor status`" if unsearchable else "")
    )


def _tell_fallback(answer: Answer) -> None:
    if answer.fallback:
        before = "" if answer.fallback.startswith(NOT_RERANKED) else "search by vectors only: "
        print(before + line(answer.fallback), file=sys.stderr)


def show_chunks(found: Shown, as_json: bool, config: Path) -> None:
    """The chunks, and on standard error how to see other documents that the name fits."""
    _print_chunks(found, as_json)
    for other in found.others:
        said = f"source {line(other.source)} also has a document of this name; to see it: "
        print(said + command(f"show {other.document_id}", config), file=sys.stderr)


def _print_chunks(found: Shown, as_json: bool) -> None:
    document = found.document
    chunks = [{"id": r.id, "text": r.text, "metadata": dict(r.metadata)} for r in found.records]
    if as_json:
        named = {"document_id": document.document_id, "key": document.document}
        print(json.dumps({**named, "state": document.state, "reason": document.reason, "chunks": chunks}))
        return
    where = f"source {document.source}, collection {document.collection}, id {document.document_id}"
    out.print(Text(line(f"{document.document}  ({where})"), "bold"))
    if document.state != "settled":
        reason = "" if document.reason is None else f": {line(document.reason)}"
        print_wrapped(Text.assemble((document.state, "yellow"), reason))
    for number, record in enumerate(found.records):
        out.print()
        out.print(Text(line(_span(str(record.id), record.metadata)), "bold cyan"))
        if context := record.metadata.get("context"):
            print_wrapped(Text(line(f"in front: {' | '.join(str(context).splitlines())}"), "dim"))
        out.print(Text(escape_invisible(record.text), "yellow" if number % 2 else "default"))
    if not found.records:
        print("the document has no records")


def excerpt(text: str, width: int) -> list[str]:
    """The beginning of a text in at most ``LINES`` lines of ``width`` columns, cut at words.

    Wrapped paragraphs are joined; tables, lists, headings and code keep their lines.
    """
    wrapped = [
        part for paragraph in _paragraphs(escape_invisible(text)) for part in _wrapped(paragraph, width)
    ]
    if len(wrapped) <= LINES:
        return wrapped
    *whole, last = wrapped[:LINES]
    return [*whole, f"{_wrapped(last, width - 2)[0]} …"]


def _paragraphs(text: str) -> Iterator[str]:
    gathered: list[str] = []
    code = False
    for row in text.splitlines():
        fence = _FENCE.match(row) is not None
        own = code or fence or not row.strip() or _OWN_LINE.match(row)
        if gathered and (own or gathered[-1].startswith("#") or _FENCE.match(gathered[-1])):
            yield " ".join(gathered)
            gathered = []
        code ^= fence
        if row.strip():
            gathered.append(row.rstrip() if not gathered else row.strip())
    if gathered:
        yield " ".join(gathered)


def _wrapped(paragraph: str, width: int) -> list[str]:
    """Wrapped by terminal columns; a Chinese character takes two. A table's row loses its padding first."""
    row = Text(paragraph.expandtabs(4))
    if row.cell_len > width and paragraph.startswith("|"):
        row = Text(_PADDING.sub(r"\1\2", row.plain))
    rows = row.wrap(out, max(20, width))
    return [row.plain.rstrip() for row in rows]


def _place(metadata: Metadata) -> str:
    """Return where a hit stands: ``documents/faq.md:25-41`` or ``documents/report.pdf, page 3``.

    Paths are relative to the current folder. Only lines have the form that editors open.
    """
    source = str(metadata.get("source"))
    if Path(source).is_relative_to(Path.cwd()):
        source = str(Path(source).relative_to(Path.cwd()))
    first, last = metadata.get("start_line"), metadata.get("end_line")
    if first is None or isinstance(metadata.get("page"), int):
        return ", ".join(filter(None, (source, place_of(metadata))))
    return f"{source}:{first}" + (f"-{last}" if last != first else "")


def _span(id_: str, metadata: Metadata) -> str:
    parts = [
        f"#{id_.rpartition('#')[2]}",
        f"characters {metadata.get('start_index')}-{metadata.get('end_index')}",
        place_of(metadata),
        counted(int(str(metadata["token_count"])), "token") if "token_count" in metadata else "",
        str(metadata.get("heading_path") or ""),
    ]
    return "  ".join(part for part in parts if part)
