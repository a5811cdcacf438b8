"""The crash laws, held over many small histories, and held to be able to fail.

Each history mixes edits, renames, copies, partial listings, other disks, known and unknown errors of every
port, changed recipes, broken parsers, wrong clocks, torn and vanished collections with deaths of the process
at every point of the write protocol. The histories of directed.py have a few of these each, and no chance.
The broken variants at the end are programs with one rule removed: a named law must find each of them out.
"""

from collections import Counter
from pathlib import Path

import pytest

from ingestor.app import parts
from ingestor.chroma.shards import Shards
from ingestor.core import decisions, listings, slots
from ingestor.core.decisions import NEVER
from ingestor.core.fingerprint import fingerprint
from ingestor.core.listings import Observe, reconcile
from ingestor.engine import edition_store, flight, scanner, writer
from ingestor.engine.edition_store import EditionIndex
from ingestor.engine.loop import DocumentFlow
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
from tests.simulation.histories import Variants, crashes, played, show
from tests.simulation.laws import (
    ASKED,
    AT_ONCE,
    BLAMED,
    CLEAN,
    COMPLETE,
    EXACT,
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
from tests.simulation.play import COMMON, MEDDLING, RARE

CHOSEN = (11, 25)  # seeds of the default tests; directed.py has each kind of deed without chance


def test_every_history_equals_a_fresh_run(tmp_path: Path, few: bool) -> None:
    deaths, deeds = 0, Counter[str]()
    for world in played(tmp_path, CHOSEN if few else range(31)):
        deaths, deeds = deaths + world.chaos.crashes.total(), deeds + world.deeds
    assert deaths > 20
    assert few or not {*COMMON, *RARE, *MEDDLING} - deeds.keys()


# test_rebuilds.py holds a neighbour: an edition whose plugins are gone asks before it loses much
@pytest.mark.slow
def test_document_unreadable_since_an_edition_paused_is_no_loss(
    tmp_path: Path,
) -> None:
    """The first edition lacks a plugin in this history, and keeps the last readable version of a document."""
    crashes(tmp_path, [340])


@pytest.mark.slow
def test_documents_that_are_written_in_slices_equal_a_fresh_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "BATCH", 1)
    monkeypatch.setattr(writer, "SLICE", 1)
    assert crashes(tmp_path, range(210, 230)).total() > 60


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_thousand_crashes_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total: Counter[str] = Counter()
    start = begin = 26
    while total.total() < 20_000:
        total += crashes(tmp_path, range(start, start + 100))
        start += 100
    with capsys.disabled():
        print(f"\n{total.total()} crashes in {start - begin} histories: {dict(total)}")


def _settle_before_writing(journal, index, batch, wanted, home):
    journal.settle([p.receipt for p in batch], [wanted(p) for p in batch])
    _write_only(index, batch)
    return iter(())


def _no_intent(journal, index, batch, wanted, home):
    _write_only(index, batch)
    journal.settle([p.receipt for p in batch], [wanted(p) for p in batch])
    return iter(())


def _write_only(index, batch):
    if records := [r for p in batch for r in p.records]:
        index.upsert(records)
    if patches := [m for p in batch for m in p.patches]:
        index.patch(patches)
    if drops := [d for p in batch for d in p.drops]:
        index.drop(drops)


def _trusting_delta(known, wanted):
    return _DELTA([slots.Known(k.slot, k.text_key, k.vector_key, k.meta_key) for k in known], wanted)


_DELTA = slots.delta


def _forget_to_drop(known, wanted):
    change = _DELTA(known, wanted)
    return slots.Delta(change.add, change.replace, change.patch)


def _unknown_is_gone(self, key):
    return any(decisions._below(key, under) for under in self.under)


def _first_part(connector, scope):
    return _PARTS(connector, scope)[:1]


_PARTS = listing._parts


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
    drops = [writer.record_id(e.document_id, k.slot) for e in entries for k in e.known]
    if drops:
        index.drop(drops)
    return list(entries), len(drops)


def _give_up(error, attempts, now, random, detail):
    """As it was, but sooner: after some errors of an unknown kind the document left the index."""
    found = _AFTER_FAILURE(error, attempts, now, random, detail)
    if found.detail is None or attempts < 1:
        return found
    return decisions.Failure(found.reason, attempts + 1, decisions.NEVER, quarantined=True)


