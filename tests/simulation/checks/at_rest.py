"""What holds at rest. Law 1: the index equals that of a run from nothing."""

from collections import Counter
from pathlib import Path

from ingestor.state.editions import Editions
from ingestor.state.reports import count_records_of, failures
from tests.simulation.checks.durable import check_durable, in_step
from tests.simulation.laws import CLEAN, EXACT, FOUND, LEXICAL, SETTINGS, STAMPED, LawBroken, hold
from tests.simulation.lexical import difference
from tests.simulation.ports.files import Files
from tests.simulation.world import World
from tests.state.journals import of_collection

NAMED_BY_HISTORY = {"document_id", "doc_id", "ref_doc_id", "relationships", "_node_content"}


def check(world: World) -> None:
    (expected, settings), found = _from_nothing(world), _essence(world)
    if found != expected:
        raise LawBroken(EXACT, f"surplus: {found - expected}\nmissing: {expected - found}")
    _check_clean(world, full=bool(expected))
    live = Editions(world.journal).live("docs")
    hold(STAMPED, not in_step(world.journal, world.shelves, live) and live.name)
    mine = _settings(world)
    hold(SETTINGS, [mine[name] for name in mine.keys() & settings.keys() if mine[name] != settings[name]])
    indexes = [world.shelves.collections[name][0] for name in mine]
    hold(FOUND, [id_ for index in indexes for id_ in index.hidden & index.inner.records.keys()])
    _check_lexical(world)
    check_durable(world.folder, world.shelves, world.words)


def _from_nothing(world: World) -> tuple[Counter[tuple[object, ...]], dict[str, object]]:
    """Return the records and the settings of collections."""
    fresh = World(
        _scratch(world), world.seed, collective=world.collective, per_chunk=world.per_chunk,
        embedder=world.embedder, parser=world.parser, profile=world.profile, shards=world.shards,
        two=world.two, remote=world.remote,
    )  # fmt: skip
    fresh.server_model, fresh.revision = world.server_model, world.revision - 1  # settling renews it
    fresh.places.clear()
    for source, files in world.places.items():
        own = fresh.places[source] = Files(fresh.chaos, files.root)
        own.contents, own.versions, own.written = files.contents, files.versions, files.written
    fresh.end()  # a reload would keep the connectors
    fresh.start()
    fresh.settle()
    found = _essence(fresh), _settings(fresh)
    fresh.end()
    return found


def _settings(world: World) -> dict[str, object]:
    """Return those of all collections that readers see, by name."""
    names = [name for readers in world.all_readers for name in readers.names()]
    return {name: world.shelves.collections[name][0].settings for name in names}


def _check_clean(world: World, *, full: bool) -> None:
    readable = {
        (source, key): files.contents[key]
        for source, files in world.places.items()
        for key in files.contents
        if files.readable(key)
    }
    hold(CLEAN, [row for row in failures(world.journal) if (row.source, row.key) in readable])
    hold(CLEAN, full != any(map(str.strip, readable.values())) and "an empty index")
    for readers in world.all_readers:
        live = Editions(world.journal).live(readers.serves).name
        hold(CLEAN, count_records_of(world.journal, live) - len(readers.seen()))
        hold(CLEAN, [k for e in of_collection(world.journal, live) for k in e.records if k.unsure])
    ours = {name for edition in Editions(world.journal).all() for _, name in edition.in_chroma}
    hold(CLEAN, set(world.shelves.collections) - ours)


def _check_lexical(world: World) -> None:
    for edition in Editions(world.journal).all():
        if edition.role == "deleted":
            continue  # no reader sees it, and its deletion may wait for a retry
        if not in_step(world.journal, world.shelves, edition):
            continue  # it retired before its backup was restored, and is compared when it is used again
        records = [record for _, name in edition.in_chroma for record in world.shelves.records(name)]
        live = edition.role == "live"
        found = difference(world.words, edition.uuids, records, required=live)
        # one that retired may be in doubt
        entries = [] if live else of_collection(world.journal, edition.name)
        doubted = {f"{e.document_id}#{k.slot}" for e in entries for k in e.records if k.unsure}
        hold(LEXICAL, {each for each in found if each[0] not in doubted})


def _scratch(world: World) -> Path:
    path = world.folder / f"fresh-{world.chaos.random.random()}"
    path.mkdir()
    return path


def _essence(world: World) -> Counter[tuple[object, ...]]:
    """The records less what history may name."""
    return Counter(
        (
            readers.serves,
            record.text,
            record.vector.tobytes(),
            *sorted(
                (k, tuple(v) if isinstance(v, list) else v)
                for k, v in record.metadata.items()
                if k not in NAMED_BY_HISTORY and v is not None
            ),
        )
        for readers in world.all_readers
        for record in readers.seen()
    )
