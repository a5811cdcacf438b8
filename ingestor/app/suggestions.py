"""Questions that a collection can answer: headings of its records."""

import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from ingestor.chroma.backend import Collections
from ingestor.core.entries import Edition
from ingestor.core.escape import line
from ingestor.ports import Gone, NeedsHuman, Torn, Transient

LOOKED_AT = 300  # records whose headings are candidates
LONGEST = 60  # characters of a question


def suggest(collections: Collections, edition: Edition, number: int) -> tuple[str, ...]:
    """Return so many headings of a collection, the best first; none if Chroma cannot be read."""
    with suppress(Transient, Gone, Torn, NeedsHuman):
        index = collections.edition(edition)
        if index is not None:
            records = index.read(list(islice(index.ids(), LOOKED_AT)))
            titles = [r.metadata.get("section_title") or r.metadata.get("title") for r in records]
            return rank(line(str(title)) for title in titles if title)[:number]
    return ()


def rank(titles: Iterable[str]) -> tuple[str, ...]:
    """Order the candidates without their section numbers: questions first, then the longest."""
    plain = {re.sub(r"^[\d.]+\s+", "", title) for title in titles}
    fitting = sorted(title for title in plain if title and len(title) <= LONGEST)
    return tuple(
        sorted(fitting, key=lambda title: (title.endswith("?"), ". " not in title, len(title)), reverse=True)
    )
