"""Join sentences that end with a colon to the text that they introduce."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ingestor.chunkers.recursive import pieces
from ingestor.text.bonds import announces
from ingestor.text.limits import count
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span, union

if TYPE_CHECKING:
    from ingestor.text.tokens import Tokens


def introduced(text: str, parts: Sequence[Span], tokens: "Tokens", most: int) -> list[Span]:
    """The ordered, trimmed parts; one that announces the next is joined to it, or to its beginning.

    Only the last sentence of a paragraph is joined. No part has more than ``most`` tokens.
    """
    found: list[Span] = []  # from the last to the first
    for part in reversed(parts):
        if not (found and announces(text, part, found[-1])):
            found.append(part)
            continue
        *before, last = sentences(text, part)
        found += _joined(text, last, found.pop(), tokens, most)
        if before:
            found.append((part[0], before[-1][1]))
    return found[::-1]


def _joined(text: str, lead: Span, following: Span, tokens: "Tokens", most: int) -> Iterator[Span]:
    """The two as one, or with what follows cut so that its beginning fits; from the last to the first."""
    whole = union(lead, following)
    if count(text, whole, tokens) <= most:
        yield whole
        return
    room = most - count(text, lead, tokens) - 2  # for the blank line between them
    first, *rest = pieces(text, following, tokens, room) if room > most // 2 else [following]
    both = union(lead, first)
    fits = count(text, both, tokens) <= most
    yield from reversed(rest)
    yield from [both] if fits else [first, lead]
