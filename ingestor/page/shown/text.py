"""Records back to chunks of one text, and where in a text the words of a question are. Pure."""

from collections.abc import Iterator, Sequence, Set

from markupsafe import Markup

from ingestor.lexical.terms import places
from ingestor.model import Chunk, Metadata, Record
from ingestor.preview.view import shown

Span = tuple[int, int]


def chunks_of(records: Sequence[Record]) -> list[Chunk]:
    """The chunks that records were made of, with offsets from the first; ``records``: in their order.

    A text that is not as long as its span was written by a model, or has several spans: it stands for itself.
    """
    base = _base(records)
    return [_chunk(record, base) for record in records]


def text_of(records: Sequence[Record]) -> str:
    """The text that the records are of, from the first on. What no record holds is white space."""
    base = _base(records)
    exact = [(span[0] - base, record.text) for record in records if (span := _span(record)) is not None]
    pieces, at = list[str](), 0
    for start, text in sorted(exact):
        pieces += [" " * (start - at), text[max(0, at - start) :]]
        at = max(at, start + len(text))
    return "".join(pieces)


def _base(records: Sequence[Record]) -> int:
    return min((span[0] for record in records if (span := _span(record)) is not None), default=0)


def _chunk(record: Record, base: int) -> Chunk:
    span = _span(record)
    if span is None:
        return Chunk(0, 0, record.text, rewritten=True)
    return Chunk(span[0] - base, span[1] - base, record.text)


def _span(record: Record) -> Span | None:
    """Return the record's span in its document; None if the text's length differs from the span's."""
    start, end = _whole(record.metadata, "start_index"), _whole(record.metadata, "end_index")
    if start is None or end is None or len(record.text) != end - start:
        return None
    return start, end


def _whole(metadata: Metadata, key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def marked(text: str, language: str | None, wanted: Set[str], most: int) -> Markup:
    """The text with the words of ``wanted`` marked; about ``most`` characters from the first of them on."""
    found = list(places(text, language, wanted))
    start = _start(text, found[0][0] if found else 0, most)
    end = min(len(text), start + most)
    made = list(_pieces(text, start, end, found))
    return Markup("").join([*["… "][: start > 0], *made, *[" …"][: end < len(text)]])


def _start(text: str, first: int, most: int) -> int:
    """Where an excerpt begins that shows the first marked word: at the beginning, or at a word before it."""
    if len(text) <= most or first < most * 2 // 3:
        return 0
    start = min(first - most // 3, len(text) - most)
    gap = text.find(" ", start, first)
    return start if gap < 0 else gap + 1


def _pieces(text: str, start: int, end: int, found: Sequence[Span]) -> Iterator[Markup]:
    at = start
    for a, b in found:
        if a >= at and b <= end:
            yield Markup("{}<mark>{}</mark>").format(shown(text[at:a]), shown(text[a:b]))
            at = b
    yield Markup("{}").format(shown(text[at:end]))
