"""The law that readers find the documents of a large folder while it is renamed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ingestor.core.entries import EditionName, Entry
from ingestor.core.listings import Observe
from ingestor.model import SourceName
from ingestor.state import backlog
from ingestor.state.sources import SourceRows
from tests.simulation.laws import MOVED, hold

if TYPE_CHECKING:
    from tests.simulation.world import World

Remove = Callable[[Sequence[Entry]], None]


def watched(world: "World", remove: Remove) -> Remove:
    """The writer's method, held to that law."""

    def held(gone: Sequence[Entry]) -> None:
        awaited = {feed: _awaited(world, *feed) for feed in {entry.feed for entry in gone}}
        hold(MOVED, [entry.key for entry in gone if _text(world, entry) in awaited[entry.feed]
                     and not _gone_for_long(world, entry)])  # fmt: skip
        remove(gone)

    return held


def _gone_for_long(world: "World", entry: Entry) -> bool:
    """What a crash left unnoted has vanished just now, or earlier."""
    gone_since = world.gone_since.setdefault(entry.row, world.journal.clock())
    return world.journal.clock() - gone_since > backlog.LONGEST - 1.0


def _awaited(world: "World", source: SourceName, edition: EditionName) -> set[str]:
    """Texts of new documents that wait in the edition, or in parts of the source's listing that the
    journal does not have yet."""
    due = world.journal.select(
        """SELECT source, wanted_version FROM documents WHERE collection = ?
           AND digest IS NULL AND NOT quarantined AND wanted_version IS NOT NULL""",
        (edition,),
    )
    watch = world.engine.scanner._watches.get(source)
    left = () if watch is None else watch.left
    parts = [each.changes.part(each.part) for each in left if isinstance(each, Observe) and not each.edition]
    versions = due + [(source, item.version) for one in parts for item in one.changed]
    at_work = {name for name in world.places if SourceRows(world.journal).of(name).ready}
    return {world.places[name].written[int(version)] for name, version in versions if name in at_work}


def _text(world: "World", entry: Entry) -> str | None:
    """That of its records. None if it is not known, or if another version was listed later."""
    if entry.done_version is None or entry.source not in world.places:
        return None
    text = world.places[entry.source].written[int(entry.done_version)]
    [(size,)] = world.journal.select("SELECT size FROM documents WHERE id = ?", (entry.row,)) or [(None,)]
    return text if len(text) == size else None
