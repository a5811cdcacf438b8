"""Parsed documents in the cache (see reading.Memory)."""

import json
import zlib
from collections.abc import Sequence

from ingestor.core.document_json import Parsed, decode, encode, pack
from ingestor.core.fingerprint import combine
from ingestor.model import Digest, Fingerprint, SourceName
from ingestor.state.cache.store import VectorCache

LARGEST = 64 * 2**20  # bytes, packed, of a document that is kept
_FORMAT = 2  # of stored documents; other formats are ignored


class Parses:
    """The last parsed document of each item. ``learns``: whether documents are added."""

    def __init__(self, cache: VectorCache, *, learns: bool = True) -> None:
        self._cache, self._learns = cache, learns

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None:
        """The document, or None if it is missing or damaged. One of another state of the item is deleted."""
        found = self._cache.get_document(combine(source, key))
        if found is None:
            return None
        if found[0] != combine(_FORMAT, stamp):
            self.forget(source, key)
            return None
        try:
            content, parser, recipe, document = json.loads(zlib.decompress(found[1]))
        except (zlib.error, ValueError):
            return None
        return Parsed(Digest(content), parser, Fingerprint(recipe), decode(document))

    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None:
        value = [parsed.content, parsed.parser, parsed.recipe, encode(parsed.document)]
        data = zlib.compress(pack(value), 1)
        if self._learns and len(data) <= LARGEST:
            self._cache.put_document(combine(source, key), combine(_FORMAT, stamp), data)

    def rename(self, source: SourceName, to: SourceName, keys: Sequence[str]) -> None:
        """Move the documents of these items to another source name."""
        self._cache.move_documents([(combine(source, key), combine(to, key)) for key in keys])

    def forget(self, source: SourceName, key: str) -> None:
        """Delete the document of a removed item."""
        if self._learns:
            self._cache.drop_document(combine(source, key))
