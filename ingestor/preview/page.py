"""Page that shows how strategies cut a document: self-contained, and safe for any text. Pure.

All text from outside is escaped. The page's own content policy runs no script but ours, and loads nothing.
Long documents are truncated, and the page reports that: see ``SHOWN`` and ``LISTED``.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice, takewhile
from statistics import mean
from string import Template
from typing import TYPE_CHECKING

from ingestor.model import Document
from ingestor.preview.plot import Run, alikeness, chunk_spans, sizes, units_of, views
from ingestor.preview.view import beside, flow_lines, item, parts, safe
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.preview.preview import Cut

SHOWN = 300_000  # code points of the text that a strategy's column shows
LISTED = 3_000  # chunks that a strategy's column lists


@dataclass(frozen=True, slots=True, eq=False)
class _Sheet:
    """Values that the columns of all strategies share.

    ``text``: the document's text. ``lender``: the strategy whose vectors are drawn in the columns of
    strategies that compare no vectors.
    """

    text: str
    aligned: Sequence[Run]  # tables and code
    scale: Run  # tokens in the smallest chunk and in the largest
    lender: "Cut | None"


def page(name: str, document: Document, cuts: Sequence["Cut"], frame: str, style: str, script: str) -> str:
    """Render the page. ``name``: name of the document. ``cuts``: the chunks of each strategy.

    ``frame``: a template with $placeholders.
    """
    tokens = [size for cut in cuts for size in cut.tokens]
    sheet = _Sheet(
        flow_lines(document),
        [(block.start, block.end) for block in document.blocks if block.kind in ("table", "code")],
        (min(tokens, default=1), max(tokens, default=1)),
        next((cut for cut in cuts if cut.seen), None),
    )
    lines = quantity(document.text.count("\n") + 1, "line")
    length = f"{quantity(len(document.text), 'character')} · {lines}"
    title = f"{document.title} · " if document.title else ""
    return Template(frame).substitute(
        name=safe(name),
        facts=safe(f"{title}{document.content_type} · {length}"),
        style=style,
        script=script,
        script_digest=b64encode(sha256(script.encode()).digest()).decode(),
        strategies="\n".join(_strategy(at, sheet, cut) for at, cut in enumerate(cuts)),
        several="several" if len(cuts) > 1 else "alone",
    )


def _strategy(at: int, sheet: _Sheet, cut: "Cut") -> str:
    """Render the column of one strategy. ``at``: number of the column."""
    looked = cut if cut.seen else sheet.lender
    matrix = curve = ""
    units: Sequence[Sequence[Run]] = [()] * len(cut.chunks)
    alike: Sequence[str] = [""] * len(cut.chunks)
    if looked and looked.seen:
        units = units_of(looked.seen.spans, cut.chunks)
        alike = alikeness(looked.seen, units)
        matrix, curve = views(looked.seen, units, None if looked is cut else looked.strategy)
    share = getattr(cut.choice.options, "neighbours", 0.0)
    return (
        f'<section class="strategy" aria-labelledby="name{at}" data-neighbours="{share:g}">'
        f"<header>{_head(at, cut, share)}</header>"
        f'<div class="figures">{matrix}{sizes(cut.tokens, sheet.scale)}{curve}</div>'
        f'<div class="text" role="region" aria-label="chunks of {safe(cut.strategy)}" tabindex="0">'
        f"{_list_chunks(sheet, cut, units, alike)}</div></section>"
    )


def _head(at: int, cut: "Cut", share: float) -> str:
    """Render the head of a column: figures, and options.

    Options that differ from their defaults are always shown, all options after a click.
    """
    tokens = cut.tokens or [0]
    spent = f" ({cut.embedding:.2f} embedding)" if cut.embedding else ""
    facts = {
        "chunks": f"{len(cut.chunks):,}",
        "tokens": f"{min(tokens)} to {max(tokens)}, mean {mean(tokens):.0f}",
        "seconds": f"{cut.seconds:.2f}{spent}",
    }
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    values = cut.choice.options.model_dump(mode="json")
    changed = cut.choice.options.model_dump(mode="json", exclude_defaults=True)
    glance = " · ".join(f"{key} {value}" for key, value in changed.items()) or "default options"
    options = "".join(f"<dt>{safe(key)}</dt><dd>{safe(value)}</dd>" for key, value in values.items())
    shown = f"<details><summary>{safe(glance)}</summary><dl>{options}</dl></details>"
    if share:
        shown += (
            f"<p>Each vector includes {share:g} of either neighbour, and {share / 2:g} of the next ones.</p>"
        )
    return f'<h2 id="name{at}">{safe(cut.strategy)}</h2><dl>{rows}</dl>{shown}'


def _list_chunks(sheet: _Sheet, cut: "Cut", units: Sequence[Sequence[Run]], alike: Sequence[str]) -> str:
    if not cut.chunks:
        return '<p class="note">No chunks: the document has no text.</p>'
    count = len(list(takewhile(lambda chunk: chunk.start < SHOWN, cut.chunks[:LISTED])))
    texts = parts(sheet.text, cut.chunks[: count + 1])
    rows = zip(cut.chunks, cut.metadata, texts, units, alike, strict=False)
    items = "".join(
        item(number, beside(chunk, meta), text, sheet.aligned, chunk_spans(chunk), where, near)
        for number, (chunk, meta, text, where, near) in enumerate(islice(rows, count), start=1)
    )
    left, note = len(cut.chunks) - count, ""
    if left:
        note = f'<p class="note">{quantity(left, "more chunk")} not shown; the figures are of all.</p>'
    return f"<ol>{items}</ol>{note}"
