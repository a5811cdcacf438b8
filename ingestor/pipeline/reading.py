"""From an item to its document: fetched and parsed, or taken from the cache.

A version differs whenever the content may differ, so an item with the same version has the same content.
After a change of chunker, of the collection's statistic or of a record, neither source nor parser is needed.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ingestor.core.document_json import Parsed
from ingestor.core.fingerprint import combine, digest
from ingestor.model import HOLDER, Blob, Digest, Document, Fingerprint, Item, SourceName
from ingestor.parsers.shared import detect
from ingestor.ports import BadDocument, Parser

Fetch = Callable[[Item], Blob]


class Memory(Protocol):
    """A cache of parsed documents, which may drop any entry at any time. ``stamp``: state of the item."""

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None: ...
    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """A fetched item. ``document`` parses it, unless it is cached; raises what the parser raises."""

    content: Digest
    parser: str
    document: Callable[[], Document]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads items of one source.

    ``recipes``: recipes of the parsers. ``costly``: parsers whose documents are cached. ``origin``:
    fingerprint of the connector and its options, on which an item's content may depend.
    """

    source: SourceName
    fetch: Fetch
    parsers: Mapping[str, Parser]
    recipes: Mapping[str, Fingerprint]
    memory: Memory | None = None
    costly: Container[str] = ()
    types: detect.Types = ()  # formats that the config sets for names
    origin: str = ""

    def read(self, item: Item) -> Reading:
        """Fetch an item. Raises what the connector raises."""
        known = self._recall(item)
        if known is not None and self.recipes.get(known.parser) == known.recipe:
            return Reading(known.content, known.parser, lambda: known.document)
        blob = detect.with_type(self.fetch(item), item.key, self.types)
        content, parser = digest(blob.data), detect.parser_of(blob)

        def parse() -> Document:
            if parser not in self.parsers:
                raise BadDocument(f"parser {parser!r} is not installed: reinstall this version of ingestor")
            document = self.parsers[parser].parse(blob)
            if blob.content_type == HOLDER:
                document = replace(document, content_type=HOLDER)
            if self.memory is not None and parser in self.costly:
                parsed = Parsed(content, parser, self.recipes[parser], document)
                self.memory.keep(self.source, item.key, self._stamp(item), parsed)
            return document

        return Reading(content, parser, parse)

    def _recall(self, item: Item) -> Parsed | None:
        """Return the remembered parse of an item, if any.

        Names that promise a cheap parser are not looked up: reading the item costs less.
        """
        promised = None if self.types else detect.parser_of_name(item.key)
        if self.memory is None or (promised is not None and promised not in self.costly):
            return None
        return self.memory.find(self.source, item.key, self._stamp(item))

    def _stamp(self, item: Item) -> str:
        return combine(detect.rules(), self.types, self.origin, item.version, item.uri)

    def recipe(self, parser: str) -> Fingerprint:
        """Return the recipe of documents read by that parser; "" for a document that none could read."""
        recipe = self.recipes.get(parser) or Fingerprint(combine(*sorted(self.recipes.values())))
        if not self.types or detect.is_binary(parser):
            return recipe
        return Fingerprint(combine(recipe, self.types))
