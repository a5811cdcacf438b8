"""The store of editions: each edition is a list of shards in Chroma, with a lexical index of their words.

A shard is one collection in Chroma, and is recognised by its UUID. If a collection of the same name has
another UUID, the journal's records do not apply to it. Every document is then written again with cached
vectors. A collection never holds vectors of two embedders.

Each write gives the collection a new generation. If the journal expects another generation, a backup of
Chroma or of the journal was restored, and both are compared before anything is written. If a copy of this
state in another place wrote the collection, a person must decide which copy continues.
"""

import logging
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import replace
from secrets import token_hex

from ingestor.chroma.backend import Collections
from ingestor.chroma.shards import Shards, blame
from ingestor.core.entries import ChromaName, Edition, EditionName, Intent, Renewal, collection_of, shard_of
from ingestor.core.events import event
from ingestor.core.generations import NOWHERE, Home, Model, generation_of, home_of, judge, stamp
from ingestor.engine.comparison import compare, repair_differences
from ingestor.lexical.file import Unusable, Uuids
from ingestor.lexical.filling import Upkeep
from ingestor.lexical.index import LexicalIndex
from ingestor.model import Metadata, Record, RecordId
from ingestor.ports import Index, NeedsHuman, Transient
from ingestor.state.editions import Editions, Notices, Requests
from ingestor.state.journal import Journal
from ingestor.units import quantity

log = logging.getLogger("ingestor")

Models = Callable[[EditionName], Model]

ATTEMPTS = 5  # against clients that keep creating a collection of that name


def rename_to_roles(chroma: Collections, editions: Sequence[Edition]) -> int:
    """Give every shard in Chroma the name that its edition's role demands. Return how many shards were
    renamed.

    A rename keeps the UUID. After a crash the call can be repeated. To switch readers to another edition
    takes two renames. Between them no collection has the readers' name for some milliseconds. A client that
    calls ``get_or_create_collection`` in this time creates a collection of that name. Such a collection is
    deleted if it is empty, else renamed.

    Names that editions give up are free before the live edition gets its names. So a reader that lists
    Chroma's collections once never mixes shards of two editions.

    Raises Transient if Chroma cannot be reached, or if a client keeps creating a collection of a needed name.
    """
    here, renamed = chroma.names(), 0
    for edition in sorted(editions, key=lambda edition: edition.role == "live"):  # last, under freed names
        for uuid, name in edition.in_chroma:
            if here.get(uuid, name) != name:
                _rename(chroma, uuid, name)
                renamed += 1
    return renamed


def _rename(chroma: Collections, uuid: str, name: ChromaName) -> None:
    """Rename a collection. A foreign collection that has the name is deleted if it is empty, else renamed."""
    for _ in range(ATTEMPTS):
        if chroma.rename(uuid, name):
            return
        words = "name %s was taken by another program's collection, which was %s"
        about = event("collection_renamed", collection=str(name))
        log.warning(words, name, chroma.evict(name), extra=about)
    raise Transient(
        f"collection {name!r} can't be renamed, because a client keeps creating it again: stop that client"
    )


def restore_order(journal: Journal, index: "EditionIndex", edition: Edition) -> str | None:
    """Compare an edition with the journal after a backup of either was restored, and repair the differences.

    Documents whose records differ are written again with cached vectors. Return None, or why so many records
    differ that all of them should be written into a new collection.
    """
    findings = compare(journal, index.parts, edition)
    repair_differences(journal, index.parts, edition.name, findings)
    wrong = len(findings.missing) + len(findings.stale) + len(findings.wrong_metadata)
    words = "collection %s compared: %s wrong or missing, to be rewritten; %s without a document deleted"
    numbers = {"records": wrong, "dropped": len(findings.orphaned)}
    about = event("collection_compared", collection=edition.serves, **numbers)
    log.warning(words, edition.serves, quantity(wrong, "record"), len(findings.orphaned), extra=about)
    return findings.too_many(wrong + len(findings.orphaned))