_AFTER_FAILURE = decisions.after_failure


def _adopt_twice(batch):
    return list(batch)


def _only_first(*given):
    return tuple(each for each in reconcile(*given) if not isinstance(each, Observe) or not each.edition)


def _words_first(journal, index, batch, wanted, home):
    index.words.upsert([record for p in batch for record in p.records])
    return _WRITE(journal, index, batch, wanted, home)


_WRITE = writer.write


def _drop_in_chroma_only(self, ids):
    Shards.drop(self, ids)


def _believe_the_file(self):
    self.done = True


def _land_whatever_was_written(self, document, prepared):
    self._flight.land(document)


def _blame_what_is_wanted(db, row, version, failure):
    for (wanted,) in db.execute("SELECT wanted_version FROM documents WHERE id = ?", (row,)):
        _WRITE_FAILURE(db, row, wanted, failure)


_WRITE_FAILURE = tables.write_failure


def _refuse_whatever_is_listed(self, document, error):
    entry = self._journal.entry(document.prepared.receipt.row)
    if entry is not None:
        self._flight.change_row(document, entry)
        self._fail(document, error, "")


def _loss_of_the_first_edition(self):
    return [(len(self.changes[0].vanished), self.known[0])]


def _sleep_while_paused(self, later):
    waiting = [each for each in self._flight.queues.values() if each.documents]
    marked = any(each.marked for each in self.health.of.values())
    return _WAKE_AT(self, later) if waiting or marked else NEVER


_WAKE_AT = writer.Writer.wake_at


def _count_vanished_too(self, feed):
    query = """SELECT COUNT(DISTINCT document) FROM records JOIN documents ON id = document
               WHERE source = ? AND collection = ?"""
    return self._journal.select(query, feed)[0][0]


BROKEN: Variants = {
    "a loss is that of the first edition": (
        listing.Listing, "losses", _loss_of_the_first_edition, {THERE},
    ),
    "what was remembered of another state is believed": (Reader, "_stamp", lambda self, item: "", {EXACT}),
    "settled before it is written": (
        writer, "write", _settle_before_writing, {EXACT, CLEAN, SUPERSET, UNWANTED},
    ),
    "written without intent": (writer, "write", _no_intent, {SUPERSET, UNWANTED}),
    "unsure slots are trusted": (slots, "delta", _trusting_delta, {EXACT, CLEAN}),
    "surplus slots are not dropped": (slots, "delta", _forget_to_drop, {EXACT, SUPERSET}),
    "a folder that can't be read counts as empty": (decisions.Scope, "covers", _unknown_is_gone, {THERE}),
    "of several hints one is listed": (listing, "_parts", _first_part, {THERE}),
    "receipts outlive an intent": (
        Journal, "intend", _keep_receipts, {EXACT, SUPERSET, CLEAN, REST, UNWANTED},
    ),
    "removed documents are forgotten before their records": (
        writer, "remove", _forget_before_dropping, {SUPERSET, EXACT, KNOWN_WORDS},
    ),
    "any collection of that name is believed": (
        Journal, "doubt", lambda self, name, rows=None: None, {EXACT, CLEAN},
    ),
    "statistics that moved disturb nobody": (Backlog, "find_drifted", lambda self, *args: [], {EXACT}),
    "a batch waits until nothing else is prepared": (flight, "LINGER", 1e6, {AT_ONCE}),
    "a stale preparation is written": (
        writer, "valid", lambda journal, batch: list(batch), {EXACT, LISTED, SUPERSET, STATES},
    ),
    "two documents adopt one row": (writer, "compatible", _adopt_twice, {LISTED, STATES}),
    "an unknown error withdraws a document": (decisions, "after_failure", _give_up, {READABLE}),
    "another disk is believed": (listings, "sudden_loss", lambda *args: None, {THERE}),
    "names are believed after a crash": (
        edition_store, "rename_to_roles", lambda registrar, editions: 0,
        {EXACT, CLEAN, SUPERSET, ONE_EMBEDDER},
    ),
    "a collection is swapped before it is complete": (
        Editions, "obstacle", lambda self, new, old: None, {COMPLETE},
    ),
    "options of an embedder do not count": (
        parts, "embedder_fingerprint", lambda plugin, *others: fingerprint(plugin.kind),
        {EXACT, ONE_EMBEDDER},
    ),
    "reports take a document as settled whose recipe changed": (
        reports, "STATE", reports.STATE.replace("AND done_recipe IS wanted_recipe", ""), {STATES},
    ),
    "the journal takes a document as settled whose recipe changed": (
        backlog, "_OF_FEED", f"{backlog._OF_FEED} AND done_version IS NOT wanted_version",
        {EXACT, REST, COMPLETE, ONE_RECIPE},
    ),
    "an edition in building misses a listing": (
        scanner, "reconcile", _only_first, {REST, CLEAN, COMPLETE},
    ),
    "what was removed meanwhile is written": (
        writer, "still_wanted", lambda journal, rows: dict.fromkeys(rows, ""), {UNWANTED},
    ),
    "words are written before the intent": (writer, "write", _words_first, {KNOWN_WORDS}),
    "drops do not reach the lexical index": (
        EditionIndex, "drop", _drop_in_chroma_only, {LEXICAL, KNOWN_WORDS},
    ),
    "new names do not reach the lexical index": (
        LexicalIndex, "patch", lambda self, metadata: [], {LEXICAL},
    ),
    "a lexical index is believed without a look": (Filling, "_begin", _believe_the_file, {LEXICAL}),
    "a refused document lands before its withdrawal": (
        writer.Writer, "_land", _land_whatever_was_written, {REST},
    ),
    "a refusal holds for whatever version is wanted": (
        tables, "write_failure", _blame_what_is_wanted, {BLAMED},
    ),
    "Chroma's refusal holds for whatever version is listed": (
        DocumentFlow, "refuse", _refuse_whatever_is_listed, {READABLE},
    ),
    "what vanished is removed although it may be found": (backlog, "AWAITED", "0", {MOVED}),
    "a failed removal is retried when something else is written": (
        writer.Writer, "wake_at", _sleep_while_paused, {CLEAN, EXACT},
    ),
    "a withdrawal is a smaller loss beside documents that vanish": (
        Withdrawals, "_count_indexed", _count_vanished_too, {ASKED},
    ),
}  # fmt: skip


