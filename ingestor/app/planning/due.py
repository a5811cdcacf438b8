"""The documents that a sync would read after a listing."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ingestor.app.planning.strata import Population
from ingestor.core.entries import Entry
from ingestor.core.listings.key_set import KeySet
from ingestor.core.listings.pages import pages
from ingestor.model import DocumentId, Item
from ingestor.pipeline.listing import Listing, Source
from ingestor.state.journal import Journal
from ingestor.state.queries.unsettled import Unsettled

_PAGE = 500  # entries that are read at once


class DueDocuments:
    """First those that are new or changed, in the order of the listing; then the others, by key.

    In memory are some dozen bytes for each. Entries are read when they are asked for: what a daemon removed
    meanwhile is left out.
    """

    def __init__(self, journal: Journal, source: Source, found: Listing) -> None:
        self._unsettled, self._source, self._changes = Unsettled(journal), source, found.changes[0]
        self.population, self._rows = Population(), array("q")
        self._listed_keys, self._other_keys = KeySet(), KeySet()
        for item in self._changes.changed():
            self._listed_keys.add(item.key)
            self.population.add(item.key, item.size)
        self._listed = len(self.population)
        self._note_others()

    def _note_others(self) -> None:
        gone = KeySet()
        gone.update(self._changes.vanished)
        for page in self._unsettled.outdated(self._source.feed, self._source.tools.recipe):
            others = {*gone.absent(self._listed_keys.absent([key for _, key, _ in page]))}
            for row, key, size in page:
                if key in others:
                    self._rows.append(row)
                    self._other_keys.add(key)
                    self.population.add(key, size)

    def __len__(self) -> int:
        return len(self.population)

    def __iter__(self) -> Iterator[Entry]:
        for items in pages(self._changes.changed(), _PAGE):
            yield from self._entries_of(items)
        for rows in pages(self._rows, _PAGE):
            yield from self._unsettled.of_rows(rows)

    def at(self, places: Sequence[int]) -> Mapping[int, Entry]:
        """Entries by their place. ``places``: in ascending order."""
        wanted = {place for place in places if place < self._listed}
        chosen = [(at, item) for at, item in enumerate(self._changes.changed()) if at in wanted]
        found: dict[int, Entry] = {}
        for page in pages(chosen, _PAGE):
            entries = self._entries_of([item for _, item in page])
            found |= zip([at for at, _ in page], entries, strict=True)
        rows = {self._rows[place - self._listed]: place for place in places if place >= self._listed}
        for some in pages(rows, _PAGE):
            found |= {rows[entry.row]: entry for entry in self._unsettled.of_rows(some)}
        return found

    def others(self, keys: Sequence[str]) -> set[str]:
        """Return the given keys whose documents are not due."""
        return {*self._other_keys.absent(self._listed_keys.absent(keys))}

    def _entries_of(self, items: Sequence[Item]) -> list[Entry]:
        keys = [item.key for item in items]
        known = {entry.key: entry for entry in self._unsettled.of_keys(self._source.feed, keys)}
        return [replace(known.get(item.key) or _new(self._source, item), item=item) for item in items]


def _new(source: Source, item: Item) -> Entry:
    return Entry(
        row=-1,
        document_id=DocumentId(f"new document {item.key}"),
        source=source.name,
        collection=source.collection,
        key=item.key,
        item=item,
        done_version=None,
        done_recipe=None,
        facts=None,
        digest=None,
        parser=None,
        attempts=0,
    )
