"""From an item to its document: fetched and parsed, unless it is remembered what that gave the last time.

A version differs whenever the content may differ, so an item that is listed as it was is what it was. A
changed chunker, a collection that drifted or a record that got lost then need neither its source nor its
parser.
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
    """Of what items were parsed to; it may forget anything at any time. ``stamp``: of the item's state."""

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None: ...
    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """``document`` parses, where that was not done before; it raises what the parser raises."""

    content: Digest
    parser: str
    document: Callable[[], Document]


@dataclass(frozen=True, slots=True)
class Reader:
    """``recipes``: of the parsers; ``costly``: those whose documents are worth remembering.

    ``origin``: stands for the connector and its options, which may say what an item's content is.
    """

    source: SourceName
    fetch: Fetch
    parsers: Mapping[str, Parser]
    recipes: Mapping[str, Fingerprint]
    memory: Memory | None = None
    costly: Container[str] = ()
    types: detect.Types = ()  # what the config says of names
    origin: str = ""

    def read(self, item: Item) -> Reading:
        """Raises what the connector raises."""
        stamp = combine(detect.rules(), self.types, self.origin, item.version, item.uri)
        known = self.memory.find(self.source, item.key, stamp) if self.memory is not None else None
        if known is not None and self.recipes.get(known.parser) == known.recipe:
            return Reading(known.content, known.parser, lambda: known.document)
        blob = detect.told(self.fetch(item), item.key, self.types)
        content, parser = digest(blob.data), detect.parser_of(blob)

        def parse() -> Document:
            document = self._parser(parser).parse(blob)
            if blob.content_type == HOLDER:
                document = replace(document, content_type=HOLDER)
            if self.memory is not None and parser in self.costly:
                parsed = Parsed(content, parser, self.recipes[parser], document)
                self.memory.keep(self.source, item.key, stamp, parsed)
            return document

        return Reading(content, parser, parse)

    def recipe(self, parser: str) -> Fingerprint:
        """Of documents read by that parser; "" is a document that none could read."""
        recipe = self.recipes.get(parser) or Fingerprint(combine(*sorted(self.recipes.values())))
        if not self.types or detect.is_binary(parser):
            return recipe
        return Fingerprint(combine(recipe, self.types))

    def _parser(self, kind: str) -> Parser:
        if kind not in self.parsers:
            raise BadDocument(
                f"its parser {kind!r} is not installed: install this version of ingestor again, whole"
            )
        return self.parsers[kind]
