"""The crash laws, held over the histories of directed.py, and held to be able to fail.

The broken variants are programs with one rule removed: a named law must find each of them out.
"""

from pathlib import Path
from typing import Any

import pytest

from ingestor.app import parts
from ingestor.chroma.shards import Shards
from ingestor.core import decisions, listings, slots
from ingestor.core.decisions import NEVER
from ingestor.core.entries import Entry
from ingestor.core.fingerprint import fingerprint
from ingestor.core.listings import Observe, reconcile
from ingestor.engine import edition_store, flight, scanner, writer
from ingestor.engine.edition_store import EditionIndex
from ingestor.engine.flight import InFlight
from ingestor.engine.loop import Engine
from ingestor.engine.outcomes import DocumentFlow
from ingestor.engine.writer import Writer
from ingestor.lexical.filling import Filling
from ingestor.lexical.index import LexicalIndex
from ingestor.pipeline import listing
from ingestor.pipeline.prepare import Reader
from ingestor.state import backlog, reports, tables
from ingestor.state.backlog import Backlog
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.state.sources import Withdrawals
from ingestor.state.tables import write_renewal
from tests.simulation import directed
from tests.simulation.histories import detect
from tests.simulation.laws import (
    ASKED,
    AT_ONCE,
    BLAMED,
    CLEAN,
    COMPLETE,
    EXACT,
    FOUND,
    KNOWN_WORDS,
    LEXICAL,
    LISTED,
    MOVED,
    ONE_EMBEDDER,
    ONE_RECIPE,
    READABLE,
    REST,
    STATES,
    SUPERSET,
    THERE,
    UNWANTED,
)

_START = Engine._start
_AFTER_FAILURE, _DELTA, _PARTS = decisions.after_failure, slots.delta, listing._parts
_REFUSE = DocumentFlow.refuse
_WAKE_AT, _WRITE, _WRITE_FAILURE = Writer.wake_at, writer.write, tables.write_failure


def _settle_before_writing(journal, index, batch, home):
    journal.settle([p.receipt for p in batch])
    _write_only(index, batch)
    return iter(())


def _no_intent(journal, index, batch, home):
    _write_only(index, batch)
    journal.settle([p.receipt for p in batch])
    return iter(())


def _write_only(index, batch):
    if records := [r for p in batch for r in p.records]:
        index.upsert(records)
    if patches := [m for p in batch for m in p.patches]:
        index.patch(patches)
    if drops := [d for p in batch for d in p.deletes]:
        index.drop(drops)


def _trusting_delta(known, wanted):
    return _DELTA([slots.Known(k.slot, k.text_key, k.vector_key, k.meta_key) for k in known], wanted)


def _forget_to_drop(known, wanted):
    change = _DELTA(known, wanted)
    return slots.Delta(change.add, change.replace, change.patch)


def _keep_receipts(self, intents, renewal=None):
    with self.transaction() as db:
        for intent in intents:
            db.executemany(
                """INSERT INTO records (document, slot, text_key, vector_key, meta_key, unsure)
                   VALUES (?, ?, '', '', '', 1) ON CONFLICT DO NOTHING""",
                ((intent.row, slot) for slot in intent.slots),
            )
        write_renewal(db, renewal)


def _forget_before_dropping(journal, index, entries, home):
    journal.remove([entry.row for entry in entries])
    drops = [writer.record_id(e.document_id, k.slot) for e in entries for k in e.records]
    if drops:
        index.drop(drops)
    return list(entries), len(drops)


def _give_up(error, attempts, now, random, detail):
    """As it was, but sooner: after some errors of an unknown kind the document left the index."""
    found = _AFTER_FAILURE(error, attempts, now, random, detail)
    if found.detail is None or attempts < 1:
        return found
    return decisions.Failure(found.reason, attempts + 1, decisions.NEVER, quarantined=True)


def _only_first(*given):
    return tuple(each for each in reconcile(*given) if not isinstance(each, Observe) or not each.edition)


