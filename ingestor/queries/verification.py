"""The command ``verify``: compares sources, journal, Chroma and lexical index, and repairs with ``--repair``.

Only ``--repair`` changes anything, and it needs the daemon to be stopped.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from ingestor.app.daemon import Loop, Signals
from ingestor.app.handover import rehearse
from ingestor.app.parts import Parts, embedder_recipes_of
from ingestor.app.wiring import open_state
from ingestor.chroma.backend import Collections
from ingestor.chroma.folder import move_aside
from ingestor.config.models import Config
from ingestor.config.servers import Embedded, Supervised
from ingestor.core.decisions import Scope
from ingestor.core.entries import Edition
from ingestor.core.errors import describe
from ingestor.core.generations import Model
from ingestor.core.listings import observations
from ingestor.engine.comparison import Findings, ThoroughCheck, compare, repair_differences
from ingestor.lexical.check import words_of
from ingestor.lexical.file import open_for_reading
from ingestor.model import Fingerprint
from ingestor.pipeline import listing
from ingestor.ports import NeedsHuman, Torn, Transient
from ingestor.queries.access import collections_of, is_running, journal_of, live_editions
from ingestor.state import files
from ingestor.state.cache import VectorCache
from ingestor.state.editions import Editions
from ingestor.state.files import cache_path, hold, lexical_path, lock_path
from ingestor.state.journal import Journal
from ingestor.state.reports import count_records_of, list_due, list_unsettled, measure_gone
from ingestor.state.sources import LastListing
from ingestor.units import quantity

_DAMAGES = ("missing", "orphaned", "stale", "wrong_metadata", "unreachable", "words", "settings")
_EXAMPLES = 5  # documents or records that are named in the report
_AGAIN = 2  # repairs after the first: when records are replaced, Chroma's graph may lose others


@dataclass(frozen=True, slots=True)
class Verification:
    """The findings of ``verify`` in all collections.

    Numbers count records, unless a comment says otherwise.
    """

    checked: int = 0
    missing: int = 0  # in the journal, not in Chroma
    orphaned: int = 0  # in Chroma, not in the journal
    stale: int = 0  # with another text or vector than the journal's
    wrong_metadata: int = 0
    unreachable: int = 0  # not found by their own vectors
    words: int = 0  # differing in the index of keyword search
    settings: int = 0  # settings of collections that somebody else changed
    unsettled: int = 0  # documents that differ between source and journal: a sync is due, nothing is broken
    repaired: bool = False
    running: bool = False  # whether a daemon or a sync runs
    aside: str | None = None  # path to which Chroma's folder was moved
    broken: Mapping[str, str] = field(default_factory=dict)  # collections that Chroma cannot read, and why
    unseen: dict[str, str] = field(default_factory=dict)  # sources that could not be compared, and why
    examples: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not (self.is_damaged or self.unsettled or self.unseen)

    @property
    def is_damaged(self) -> bool:
        """Return whether anything was found that ``--repair`` would repair."""
        return any(getattr(self, kind) for kind in _DAMAGES) or bool(self.broken)


def verify(config: Config, repair: bool, rebuild: bool = False) -> Verification:
    """Compare sources, journal, Chroma and the lexical index.

    ``repair``: write wrong records again, then compare once more. If search still misses records, both are
    repeated a few times. ``rebuild``: with ``repair``, move Chroma's folder aside first, so that everything
    is written again. Raises NeedsHuman and Transient.
    """
    if not repair:
        return _verify(config)
    aside = _move_aside(config) if rebuild else None
    repaired, report = _mend(config), _verify(config)
    for _ in range(_AGAIN):
        if report.unreachable:
            _mend(config)
            report = _verify(config)
    return replace(report, repaired=repaired or rebuild, aside=aside)


def _move_aside(config: Config) -> str | None:
    """Rename Chroma's damaged folder and return its new path; None if there is no folder.

    Raises NeedsHuman if the config names a server of somebody else, or if the folder is in use.
    """
    if not isinstance(config.chroma, Supervised | Embedded):
        raise NeedsHuman(
            "--rebuild works only if ingestor runs Chroma, but the config names a server: repair its data, "
            "then run `ingestor sync`, which writes missing records"
        )
    files.make(config.state, lambda name: False)
    with hold(lock_path(config)):
        moved = move_aside(config.chroma.path)
        return str(moved) if moved else None


def _verify(config: Config) -> Verification:
    """Compare everything and return the findings. Changes nothing."""
    running, counts = is_running(config), Counter[str]()
    examples, broken, unseen = list[str](), dict[str, str](), dict[str, str]()
    with (
        journal_of(config) as journal,
        collections_of(config, journal) as collections,
        closing(VectorCache(cache_path(config), config.cache_size)) as cache,
    ):
        parts = Parts(config, embedder_recipes_of(journal))
        for edition in live_editions(journal):
            findings = _examine(journal, collections, edition, cache, parts, restore=False)
            counts["checked"] += findings.checked
            for kind in _DAMAGES:
                differing = getattr(findings, kind)
                counts[kind] += len(differing)
                examples += [f"{edition.serves}: {kind}: {each}" for each in differing[:_EXAMPLES]]
            if findings.broken is not None:
                broken[edition.serves] = findings.broken
    with journal_of(config) as journal, rehearse(config, journal) as copy:
        for serves in config.collections:
            live = Editions(copy).live(serves)
            for source in (parts.by(live.choices) or parts).sources(serves, live.name, parts.embedder.embed):
                try:
                    scan = listing.take(source, Scope(), [LastListing(copy, source.feed)])
                except Exception as error:  # noqa: BLE001 - a defect of one source must not hide the others
                    unseen[source.name] = describe(error)
                    continue
                listing.store_feeds(copy, [source])
                listing.observe(copy, source, observations(scan))
                counts["unsettled"] += len(list_due(copy, source.feed)) + measure_gone(copy, source.name)[0]
                unsettled = list_unsettled(copy, source.feed, _EXAMPLES)
                examples += [f"{serves}: unsettled: {key}" for key in unsettled]
                if scan.trouble is not None:
                    unseen[source.name] = scan.trouble
    fields: dict[str, Any] = {**counts, "broken": broken, "unseen": unseen, "examples": tuple(examples)}
    return Verification(running=running, **fields)


def _examine(
    journal: Journal,
    collections: Collections,
    edition: Edition,
    cache: VectorCache,
    parts: Parts,
    *,
    restore: bool,
) -> Findings:
    """Compare a collection with the journal and the lexical index, and return the differences.

    ``restore``: whether settings of the collection that somebody else changed get their right values.
    """
    try:
        index = collections.edition(edition)
        if index is None:
            had = count_records_of(journal, edition.name)
            return Findings(broken=f"missing in Chroma; had {quantity(had, 'record')}" if had else None)
        with words_of(open_for_reading(lexical_path(parts.config)), edition.uuids) as words:
            findings = compare(journal, index.parts, edition, ThoroughCheck(cache, words.sound()))
        made_by = parts.by(edition.choices) if edition.choices else parts
        model = Model(Fingerprint(edition.embedder or ""), known=False) if made_by is None else made_by.model
        if findings.broken is None:
            findings.settings = collections.list_changed_settings(edition, model, restore=restore)
        return findings
    except Torn as error:
        return Findings(broken=str(error))
    except Transient:
        server = collections.connection.server
        reason = server.revive() if server else None
        if reason is None:
            raise
        return Findings(broken=f"Chroma can't read it: {reason}")


def _mend(config: Config) -> bool:
    """Compare all collections, repair what differs, and run a sync. Return whether anything differed.

    Wrong records are marked as in doubt, so that the sync writes them again. Records without a document are
    deleted. The lock of the state is held during the whole call.
    """
    differed = False
    with open_state(config, serve=False) as running:
        for edition in live_editions(running.journal):
            findings = _examine(
                running.journal, running.collections, edition, running.cache, running.parts, restore=True
            )
            differed |= not findings.clean
            if findings.broken is not None:
                running.journal.doubt(edition.name)
                for _, name in edition.in_chroma:
                    running.collections.delete(name)
            elif findings.rebuild is not None:
                running.swaps.rebuild(edition.serves, findings.rebuild)
            elif not findings.clean:
                index = running.collections.edition(edition)
                assert index is not None
                repair_differences(running.journal, index.parts, edition.name, findings)
                running.lexical.mend(edition.uuids, findings.words)
        Loop(running, Signals()).sync()
    return differed
