"""Places of a quotation in a text: exact, or without regard to spaces, punctuation and case. Pure."""

import unicodedata
from array import array
from collections.abc import Sequence
from functools import cached_property

from ingestor.evaluate.scores import Excerpt
from ingestor.units import counted

_LEAST = 8  # letters and digits; a shorter quotation is found exactly or not at all


class Searchable:
    """A text that quotations are looked for in."""

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, quotation: str) -> tuple[int, int] | None:
        """The first place, as offsets of the text."""
        quotation = quotation.strip()
        at = self.text.find(quotation) if quotation else -1
        if at >= 0:
            return at, at + len(quotation)
        letters, _ = _letters(quotation)
        if len(letters) < _LEAST:
            return None
        whole, places = self._letters
        at = whole.find(letters)
        return (places[at], places[at + len(letters) - 1] + 1) if at >= 0 else None

    @cached_property
    def _letters(self) -> tuple[str, "array[int]"]:
        return _letters(self.text)


def locate(quotation: str, documents: Sequence[tuple[int, Searchable]]) -> Excerpt | str:
    """Find a quotation in exactly one of the numbered documents, or return the reason of a refusal."""
    if not quotation.strip():
        return "the excerpt is empty"
    places = [(number, place) for number, text in documents if (place := text.find(quotation))]
    if len(places) == 1:
        (number, (start, end)), *_ = places
        return Excerpt(number, start, end)
    if places:
        return f"the excerpt is in {counted(len(places), 'document')}: name one in the column document"
    return "the excerpt is not in the text that was read"


def _letters(text: str) -> tuple[str, "array[int]"]:
    """Letters and digits alone, compatibility forms and case folded, and where each comes from."""
    kept, places = list[str](), array("L")
    for at, character in enumerate(text):
        folded = unicodedata.normalize("NFKC", character).casefold()
        letters = [each for each in folded if each.isalnum()]
        kept += letters
        places.extend([at] * len(letters))
    return "".join(kept), places