def _words_first(journal, index, batch, home):
    index.words.upsert([record for p in batch for record in p.records])
    return _WRITE(journal, index, batch, home)


def _believe_the_file(self):
    self.done = True


def _blame_what_is_wanted(db, row, version, failure):
    for (wanted,) in db.execute("SELECT wanted_version FROM documents WHERE id = ?", (row,)):
        _WRITE_FAILURE(db, row, wanted, failure)


def _refuse_whatever_is_listed(self, document, error):
    entry = self._journal.entry(document.prepared.receipt.row)
    self._flight.land(document)
    if entry is not None:
        refused = InFlight(entry, quarantine_recipe=document.quarantine_recipe)
        self._flight.begin(refused)
        self._fail(refused, error, "")


def _land_refused(self, document, error):
    row = document.prepared.receipt.row
    _REFUSE(self, document, error)
    if (refused := self._flight.get(row)) is not None:
        self._flight.land(refused)


def _sleep_while_paused(self):
    waiting = [each for each in self._flight.queues.values() if each.documents]
    marked = any(each.marked for each in self.health.of.values())
    return _WAKE_AT(self) if waiting or marked else NEVER


def _count_vanished_too(self, feed):
    query = """SELECT COUNT(DISTINCT document) FROM records JOIN documents ON id = document
               WHERE source = ? AND collection = ?"""
    return self._journal.select(query, feed)[0][0]


def _begun_before_submitted(self: Engine, entry: Entry, *, drifted: bool = False) -> None:
    self.flight.begin(InFlight(entry, drifted))
    _START(self, entry, drifted=drifted)


def _upsert_only(index, records, *, replaces):
    index.upsert(records)