def renew(
    journal: Journal, index: Index, now: Renewal, home: Home, intents: Sequence[Intent] = ()
) -> Renewal:
    """Give a collection a new generation. Return a ``Renewal`` that accepts only the new generation.

    ``now``: the generations that the collection may have at present. The journal accepts these and the new
    one until the caller stores the returned value, so that a crash in between does no harm. ``intents``:
    stored in the journal in the same transaction.
    """
    fresh = token_hex(8)
    journal.intend(intents, replace(now, generations=(*now.generations, fresh)))
    index.note(stamp(fresh, home))
    return replace(now, generations=(fresh,))


class EditionIndex(Shards[Index]):
    """The shards of an edition and its lexical index, written as one index. ``uuids``: the UUIDs of the
    shards.

    Every write goes to Chroma first, then to the lexical index. The journal marks the records as in doubt
    before the write, and clears the mark after it. So after a crash these records are written to both again.
    Records are read from Chroma only.
    """

    def __init__(
        self, parts: Sequence[Index], words: LexicalIndex, uuids: Uuids = (), model: Model | None = None
    ) -> None:
        super().__init__(parts)
        self.words, self.uuids, self._model = words, uuids, model

    def is_made_for(self, model: Model) -> bool:
        """Return whether the index was opened for this embedding model.

        The recipe of the vectors and the function that embeds readers' queries must both be equal.
        """
        stored = self._model
        return stored is not None and (stored.recipe, stored.reader) == (model.recipe, model.reader)

    def upsert(self, records: Sequence[Record]) -> None:
        super().upsert(records)
        with suppress(Unusable):  # a damaged file is made again and filled from Chroma; it stops no write
            self.words.upsert(records)

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        super().patch(metadata)
        with suppress(Unusable):
            if others := self.words.patch(metadata):
                self.words.upsert(self.read(others), whole=True)

    def drop(self, ids: Sequence[RecordId]) -> None:
        super().drop(ids)
        with suppress(Unusable):
            self.words.drop(ids)


