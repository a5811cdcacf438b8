"""Records back to chunks of one text. Pure."""

from collections.abc import Sequence

from ingestor.model import Chunk, Metadata, Record

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
