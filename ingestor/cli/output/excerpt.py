"""Prints texts for people: the hits of a query, and the chunks of a document."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ingestor.cli.output.console import out, print_wrapped
from ingestor.cli.usage import command
from ingestor.core.escape import escape_invisible, line
from ingestor.lexical.terms import question_words, terms
from ingestor.search.values import NOT_RERANKED, below_header, heading_of, place_of
from ingestor.text.sentences import sentences
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.model import Metadata
    from ingestor.queries.reading import Shown
    from ingestor.search.values import Answer, Copy
    from ingestor.text.spans import Span

WIDEST = 100  # columns: longer lines are hard to read
LINES = 6  # lines of an answer's text that are printed
INDENT = "       "  # as wide as a score

NARROWEST = 6  # columns of a terminal for a column of a table

_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"(?=[|\s:]*+-)[|\s:-]*")  # below the header of a table
_FENCE = re.compile(r"\s*(?:```|~~~)")
_PADDING = re.compile(r"( ) +|(---)-+")  # in a table's cells, and in the line below its header
_OWN_LINE = re.compile(r"\s*(?:[|>#]|[-*+] |\d+[.)] )|\s{4}")  # Markdown whose line end counts
_TITLE_MARKS = "#=* \t\\"  # around a heading in Markdown, AsciiDoc or Org
_UNDERLINE = re.compile(r"([=~^*+\"'`#-])\1{2,}[ \t]*")  # below a heading in reStructuredText or Markdown


def show_hits(answer: Answer, unsearchable: int = 0, question: str = "") -> None:
    """Print the hits of a query, each as an excerpt that begins with the best matching sentence.

    A hit's heading is printed above its text, and is left out of the text. ``unsearchable``: number of new or
    changed documents that a search does not find yet.
    """
    _print_fallback(answer)
    headings = [heading_of(hit.metadata) or "" for hit in answer.hits]
    texts = [
        below_header(_omit_heading(hit.document, heading), hit.metadata.get("table_header"))
        for hit, heading in zip(answer.hits, headings, strict=True)
    ]
    languages = [str(hit.metadata.get("language") or "") for hit in answer.hits]
    matches = find_matches(question, texts, languages)
    for hit, heading, text, match in zip(answer.hits, headings, texts, matches, strict=True):
        out.print(Text.assemble((f"{hit.score:5.3f}  ", "bold green"), (line(_place(hit.metadata)), "cyan")))
        if heading:
            print_wrapped(Text(line(heading), "bold"), INDENT)
        for shown in excerpt(text, min(out.width, WIDEST) - len(INDENT), match):
            out.print(Text(INDENT + shown))
        _print_copies(hit.also_in, INDENT)
        out.print()
    _print_unseen(answer, unsearchable, bool(answer.hits))


def show_passages(answer: Answer, unsearchable: int = 0) -> None:
    """Print the whole text of each passage below its citation, to be used as the context of a prompt."""
    _print_fallback(answer)
    for passage in answer.passages:
        first, last = passage.lines or (None, None)
        where = {"source": passage.source, "page": passage.page, "start_line": first, "end_line": last}
        out.print(Text(line(_place(where)), "cyan"))
        if passage.heading_path:
            out.print(Text(line(passage.heading_path), "bold"))
        text = _omit_heading(passage.text, passage.heading_path or "")
        out.print(Text(escape_invisible(below_header(text, passage.table_header))))
        _print_copies(passage.also_in, "")
        out.print()
    _print_unseen(answer, unsearchable, bool(answer.passages))


def _omit_heading(text: str, heading: str) -> str:
    """Return a text without the headings at its start that ``heading`` already names.

    A text that consists of headings alone is returned unchanged.
    """
    titles, rest = heading.split(" > ") if heading else [], text.lstrip()
    while (row := rest.partition("\n"))[0].strip(_TITLE_MARKS) in titles:
        below = row[2].lstrip("\n")
        under, _, after = below.partition("\n")
        rest = (after if _UNDERLINE.fullmatch(under) else below).lstrip()
    return rest if rest and rest != text.lstrip() else text


def _print_copies(copies: Sequence[Copy], indent: str) -> None:
    names = dict.fromkeys(_place({"source": copy.source}) for copy in copies)
    if names:
        print_wrapped(Text(f"also in {line(', '.join(names))}", "dim"), indent)


def _print_unseen(answer: Answer, unsearchable: int, has_hits: bool) -> None:
    """Report that nothing was found, or that new or changed documents cannot be searched yet."""
    changed = (
        f"{quantity(unsearchable, 'new or changed document')} cannot be searched yet, see `ingestor status`"
    )
    if has_hits:
        if unsearchable:
            print(changed, file=sys.stderr)
    elif answer.needed_tokens is not None:
        print(f"the best hit has {quantity(answer.needed_tokens, 'token')}: raise --budget")
    else:
        print("nothing found" + (f"; {changed}" if unsearchable else ""))


def _print_fallback(answer: Answer) -> None:
    if answer.fallback:
        before = "" if answer.fallback.startswith(NOT_RERANKED) else "search by vectors only: "
        print(before + line(answer.fallback), file=sys.stderr)


def show_chunks(shown: Shown, as_json: bool, config: Path) -> None:
    """Print the chunks of a document.

    If other documents match the name, too, print the commands that show them, on standard error.
    """
    for other in shown.others:
        words = f"source {line(other.source)} also has a document of this name; to see it: "
        print(words + command(f"show {other.document_id}", config), file=sys.stderr)
    document = shown.document
    chunks = [{"id": r.id, "text": r.text, "metadata": dict(r.metadata)} for r in shown.records]
    if as_json:
        named = {"document_id": document.document_id, "key": document.document}
        print(json.dumps({**named, "state": document.state, "reason": document.reason, "chunks": chunks}))
        return
    where = f"source {document.source}, collection {document.collection}, id {document.document_id}"
    out.print(Text(line(f"{document.document}  ({where})"), "bold"))
    if document.state != "settled":
        reason = "" if document.reason is None else f": {line(document.reason)}"
        print_wrapped(Text.assemble((document.state, "yellow"), reason))
    for number, record in enumerate(shown.records):
        out.print()
        out.print(Text(line(_span(str(record.id), record.metadata)), "bold cyan"))
        if context := record.metadata.get("context"):
            print_wrapped(Text(line(f"in front: {' | '.join(str(context).splitlines())}"), "dim"))
        out.print(Text(escape_invisible(record.text), "yellow" if number % 2 else "default"))
    if not shown.records:
        print("the document has no records")


def find_matches(question: str, texts: Sequence[str], languages: Sequence[str]) -> list[Span]:
    """Find in each text the sentence that matches the question best.

    The best sentence has most words of the question, of which rare words count more. The span of a text
    without any of the words is empty. ``languages``: language of each text; "" if unknown.
    """
    words = question_words(question, languages)

    def words_in(sentence: str, language: str) -> set[int]:
        """Return the words of the question that the sentence contains in any form, by their position."""
        present = {*terms(sentence, language), *terms(sentence)}
        return {at for at, forms in enumerate(words) if not present.isdisjoint(forms)}

    matching = [
        {span: words_in(text[slice(*span)], language) for span in sentences(text, language=language or None)}
        for text, language in zip(texts, languages, strict=True)
    ]
    times = Counter(word for each in matching for present in each.values() for word in present)
    total = sum(map(len, matching))

    def weigh(present: set[int]) -> float:
        return sum(log((total + 1) / times[word]) for word in present)

    none = 0.0, 0, (0, 0)
    return [max(((weigh(each[s]), -s[0], s) for s in each), default=none)[2] for each in matching]


def excerpt(text: str, width: int, match: Span = (0, 0)) -> list[str]:
    """Lay out the beginning of a text as lines of ``width`` columns, at most ``LINES`` of them.

    If the span ``match`` would not be shown, the excerpt begins at that span; in a table, below the table's
    header. Line breaks inside paragraphs are removed, and those of lists, headings and code are kept. Tables
    are printed in columns.
    """
    lines = _lines(text, width)
    if len(lines) > LINES and len(_lines(text[: match[1]], width)) > LINES:
        above, rest = text[: match[0]], text[match[0] :]
        if _OWN_LINE.match(rest):
            table = [*takewhile(_is_row, reversed(above.splitlines()))][::-1]
            is_headed = len(table) > 1 and _RULE.fullmatch(table[1]) and _is_row(rest.partition("\n")[0])
            lines = ["…", *_lines("\n".join([*(table[:2] if is_headed else ()), rest]), width)]
        else:
            lines = _lines(f"… {rest}", width)
    if len(lines) <= LINES:
        return lines
    *first, last = lines[:LINES]
    return [*first, f"{_wrap(last, width - 2)[0]} …"]


def _lines(text: str, width: int) -> list[str]:
    """Lay out a text as lines of at most ``width`` columns. Control characters are escaped."""
    wrapped = list[str]()
    for is_table, paragraphs in groupby(_paragraphs(escape_invisible(text)), _is_row):
        rows = list(paragraphs)
        columns = _columns(rows, width) if is_table else []
        wrapped += columns or [part for row in rows for part in _wrap(row, width)]
    return wrapped


def _is_row(paragraph: str) -> bool:
    return paragraph.startswith("|") and paragraph.endswith("|") and len(paragraph) > 1


def _columns(rows: Sequence[str], width: int) -> list[str]:
    """Lay out a Markdown table in columns. ``rows``: lines of the table.

    Return an empty list if the table has only one row, or does not fit into the width.
    """
    cells = [[cell.strip() for cell in _CELL.split(row[1:-1])] for row in rows]
    number = max(map(len, cells))
    if len(rows) < 2 or number * (NARROWEST + 2) > width:
        return []
    ruled = _RULE.fullmatch(rows[1]) is not None
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=ruled)
    titles = cells[0] if ruled else []
    for title in [*titles, *[""] * (number - len(titles))]:
        table.add_column(Text(title.replace("\\|", "|")), overflow="fold")
    for row, texts in zip(rows, cells, strict=True):
        if _RULE.fullmatch(row) is None and not (ruled and texts is cells[0]):
            table.add_row(*(Text(text.replace("\\|", "|")) for text in texts))
    lines = out.render_lines(table, out.options.update(width=width, no_wrap=False))
    return [line for parts in lines if (line := "".join(part.text for part in parts).rstrip())]


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, each as one line.

    Lines that must not be joined, such as those of lists, tables and code, are paragraphs of their own.
    """
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


def _wrap(paragraph: str, width: int) -> list[str]:
    """Wrap a paragraph to ``width`` columns of the terminal, in which a Chinese character takes two columns.

    If the paragraph is a row of a table, its padding is removed first.
    """
    row = Text(paragraph.expandtabs(4))
    if row.cell_len > width and paragraph.startswith("|"):
        row = Text(_PADDING.sub(r"\1\2", row.plain))
    rows = row.wrap(out, max(20, width))
    return [row.plain.rstrip() for row in rows]


def _place(metadata: Metadata) -> str:
    """Format where a hit is: ``documents/faq.md:25-41`` or ``documents/report.pdf, page 3``.

    Paths are relative to the current folder. The form ``path:lines`` is the one that editors can open.
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
        quantity(int(str(metadata["token_count"])), "token") if "token_count" in metadata else "",
        str(metadata.get("heading_path") or ""),
    ]
    return "  ".join(part for part in parts if part)
