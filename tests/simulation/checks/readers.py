"""What readers of Chroma see, and the laws that hold for it at every moment."""

import re
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from ingestor.core.entries import Entry
from ingestor.model import CollectionName, Record
from ingestor.state.editions import Editions
from tests.simulation.checks.questions import WORDS, ask_meanwhile
from tests.simulation.laws import COMPLETE, ONE_EMBEDDER, ONE_LIVE, ONE_RECIPE, ONE_SET, OWN, STOOD, hold
from tests.simulation.ports.collections import Shelves
from tests.simulation.ports.files import spoiled
from tests.simulation.ports.plugins import vector
from tests.state.journals import of_collection

if TYPE_CHECKING:
    from tests.simulation.world import World

EMBEDDERS = ("sweet", "sour")  # an option of a third party's embedder, which tells nothing else of itself
OTHER_MODEL = "salty"  # of a server whose model was exchanged


def whole_set(name: str, listed: Collection[str]) -> tuple[str, ...]:
    """The rule of docs/reading.md: the collection of that name, or all its shards, or nothing."""
    found = [re.fullmatch(rf"{re.escape(name)}-0-of-(\d+)", each) for each in listed]
    sets = [tuple(f"{name}-{n}-of-{one[1]}" for n in range(int(one[1]))) for one in found if one]
    whole = [each for each in [(name,), *sets] if set(each) <= set(listed)]
    hold(ONE_SET, whole[1:])
    return whole[0] if whole else ()


class Readers:
    """They ask Chroma alone, for one collection."""

    def __init__(self, shelves: Shelves, serves: CollectionName) -> None:
        self._shelves, self.serves = shelves, serves
        self._stand: dict[str, tuple[str, str]] = {}  # by id: document and text, untouched since all rested
        self.forget()

    def forget(self) -> None:
        """What they see next may lack what they saw: a person rolled back."""
        self._before: tuple[tuple[str, ...], set[str]] = ((), set())  # a collection, and the documents in it

    def names(self) -> tuple[str, ...]:
        """The collections in Chroma that they see: one, or all shards that a single listing shows."""
        return whole_set(self.serves, self._shelves.collections)

    def seen(self) -> list[Record]:
        return [record for name in self.names() for record in self._shelves.records(name)]

    def check(self, world: "World") -> None:
        """Law 8: records of one embedder only; and of one recipe, where collections are swapped."""
        _check_editions(Editions(world.journal), self.serves)
        seen = self.seen()
        roots = tuple(f"{files.root}/" for files in world.feeding(self.serves))
        hold(OWN, [each.id for each in seen if not str(each.metadata["source"]).startswith(roots)])
        if world.mode == "swap" and world.parser == 1 and not world.renamed:  # a name is part of the recipe
            for root in {files.root for files in (*world.places.values(), *world.apart)}:
                of_one = [each for each in seen if str(each.metadata["source"]).startswith(f"{root}/")]
                made_by = {record.metadata["recipe"] for record in of_one}
                hold(ONE_RECIPE, made_by if len(made_by) > 1 else ())
        found = {
            name
            for record in seen
            for name in (*EMBEDDERS, OTHER_MODEL)
            if np.array_equal(record.vector, vector(record.text, name))
        }
        hold(ONE_EMBEDDER, found if len(found) > 1 else ())
        self._check_swap(world)

    def rest(self, world: "World") -> None:
        """All is at rest: what is there now stays in every answer until somebody touches it."""
        self._stand = {record.id: (str(record.metadata["source"]), record.text) for record in self.seen()}

    def ask(self, world: "World") -> None:
        """A question, at any moment: its answer holds what stands still.

        Documents of a collective strategy are cut again when others change.
        """
        if world.disturbed or world.collective or not (self._stand and self.names()):
            return
        there = {f"{files.root}/{key}" for files in world.feeding(self.serves)
                 for key in files.contents.keys() - files.stirred}  # fmt: skip
        self._stand = {id_: each for id_, each in self._stand.items() if each[0] in there}
        seen = {id_: record.text for name in self.names() for id_, record in self._shelves.all(name).items()}
        hold(STOOD, [each for id_, each in self._stand.items() if seen.get(id_) != each[1]])

    def question(self, world: "World") -> None:
        """A question by words and vectors, during which the program goes on by a step."""
        if len(names := self.names()) != 1:
            world.engine_step()
            return
        index, uuid = self._shelves.collections[names[0]]
        ask_meanwhile(index.inner, world.words, (uuid,), world.questions.choice(WORDS), world.engine_step)

    def _check_swap(self, world: "World") -> None:
        """A collection that takes another's place has every document that is still there, as last listed."""
        before, names = self._before, self.names()
        if not names:  # between two renames
            return
        uuids = tuple(self._shelves.uuid(name) or "" for name in names)
        keys = {str(record.metadata["source"]) for record in self.seen()}
        self._before = (uuids, keys)
        editions = {edition.uuids: edition for edition in Editions(world.journal).all()}
        there = self._shelves._names().keys() >= set(before[0])
        known = (
            before[0] in editions and editions[before[0]].choices is not None
        )  # a restored journal may not
        if before[0] and uuids != before[0] and known and there:
            # An edition whose plugin is missing stands at the version that it followed last.
            both = {edition.name for id_, edition in editions.items() if id_ in (before[0], uuids)}
            entries = [entry for name in both for entry in of_collection(world.journal, name)]
            unreadable = {_shown(world, entry) for entry in entries if not _there(world, entry)}
            hold(COMPLETE, (before[1] & {_shown(world, entry) for entry in entries}) - unreadable - keys)


def _check_editions(editions: Editions, serves: CollectionName) -> None:
    """A forgotten edition that is opened by its old name would be a second one of a collection."""
    live = [edition.name for edition in editions.all() if (edition.role, edition.serves) == ("live", serves)]
    uuids = Counter(edition.uuids for edition in editions.all() if edition.uuids)
    hold(ONE_LIVE, live if len(live) > 1 else ())
    hold(ONE_LIVE, [each for each, times in uuids.items() if times > 1])


def _shown(world: "World", entry: Entry) -> str:
    """Return the name that readers see in a record's metadata; "" for a source that is gone."""
    place = world.places.get(entry.source)
    return "" if place is None else f"{place.root}/{entry.key}"


def _there(world: "World", entry: Entry) -> bool:
    """Whether the document could be read as it was last listed, and is still there."""
    files = world.places.get(entry.source)
    if files is None or entry.item is None or entry.key not in files.contents:
        return False
    text, odd = files.written[int(entry.item.version)], files.ever_broken
    return bool(text.strip()) and not spoiled(text) and not odd and entry.key not in files.locked
