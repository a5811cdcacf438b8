"""The law that nothing is carried out which a person must approve first, or has undone."""

from collections import Counter
from typing import TYPE_CHECKING

from ingestor.core.entries import Choices, Edition
from ingestor.model import CollectionName
from ingestor.queries.changes import approve
from ingestor.rechunk import policy
from ingestor.rechunk.policy import changes
from ingestor.state.editions import Editions, Requests
from tests.simulation.laws import APPROVED, hold

if TYPE_CHECKING:
    from tests.simulation.world import World


class Approvals:
    """What a person said to changes of the config. ``check`` compares with what was at the last check."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._given: set[tuple[CollectionName, str]] = set()
        self._before: list[Edition] = []
        self._undone: dict[str, str] = {}
        self._records = Counter[tuple[str, str]]()
        self._known = set[tuple[str, str]]()

    def approve(self) -> None:
        """Run `ingestor apply`."""
        world = self._world
        for serves in world.config().collections:
            self._given.add((serves, policy.fingerprint_of(world.loop.running.parts.choices_for(serves))))
        approve(world.config())
        self._undone.clear()
        world.disturbed = True

    def roll_back(self, serves: CollectionName) -> None:
        """Ask for `ingestor rollback`; the config stays as it is."""
        world, retired = self._world, Editions(self._world.journal).of(serves, "previous")
        if retired:
            latest = max(retired, key=lambda edition: edition.since)
            Requests(world.journal).put("roll back", serves, latest.name)
            world.disturbed = True

    def expect(self) -> None:
        """Readers may lack what they saw, once a rollback is carried out."""
        pending = Requests(self._world.journal).all("roll back")
        for readers in self._world.all_readers:
            if readers.serves in pending:
                readers.forget()

    def _note(self) -> None:
        journal = self._world.journal
        self._before = Editions(journal).all()
        self._undone = Requests(journal).all("refused")
        self.count_records()

    def count_records(self) -> None:
        """Count records by collection and source: a change that touches none needs no approval."""
        self._records, self._known = Counter[tuple[str, str]](), self._known_sources()
        names = {root: name for name, files in self._world.places.items() for root in [files.root]}
        for readers in self._world.all_readers:
            for record in readers.seen():
                root = str(record.metadata["source"]).split("/")[1]
                self._records[readers.serves, str(names.get(f"/{root}"))] += 1

    def check(self) -> None:
        """Whatever began or changed its recipes since."""
        if self._world.approves:
            self._check_editions()
            self._note()

    def _check_editions(self) -> None:
        known = {edition.name: edition for edition in self._before}
        live = {edition.serves: edition for edition in self._before if edition.role == "live"}
        for edition in Editions(self._world.journal).all():
            made_by, before = edition.choices, known.get(edition.name, live.get(edition.serves))
            was = None if before is None else before.choices
            if edition.role in ("live", "staging") and made_by is not None and was is not None:
                self._check(edition.serves, was, made_by)

    def _check(self, serves: CollectionName, was: Choices, now: Choices) -> None:
        found, named = changes(was, now), policy.fingerprint_of(now)
        touched = {change.source for change in found} - {""} or {*now["sources"]} if found else set()
        known = self._known & self._known_sources()
        if any(self._records[each] and each in known for each in {(serves, source) for source in touched}):
            hold(APPROVED, (serves, named) not in self._given and list(map(str, found)))
            hold(APPROVED, self._undone.get(serves) == named and list(map(str, found)))

    def _known_sources(self) -> set[tuple[str, str]]:
        """Return the collections and sources with documents of which the journal knows that they are indexed.

        Chroma may have records of other documents: the process died while it wrote them, or their collection
        was renewed. They are written again under any config, so a change of it needs no approval for them.
        The digest of a document without records is empty.
        """
        query = """SELECT DISTINCT serves, source FROM documents JOIN collections ON name = collection
            WHERE role = 'live' AND digest != ''"""
        return set(self._world.journal.select(query))
