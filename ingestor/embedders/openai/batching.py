"""Which texts go into one request, and what becomes of a request that is refused. Pure.

A refused request is halved until the text is found that the server does not take. Before the first halving
the server must take a harmless text: else it refuses everything, and that says nothing about these texts.
"""

from collections.abc import Callable, Iterator, Sequence

from ingestor.model import Vector
from ingestor.ports import BadDocument, NeedsHuman, Transient

Positions = Sequence[int]
Outcome = dict[int, Vector | Exception]
Send = Callable[[Positions], Sequence[Vector | None]]  # None: numbers that are no vector


class TextsRefused(Exception):
    """The server did not take these texts; the message says why."""


_NO_VECTOR = "gave numbers for it that are no vector"


def batches(tokens: Sequence[int], most_texts: int, most_tokens: int) -> Iterator[range]:
    """Positions of neighbours, each once and in order. A text beyond ``most_tokens`` goes alone."""
    start = total = 0
    for position, number in enumerate(tokens):
        if position > start and (position - start == most_texts or total + number > most_tokens):
            yield range(start, position)
            start, total = position, 0
        total += number
    if start < len(tokens):
        yield range(start, len(tokens))


def resolved(batch: Positions, send: Send, check: Callable[[str], None]) -> Outcome:
    """Return a vector or an error for each position of a batch.

    ``send``: raises TextsRefused if one of the texts may be at fault, else Transient or NeedsHuman.
    ``check``: takes the reason of a refusal; raises Transient or NeedsHuman if the server refuses a harmless
    text, too.
    """
    try:
        found, parts, reason = _sent(batch, send)
        if parts:
            check(reason)
    except (Transient, NeedsHuman) as error:
        return dict.fromkeys(batch, error)
    if parts and len(batch) == 1:
        return {batch[0]: BadDocument(f"the embedding server {reason}")}
    for part in parts:
        found |= resolved(part, send, check)
    return found


def _sent(batch: Positions, send: Send) -> tuple[Outcome, list[Positions], str]:
    """Vectors by position, what is to be sent again, and why."""
    try:
        rows = send(batch)
    except TextsRefused as refused:
        half = (len(batch) + 1) // 2
        return {}, [part for part in (batch[:half], batch[half:]) if part], str(refused)
    pairs = list(zip(batch, rows, strict=True))
    found: Outcome = {position: row for position, row in pairs if row is not None}
    return found, [[position] for position, row in pairs if row is None], _NO_VECTOR