BROKEN: dict[str, tuple[Any, str, Any, set[str], str]] = {  # the last: a history of directed.py
    "a loss is that of the first edition": (
        listing.Listing, "losses", lambda self: [(len(self.changes[0].vanished), self.known[0])],
        {THERE}, "mount another disk beside a rebuild",
    ),
    "what was remembered of another state is believed": (
        Reader, "_stamp", lambda self, item: "", {EXACT}, "die before upsert",
    ),
    "settled before it is written": (
        writer, "write", _settle_before_writing, {EXACT, CLEAN, SUPERSET, UNWANTED}, "die before upsert",
    ),
    "written without intent": (writer, "write", _no_intent, {SUPERSET, UNWANTED}, "die before upsert"),
    "unsure slots are trusted": (slots, "delta", _trusting_delta, {EXACT, CLEAN}, "lose the collection"),
    "surplus slots are not dropped": (
        slots, "delta", _forget_to_drop, {EXACT, SUPERSET}, "die before upsert",
    ),
    "a folder that can't be read counts as empty": (
        decisions.Scope, "covers", lambda self, key: any(decisions._below(key, each) for each in self.under),
        {THERE}, "hide a folder",
    ),
    "of several hints one is listed": (
        listing, "_parts", lambda *given: _PARTS(*given)[:1], {THERE}, "hint at two",
    ),
    "receipts outlive an intent": (
        Journal, "intend", _keep_receipts, {EXACT, SUPERSET, CLEAN, REST, UNWANTED}, "die before commit",
    ),
    "removed documents are forgotten before their records": (
        writer, "remove", _forget_before_dropping, {SUPERSET, EXACT, KNOWN_WORDS}, "die 6th after commit",
    ),
    "any collection of that name is believed": (
        Journal, "doubt", lambda self, name, rows=None: None, {EXACT, CLEAN}, "lose the collection",
    ),
    "statistics that moved disturb nobody": (
        Backlog, "find_drifted", lambda self, *args: [], {EXACT}, "move the statistic",
    ),
    "a batch waits until nothing else is prepared": (flight, "LINGER", 1e6, {AT_ONCE}, "stream"),
    "a stale preparation is written": (
        writer, "valid", lambda journal, batch: list(batch), {EXACT, LISTED, SUPERSET, STATES}, "come back",
    ),
    "two documents adopt one row": (
        writer, "compatible", lambda batch: [*batch], {LISTED, STATES}, "rename and copy",
    ),
    "an unknown error withdraws a document": (
        decisions, "after_failure", _give_up, {READABLE}, "fail as unknown",
    ),
    "another disk is believed": (listings, "sudden_loss", lambda *args: None, {THERE}, "mount another disk"),
    "names are believed after a crash": (
        edition_store, "rename_to_roles", lambda registrar, editions: 0,
        {EXACT, CLEAN, SUPERSET, ONE_EMBEDDER}, "die before rename",
    ),
    "a collection is swapped before it is complete": (
        Editions, "obstacle", lambda self, new, old: None, {COMPLETE}, "hide a folder",
    ),
    "options of an embedder do not count": (
        parts, "embedder_fingerprint", lambda plugin, *others: fingerprint(plugin.kind),
        {EXACT, ONE_EMBEDDER}, "change in place",
    ),
    "reports take a document as settled whose recipe changed": (
        reports, "STATE", reports.STATE.replace("AND done_recipe IS wanted_recipe", ""),
        {STATES}, "change in place",
    ),
    "the journal takes a document as settled whose recipe changed": (
        backlog, "_OF_FEED", f"{backlog._OF_FEED} AND done_version IS NOT wanted_version",
        {EXACT, REST, COMPLETE, ONE_RECIPE}, "change in place",
    ),
    "an edition in building misses a listing": (
        scanner, "reconcile", _only_first, {REST, CLEAN, COMPLETE}, "die before rename",
    ),
    "what was removed meanwhile is written": (
        writer, "still_wanted", lambda journal, rows: {e.row: (e.source, "") for e in journal.of_rows(rows)},
        {UNWANTED}, "delete what waits",
    ),
    "words are written before the intent": (
        writer, "write", _words_first, {KNOWN_WORDS}, "die after lexical commit",
    ),
    "drops do not reach the lexical index": (
        EditionIndex, "drop", Shards.drop, {LEXICAL, KNOWN_WORDS}, "refuse",
    ),
    "new names do not reach the lexical index": (
        LexicalIndex, "patch", lambda self, metadata: [], {LEXICAL}, "fail as unknown",
    ),
    "a lexical index is believed without a look": (Filling, "_begin", _believe_the_file, {LEXICAL}, "refuse"),
    "a refused document lands before its withdrawal": (
        DocumentFlow, "refuse", _land_refused, {REST}, "refuse",
    ),
    "a refusal holds for whatever version is wanted": (
        tables, "write_failure", _blame_what_is_wanted, {BLAMED}, "edit what is unreadable",
    ),
    "Chroma's refusal holds for whatever version is listed": (
        DocumentFlow, "refuse", _refuse_whatever_is_listed, {READABLE}, "edit what is refused",
    ),
    "what vanished is removed although it may be found": (backlog, "AWAITED", "0", {MOVED}, "fail as known"),
    "a failed removal is retried when something else is written": (
        Writer, "wake_at", _sleep_while_paused, {CLEAN, EXACT}, "fail a removal",
    ),
    "a withdrawal is a smaller loss beside documents that vanish": (
        Withdrawals, "_count_indexed", _count_vanished_too, {ASKED}, "delete and spoil",
    ),
    "a document is in flight before it is submitted": (
        Engine, "_start", _begun_before_submitted, {REST}, "fail each read",
    ),
    "search for replaced records is left out": (
        writer, "_upsert", _upsert_only, {FOUND}, "write beside a replaced record",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    *variant, history = BROKEN[name]
    detect((*variant, directed.ALL[history]), tmp_path)


# One of the later commits is enough: a variant needs it.
REPEATED = {f"die {times}th after commit" for times in (3, 4, 5, 6, 8)}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in REPEATED else name for name in directed.ALL],
)
def test_pinned_histories_equal_a_fresh_run(name: str, tmp_path: Path) -> None:
    directed.ALL[name](tmp_path)
