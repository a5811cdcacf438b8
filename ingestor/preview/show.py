"""Chunks for people: in alternating colours on a terminal, as plain separated text elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ingestor.core.escape import line
from ingestor.model import Document
from ingestor.preview.preview import Cut
from ingestor.preview.view import Beside, Part, beside, flow_lines, parts, show_controls
from ingestor.units import counted

COLOURS = ("cyan", "magenta")  # legible on dark and on light
GUTTER = 24  # columns
ROLES = {"own": "", "gap": "dim ", "before": "dim italic ", "after": "dim italic "}


def show(document: Document, cuts: Sequence[Cut]) -> None:
    """Every chunk of every strategy."""
    out = _console()
    for cut in cuts:
        if len(cuts) > 1:
            out.print(Text(f"=== {cut.strategy} ===\n", "bold"))
        _on_terminal(out, document, cut) if out.is_terminal else _plain(out, cut)


@contextmanager
def show_waiting(words: str) -> Iterator[None]:
    """A sign of life on a terminal."""
    with Console(stderr=True).status(words):
        yield


def summarize(cuts: Sequence[Cut]) -> None:
    """A line a strategy."""
    out, width = _console(), max(len(cut.strategy) for cut in cuts)
    for cut in cuts:
        out.print(Text.assemble((f"{cut.strategy:{width}}", "bold"), f"  {summary(cut)}"))


def summary(cut: Cut) -> str:
    sizes = cut.tokens
    if not sizes:
        return "no chunks: the document has no text"
    spent = f", {cut.embedding:.2f} s of it embedding" if cut.embedding else ""
    range_ = f"min {min(sizes)}, mean {mean(sizes):.0f}, max {max(sizes)}"
    return f"{counted(len(sizes), 'chunk')}; tokens: {range_}; {cut.seconds:.2f} s{spent}"


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _plain(out: Console, cut: Cut) -> None:
    for number, (chunk, meta) in enumerate(zip(cut.chunks, cut.metadata, strict=True), start=1):
        beside_words = beside(chunk, meta)
        place = ", ".join(
            filter(
                None,
                [
                    beside_words.tokens,
                    beside_words.lines,
                    *beside_words.notes,
                    " > ".join(beside_words.headings),
                ],
            )
        )
        out.print(Text(f"--- {number} of {len(cut.chunks)}: {place}"))
        if context := meta.get("context"):
            out.print(Text(f"in front: {line(' | '.join(str(context).splitlines()))}"))
        out.print(Text(f"{show_controls(chunk.text)}\n"))


def _on_terminal(out: Console, document: Document, cut: Cut) -> None:
    texts = parts(flow_lines(document), cut.chunks)
    for number, (chunk, meta, text) in enumerate(zip(cut.chunks, cut.metadata, texts, strict=True)):
        if context := meta.get("context"):
            out.print(Text(line(" | ".join(str(context).splitlines())), "dim italic"), soft_wrap=False)
        out.print(_row(number, beside(chunk, meta), text, out.width), soft_wrap=False)
        out.print()


def _row(number: int, beside_words: Beside, text: Sequence[Part], width: int) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=min(GUTTER, width // 3), no_wrap=True, overflow="ellipsis", style="dim")
    row.add_column(overflow="fold")
    margin = [
        f"{number + 1:<4}{beside_words.tokens}",
        beside_words.lines,
        *beside_words.headings,
        *beside_words.notes,
    ]
    coloured = ((show_controls(part.text), f"{ROLES[part.role]}{COLOURS[number % 2]}") for part in text)
    row.add_row(Text("\n".join(margin)), Text.assemble(*coloured))
    return row
