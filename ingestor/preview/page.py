"""Page that shows how strategies cut a document: self-contained, and safe for any text. Pure.

All text from outside is escaped. The page's own policy runs no script but ours, and loads nothing.
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
from ingestor.preview.chunk_list import item, safe
from ingestor.preview.figures import alikeness, chunk_spans, sizes, units_of, views
from ingestor.preview.plot import Run
from ingestor.preview.view import beside, flowing, parts
from ingestor.units import counted

if TYPE_CHECKING:
    from ingestor.preview.preview import Cut

SHOWN = 300_000  # code points of the text that a strategy's column shows
LISTED = 3_000  # chunks that it shows


@dataclass(frozen=True, slots=True)
class Assets:
    """The page's frame, with $places for what is put in, its style and its script."""

    frame: str
    style: str
    script: str


@dataclass(frozen=True, slots=True, eq=False)
class _Sheet:
    """Values that all columns share. ``lender``: cut with vectors, shown by strategies without vectors."""

    text: str
    aligned: Sequence[Run]  # tables and code
    scale: Run  # tokens in the smallest chunk and in the largest
    lender: "Cut | None"


def page(name: str, document: Document, cuts: Sequence["Cut"], assets: Assets) -> str:
    """Render the page. ``name``: name of the document."""
    sheet = _Sheet(
        flowing(document),
        [(block.start, block.end) for block in document.blocks if block.kind in ("table", "code")],
        _extremes([size for found in cuts for size in found.tokens]),
        next((found for found in cuts if found.seen), None),
    )
    return Template(assets.frame).substitute(
        name=safe(name),
        facts=_facts(document),
        style=assets.style,
        script=assets.script,
        script_digest=b64encode(sha256(assets.script.encode()).digest()).decode(),
        strategies="\n".join(_strategy(at, sheet, found) for at, found in enumerate(cuts)),
        several="several" if len(cuts) > 1 else "alone",
    )


def _facts(document: Document) -> str:
    lines = document.text.count("\n") + 1
    title = f"{document.title} · " if document.title else ""
    length = f"{counted(len(document.text), 'character')} · {counted(lines, 'line')}"
    return safe(f"{title}{document.content_type} · {length}")


def _strategy(at: int, sheet: _Sheet, found: "Cut") -> str:
    looked = found if found.seen else sheet.lender
    matrix = curve = ""
    units: Sequence[Sequence[Run]] = [()] * len(found.chunks)
    alike: Sequence[str] = [""] * len(found.chunks)
    if looked and looked.seen:
        units = units_of(looked.seen.spans, found.chunks)
        alike = alikeness(looked.seen, units)
        matrix, curve = views(looked.seen, units, None if looked is found else looked.strategy)
    share = getattr(found.choice.options, "neighbours", 0.0)
    return (
        f'<section class="strategy" aria-labelledby="name{at}" data-neighbours="{share:g}">'
        f"<header>{_head(at, found, share)}</header>"
        f'<div class="figures">{matrix}{sizes(found.tokens, sheet.scale)}{curve}</div>'
        f'<div class="text" role="region" aria-label="chunks of {safe(found.strategy)}" tabindex="0">'
        f"{_listed(sheet, found, units, alike)}</div></section>"
    )


def _head(at: int, found: "Cut", share: float) -> str:
    tokens = found.tokens or [0]
    spent = f" ({found.embedding:.2f} embedding)" if found.embedding else ""
    facts = {
        "chunks": f"{len(found.chunks):,}",
        "tokens": f"{min(tokens)} to {max(tokens)}, mean {mean(tokens):.0f}",
        "seconds": f"{found.seconds:.2f}{spent}",
    }
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    mixed = (
        f"<p>Vectors take {share:g} of either neighbour, {share / 2:g} of the next ones.</p>" if share else ""
    )
    return f'<h2 id="name{at}">{safe(found.strategy)}</h2><dl>{rows}</dl>{_options(found)}{mixed}'


def _options(found: "Cut") -> str:
    """Render the options: changed options in the summary, all options on demand."""
    values = found.choice.options.model_dump(mode="json")
    changed = found.choice.options.model_dump(mode="json", exclude_defaults=True)
    glance = " · ".join(f"{key} {value}" for key, value in changed.items()) or "default options"
    rows = "".join(f"<dt>{safe(key)}</dt><dd>{safe(value)}</dd>" for key, value in values.items())
    return f"<details><summary>{safe(glance)}</summary><dl>{rows}</dl></details>"


def _listed(sheet: _Sheet, found: "Cut", units: Sequence[Sequence[Run]], alike: Sequence[str]) -> str:
    if not found.chunks:
        return '<p class="note">No chunks: the document has no text.</p>'
    count = len(list(takewhile(lambda chunk: chunk.start < SHOWN, found.chunks[:LISTED])))
    texts = parts(sheet.text, found.chunks[: count + 1])
    rows = zip(found.chunks, found.metadata, texts, units, alike, strict=False)
    items = "".join(
        item(number, beside(chunk, meta), text, sheet.aligned, chunk_spans(chunk), where, near)
        for number, (chunk, meta, text, where, near) in enumerate(islice(rows, count), start=1)
    )
    left = len(found.chunks) - count
    note = (
        f'<p class="note">{counted(left, "more chunk")} not shown; the figures are of all.</p>'
        if left
        else ""
    )
    return f"<ol>{items}</ol>{note}"


def _extremes(found: Sequence[int]) -> Run:
    return (min(found), max(found)) if found else (1, 1)
