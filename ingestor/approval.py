"""What a changed config waits for, and how people answer: ``apply`` and ``rollback``.

Answers are left in the journal, where a daemon finds them; where none runs, the caller does the work.
"""

import time
from secrets import token_hex

from ingestor import rechunk
from ingestor.config import Config
from ingestor.editions import Editions
from ingestor.handover import rehearsed
from ingestor.inspection import BadRequest, is_running, journal_of
from ingestor.journal import Journal
from ingestor.model import CollectionName
from ingestor.outlook import outlook
from ingestor.ports import Transient
from ingestor.wiring import Parts, gone_sources, opened

PATIENCE = 30.0  # seconds that a daemon may take to hear of it


def approve(config: Config) -> list[str]:
    """Say yes to all that waits; returns what that is, in words."""
    parts, said = Parts(config), []
    with journal_of(config) as journal, rehearsed(config, journal) as seen:
        for found in outlook(parts, seen):
            if found.waits or journal.get(f"waits:{found.serves}"):
                wanted = parts.wanted(found.serves)
                journal.set(f"approved:{found.serves}", rechunk.named(wanted))
                journal.set(f"refused:{found.serves}", "")
                said.append(f"{found.serves}: {', '.join(map(str, found.decision.changes))}")
        for name in gone_sources(config, journal):
            journal.set(f"prune:{name}", "1")
            said.append(f"source {name}: its documents are removed")
        journal.set("asked", token_hex(8))
    return said


def roll_back(config: Config, collection: str) -> None:
    """Readers get the collection as it was before the last swap. Raises BadRequest, Transient."""
    serves = CollectionName(collection)
    with journal_of(config) as journal:
        retired = Editions(journal).of(serves, "retired")
        if not retired:
            raise BadRequest(
                f"there is nothing to roll {collection!r} back to: only a swap leaves an old collection, and "
                f"only for so long as rechunk.grace says ({config.rechunk.grace:.0f} s)"
            )
        latest = max(retired, key=lambda edition: edition.since)
        journal.set(f"roll back:{serves}", latest.name)
        journal.set("asked", token_hex(8))
        if _done_by_daemon(config, journal, serves):
            return
    with opened(config, serve=False) as running:
        running.transitions.heed()


def _done_by_daemon(config: Config, journal: Journal, serves: CollectionName) -> bool:
    """Whether what runs has done it; False where nothing runs (any more)."""
    until = time.monotonic() + PATIENCE
    while journal.get(f"roll back:{serves}"):
        if not is_running(config):
            return False
        if time.monotonic() > until:
            raise Transient("the daemon was told, but has not done it yet; see: ingestor status")
        time.sleep(0.1)
    return True