# The history without chance that finds each of them out.
SHOWN_BY = {
    "a loss is that of the first edition": "mount another disk beside a rebuild",
    "what was remembered of another state is believed": "die before upsert",
    "settled before it is written": "die before upsert",
    "written without intent": "die before upsert",
    "unsure slots are trusted": "lose the collection",
    "surplus slots are not dropped": "die before upsert",
    "a folder that can't be read counts as empty": "hide a folder",
    "of several hints one is listed": "hint at two",
    "receipts outlive an intent": "die before commit",
    "removed documents are forgotten before their records": "die 6th after commit",
    "any collection of that name is believed": "lose the collection",
    "statistics that moved disturb nobody": "move the statistic",
    "a batch waits until nothing else is prepared": "stream",
    "a stale preparation is written": "come back",
    "two documents adopt one row": "rename and copy",
    "an unknown error withdraws a document": "fail as unknown",
    "another disk is believed": "mount another disk",
    "names are believed after a crash": "die before rename",
    "a collection is swapped before it is complete": "hide a folder",
    "options of an embedder do not count": "change in place",
    "reports take a document as settled whose recipe changed": "change in place",
    "the journal takes a document as settled whose recipe changed": "change in place",
    "an edition in building misses a listing": "die before rename",
    "what was removed meanwhile is written": "delete what waits",
    "words are written before the intent": "die after lexical commit",
    "drops do not reach the lexical index": "refuse",
    "new names do not reach the lexical index": "fail as unknown",
    "a lexical index is believed without a look": "refuse",
    "a refused document lands before its withdrawal": "refuse",
    "a refusal holds for whatever version is wanted": "edit what is unreadable",
    "Chroma's refusal holds for whatever version is listed": "edit what is refused",
    "what vanished is removed although it may be found": "fail as known",
    "a failed removal is retried when something else is written": "fail a removal",
    "a withdrawal is a smaller loss beside documents that vanish": "delete and spoil",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    show(BROKEN[name], directed.ALL[SHOWN_BY[name]], tmp_path)


# One of the later commits is enough: a variant needs it.
REPEATED = {f"die {times}th after commit" for times in (3, 4, 5, 6, 8)}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in REPEATED else name for name in directed.ALL],
)
def test_pinned_histories_equal_a_fresh_run(name: str, tmp_path: Path) -> None:
    directed.ALL[name](tmp_path)