class EditionStore:
    """Opens each edition once, and keeps the edition's row in the journal in agreement with Chroma.

    ``chroma``: the store of the shards, each a collection of its own. ``words``: the lexical indexes.
    ``model``: returns the embedder's properties for an edition, which its collection stores. ``home``: the
    machine and folder of this state.
    """

    def __init__(
        self, journal: Journal, chroma: Collections, words: Upkeep, model: Models, home: Home = NOWHERE
    ) -> None:
        self._journal, self._chroma, self._words, self._model = journal, chroma, words, model
        self.home, self._editions = home, Editions(journal)
        self._open: dict[EditionName, EditionIndex] = {}
        self._names_match = False  # whether Chroma's names are known to be those of the roles

    def open(self, name: EditionName) -> EditionIndex:
        """Return the index of an edition. Create a collection that is missing; open it anew if the model
        changed.

        ``name``: the edition's name in the journal. Raises Transient if the server cannot be reached, and
        NeedsHuman if another program wrote the collection.
        """
        index = self._open.get(name)
        if index is None or not index.is_made_for(self._model(name)):
            index = self._open[name] = self._open_anew(name)
        return index

    def check(self, name: EditionName) -> None:
        """Examine an edition's collections: their UUIDs, the generation, and whether search finds their
        records.

        If search misses too many records, a notice is stored, and ``rechunk.swap`` requests a rebuild. Raises
        Torn if a collection is damaged, Gone if it was deleted or replaced, and also Transient and
        NeedsHuman.
        """
        self.match_names()
        index = self.open(name)
        index.count()  # raises Gone if another collection has the name: the request names the UUID
        if judge(index.facts(), self._editions.of_name(name).generations, self.home) != "same":
            del self._open[name]
            self.open(name)
        shards, reasons = self._editions.of_name(name).in_chroma, list[str]()
        for number, (_, shard) in enumerate(shards):
            with blame(number, len(shards)):
                if reason := self._chroma.reach_problem(shard):
                    reasons.append(f"{shard}: {reason}" if len(shards) > 1 else reason)
        Notices(self._journal).put("reach", name, "; ".join(reasons))

    def note_failure(self, name: EditionName, error: Exception) -> None:
        """Close an edition after a failed request, and report the failing shard to the supervisor of Chroma.

        The next use opens the edition again. Only one shard is reported: after that report the server may
        have been restarted, and later errors would blame the new server.
        """
        self._open.pop(name, None)
        shards, failed = self._editions.of_name(name).in_chroma, getattr(error, "shard", None) or 0
        self._chroma.trouble(shards[min(failed, len(shards) - 1)][1], error)

    def discard(self, name: EditionName, *, torn: bool, shard: int | None = None) -> None:
        """Close an edition, so that the next use opens it again.

        ``torn``: the edition is damaged, so its collections in Chroma are deleted, too. ``shard``: number of
        the only damaged shard; None for all. Raises Transient if Chroma cannot be reached.
        """
        self._open.pop(name, None)
        if torn:
            self.match_names()  # collections are deleted by name, which another edition may still have
            shards = self._editions.of_name(name).in_chroma
            self._delete(shards if shard is None else shards[shard : shard + 1])

    def empty(self, name: EditionName, most: int) -> bool:
        """Delete at most ``most`` records of each shard of an edition. Return whether any records are left.

        Raises Transient if Chroma cannot be reached.
        """
        self._open.pop(name, None)
        self.match_names()
        return any(self._chroma.empty(shard, most) for _, shard in self._editions.of_name(name).in_chroma)

    def doubt(self, name: EditionName, shards: Container[int] | None = None) -> None:
        """Mark the records of an edition as in doubt, so that they are written again.

        ``shards``: numbers of the shards whose records are marked; None for all.
        """
        of, rows = self._editions.of_name(name).shards, None
        if shards is not None and of > 1:
            documents = self._editions.documents(name)
            rows = [row for row, document in documents if shard_of(document, of) in shards]
        self._journal.doubt(name, rows)

    def disown(self, name: EditionName) -> None:
        """Note that another program has the edition's name in Chroma, and forget the UUIDs of our
        collections.

        If our collection appears again later, its records are not trusted, and are written again.
        """
        self._open.pop(name, None)
        if self._editions.has_documents(name):
            self._editions.note(replace(self._editions.of_name(name), uuids=()))
        else:
            self._editions.forget(name)

    def is_in_force(self, name: EditionName) -> bool:
        """Return whether an edition is kept in step with the sources: its role is ``live`` or ``staging``."""
        return any(e.name == name and e.role in ("live", "staging") for e in self._editions.all())

    def is_building(self, name: EditionName) -> bool:
        """Return whether an edition is still being built, so that readers do not see it yet."""
        return self._editions.of_name(name).role == "staging"

    def forget_names(self) -> None:
        """Have the names in Chroma compared with the roles of the editions before the next use of a name.

        Call this before another edition becomes live in the journal. After that an error could prevent the
        call.
        """
        self._names_match = False

    def _open_anew(self, name: EditionName) -> EditionIndex:
        """Open an edition, and make its row in the journal agree with the collections in Chroma.

        If a shard had to be created again, its records are marked as in doubt. If a backup was restored, all
        records are compared with the journal. Afterwards the collection has a new generation.
        """
        if not self._editions.of_name(name).uuids:
            self.forget_names()  # its collections may have been created for another number of shards
        self.match_names()
        model, edition = self._model(name), self._editions.of_name(name)
        if edition.embedder not in (None, model.recipe):
            self._start_over(edition, "the embedder changed")
        index = self._connect(edition, model)
        facts = index.facts()
        verdict = judge(facts, edition.generations, self.home)
        if verdict == "elsewhere":
            shown = edition.in_chroma[0][1]
            raise NeedsHuman(
                f"collection {shown!r} is written by a copy of this state, {home_of(facts)}; this one is "
                f"{self.home}. Only one may write it. If that one is not in use any more, run: "
                f"ingestor collections --adopt {shown}"
            )
        others = _others(edition.uuids, index.uuids)
        if others is None and index.count():
            self._start_over(edition, "records are not in the journal")
            index = self._connect(edition, model)
        elif others is None or others:
            self.doubt(name, others)
        first_is_new = bool(others) and generation_of(facts) is None
        compared = others is not None and verdict == "restored" and not first_is_new
        if compared:
            words = "collection %s: a backup of Chroma or the journal was restored; comparing records"
            log.warning(words, edition.serves, extra=event("collection_compared", collection=edition.serves))
            why = restore_order(self._journal, index, edition)
            if why is not None and edition.role == "live":
                Requests(self._journal).put("rebuild", edition.serves, why)
                Requests(self._journal).arrange()
            self._words.refill(index.uuids)
        now = replace(self._editions.of_name(name), uuids=index.uuids, embedder=model.recipe)
        # A comparison deletes records: a backup with the old generation may still have them.
        expected = () if compared else tuple(filter(None, (generation_of(index.facts()),)))
        self._editions.note(replace(now, generations=expected))
        self._journal.settle((), renew(self._journal, index, Renewal(name, expected), self.home))
        return index

    def _note_leftovers(self) -> None:
        """Note collections of ours that the journal does not know, as editions to be deleted.

        They were created when an edition had another number of shards, and the process ended before they were
        noted. Or an older journal was restored, and they belong to later editions. Readers could take them
        for the live edition. A collection that may be an edition's own is kept; see ``_open_anew``.
        """
        here, editions = self._chroma.own_names(self.home), self._editions.all()
        awaited = {name for each in editions for uuid, name in each.in_chroma if uuid not in here}
        noted = {uuid for each in editions for uuid in each.uuids}
        for uuid, name in here.items():
            serves = collection_of(name, {each.serves for each in editions})
            if serves is not None and uuid not in noted and name not in awaited:
                words = "collection %s: unknown to the journal, after a crash or a restore; deleting it"
                log.warning(words, name, extra=event("collection_dropped", collection=name))
                self._editions.leave(serves, uuid, self.names())

    def _connect(self, edition: Edition, model: Model) -> EditionIndex:
        """Open all shards of an edition and its lexical index. A shard that does not exist is created."""
        parts, uuids = list[Index](), Uuids()
        for number, (_, shard) in enumerate(edition.in_chroma):
            with blame(number, edition.shards):
                part, uuid = self._chroma.open(shard, model)
            parts, uuids = [*parts, part], (*uuids, uuid)
        return EditionIndex(parts, self._words.open(Shards(parts), uuids), uuids, model)

    def _start_over(self, edition: Edition, why: str) -> None:
        """Delete an edition's collections in Chroma, and have all its records written again.

        The records are marked as in doubt in the journal. ``why``: the reason for the log.
        """
        about = event("collection_rebuilt", collection=str(edition.serves), reason=why)
        log.warning("collection %s: %s; rewriting all records", edition.serves, why, extra=about)
        self._journal.doubt(edition.name)
        self._delete(edition.in_chroma)

    def _delete(self, shards: Sequence[tuple[str, ChromaName]]) -> None:
        self._words.sweeping = True
        for _, shard in shards:
            self._chroma.delete(shard)

    def match_names(self) -> None:
        """Rename collections in Chroma to match the roles of their editions, and collections that the journal
        does not know. If the names are known to match, do nothing.

        Raises Transient if Chroma cannot be reached.
        """
        if not self._names_match:
            self._note_leftovers()
            editions = self._editions.all()
            if len(editions) > len({edition.serves for edition in editions}):
                self._words.sweeping |= rename_to_roles(self._chroma, editions) > 0
        self._names_match = True

    def names(self) -> set[str]:
        """Return the names of all collections in Chroma, whoever owns them; an empty set after any error.

        They serve to avoid a name that is taken. A caller that gets one nevertheless learns so at the first
        write.
        """
        with suppress(Exception):  # of any kind: it must not end the program while a config is applied
            return {*self._chroma.names().values()}
        return set()

    def serves(self, name: EditionName) -> str:
        """Return the name by which readers find the edition's collection."""
        return str(self._editions.of_name(name).serves)


def _others(old: Sequence[str], new: Sequence[str]) -> set[int] | None:
    """Return the numbers of the shards whose UUID changed.

    Return None if no shard is the same: all UUIDs changed, or the number of shards did.
    """
    if len(old) != len(new):
        return None
    numbers = {number for number, (before, now) in enumerate(zip(old, new, strict=True)) if before != now}
    return numbers if len(numbers) < len(new) else None
