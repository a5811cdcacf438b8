"""What people do to documents, by chance: one play is a history of a small world."""

from pathlib import Path
from random import Random

from ingestor.app.handover import Renames
from ingestor.engine.flight import Phase
from ingestor.rechunk.policy import profile_of, shards_of
from ingestor.state.editions import Editions, Requests
from ingestor.state.sources import SourceRows
from tests.simulation import restores
from tests.simulation.checks.at_rest import check
from tests.simulation.checks.readers import EMBEDDERS, OTHER_MODEL
from tests.simulation.lexical import harm
from tests.simulation.ports.chaos import Crash
from tests.simulation.ports.collections import CrashingIndex
from tests.simulation.ports.files import UNREADABLE, UNWRITABLE, Files, Log
from tests.simulation.world import DOCS, ELSE, FILES, MORE, World
from tests.state.journals import of_source

NAMES = [f"{folder}/{name}.txt" for folder in ("a", "b", "c") for name in ("one", "two", "three", "four")]
LINES = ["alpha", "beta", "gamma", "delta words", "x", "a longer line of text", "zeta", "omega"]
COMMON = ["write", "edit", "copy"] * 2 + ["delete", "rename", "swap", "touch", "chain", "tree"]
RARE = ["recipe", "embedder", "answer", "mount"] * 2 + ["hide", "show", "roll_back", "tear", "wipe"]
RARE += ["lock", "unlock", "spoil", "clock", "parser", "unlink", "damage"]
MEDDLING = ["settings", "settings meanwhile", "refuse key", "take key"] + ["refuse writes", "take writes"] * 2
ON_DISK = {"hide", "show", "lock", "unlock", "spoil", "mount", "restless"}
SERVER = ("server goes", "server comes", "exchange", "revision")
# Where there are two sources.
SEVERAL = ["leave", "join", "call otherwise", "trade", "revoke", "grant", "pause", "resume", "retry", "doubt"]


def play(folder: Path, seed: int, acts: int = 12, rounds: int = 12, **settings: object) -> World:
    """Act, let the program run and die, act again; at the end everything must be as from nothing.

    ``rounds``: fewer than these of the program follow each of the ``acts``.
    """
    random, hints, strangers = Random(seed), Random(f"hints {seed}"), Random(f"strangers {seed}")
    settings = {"collective": seed % 3 == 0, "mode": ("in_place", "swap")[seed // 3 % 2], **settings}
    settings = {"ahead": len(NAMES) * (seed % 2), "asking": seed % 4 in (1, 2), "meddled": True, **settings}
    world = World(folder, seed, **{"crash_rate": 0.06, "error_rate": 0.03, **settings})
    for _ in range(acts):
        for _ in range(random.randrange(1, 4)):
            act(world, random)
            hint(world, hints)
        if world.meddled:
            meddle(world, strangers)
        world.step(random.randrange(1, rounds))
        if world.dwindling:
            dwindle(world, hints)
        if world.spoiling:
            spoil(world, hints)
        if world.sliced and len(world.places) > 1:  # last: when the program starts anew, all is well
            rename_half_written(world, random)
    if not world.prune:
        world.approved.approve()
    world.settle()
    check(world)
    world.end()
    return world


def act(world: World, random: Random) -> None:
    """One thing that a person, an editor or the disk does."""
    files = world.files if len(world.places) == 1 else random.choice(list(world.places.values()))
    existing = sorted(files.contents)
    deeds = [*COMMON, "rare", "rare", "rare", *["move", "several"] * world.several]
    deed = random.choice([*deeds, *restores.DEEDS * world.restores])
    world.deeds[deed] += 1
    if deed in restores.DEEDS:
        world.backups.do(deed, random)
    elif deed == "rare":
        rare(world, random, files)
    elif deed == "several":
        with_several(world, random, random.choice(SEVERAL))
    elif deed == "write" or not existing:
        files.write(random.choice(NAMES), text(random))
    elif deed == "move":
        move(world, random, files, random.choice(existing))
    else:
        common(files, random, deed, random.choice(existing))


def hint(world: World, random: Random) -> None:
    """A watcher saw something in a document or a folder, or nothing: the next listing is regular then."""
    if random.random() < 0.5:
        name = random.choice(NAMES)
        world.engine.scanner.request_listing(FILES, random.choice([name, name[0]]))


def meddle(world: World, random: Random) -> None:
    """Do what befalls a collection or an embedder, whatever people do to documents."""
    deed, all_of_them = random.choice([*MEDDLING, *[""] * len(MEDDLING)]), world.shelves.collections
    if not (deed and all_of_them):
        return
    world.deeds[deed] += 1
    index, _ = all_of_them[random.choice(sorted(all_of_them))]
    if deed in ("settings", "settings meanwhile"):
        if deed == "settings meanwhile":
            world.end()
        change_settings(index, random)
        if deed == "settings meanwhile":
            world.start()
    elif deed == "refuse writes":
        index.away = True
    elif deed == "take writes":
        world.shelves.heal()
    elif deed == "refuse key":
        world.refused = {random.choice(EMBEDDERS)}
    elif deed == "take key":
        world.refused = set()


def change_settings(index: CrashingIndex, random: Random) -> None:
    """A stranger changes what a collection says of its graph, and of the function that readers call."""
    if random.random() < 0.5:
        index.settings["hnsw"]["ef_search"] = 1
    else:
        config = {"url": "http://elsewhere", "api_key_env_var": "SECRET"}
        index.settings["embedding_function"] = {
            "type": "known",
            "name": "huggingface_server",
            "config": config,
        }


def dwindle(world: World, random: Random) -> None:
    """Folders are deleted one after the other; each time all is listed whole while others are at work."""
    for folder in random.sample("abc", 3):
        for name in [name for name in sorted(world.files.contents) if name.startswith(f"{folder}/")]:
            world.files.delete(name)
        world.engine.scanner.request_listing()
        world.step(random.randrange(1, 4))
    for name in random.sample(NAMES, 9):
        world.files.write(name, text(random))


def spoil(world: World, random: Random) -> None:
    """Most documents cannot be read any more, as after an update that broke a parser; later they can."""
    names = random.sample(NAMES, 9)
    for name in names:
        world.files.write(name, text(random))
    for content in (UNREADABLE, ""):
        world.engine.scanner.request_listing()
        world.step(random.randrange(4, 12))
        for name in names:
            world.files.write(name, content or text(random))


def common(files: Files, random: Random, deed: str, key: str) -> None:
    if deed == "edit":
        lines = files.contents[key].split("\n")
        lines.insert(random.randrange(len(lines) + 1), random.choice(LINES))
        files.write(key, "\n".join(lines[random.randrange(2) :]))
    elif deed == "delete":
        files.delete(key)
    elif deed == "rename":
        files.rename(key, random.choice(NAMES))
    elif deed == "touch":
        files.write(key, files.contents[key])
    elif deed == "copy":
        files.write(random.choice(NAMES), files.contents[key])
    else:
        {"swap": swap, "chain": chain, "tree": tree}[deed](files, random, key)


def swap(files: Files, random: Random, key: str) -> None:
    """Two documents exchange their names."""
    other = random.choice(sorted(files.contents))
    first, second = files.contents[key], files.contents[other]
    files.write(key, second)
    files.write(other, first)


def chain(files: Files, random: Random, key: str) -> None:
    """Each document takes the name of the next."""
    existing = sorted(files.contents)
    for old, new in reversed(list(zip(existing, [*existing[1:], random.choice(NAMES)], strict=True))):
        files.rename(old, new)


def tree(files: Files, random: Random, key: str) -> None:
    """A folder is renamed, and then copied."""
    old, new, copy = random.sample("abc", 3)
    for name in [name for name in sorted(files.contents) if name.startswith(f"{old}/")]:
        files.rename(name, new + name[1:])
        files.write(copy + name[1:], files.contents[new + name[1:]])


def move(world: World, random: Random, files: Files, key: str) -> None:
    """A document goes to another source, or into the place of another one there."""
    content = files.contents[key]
    files.delete(key)
    random.choice(list(world.places.values())).write(random.choice([key, random.choice(NAMES)]), content)


def with_several(world: World, random: Random, deed: str) -> None:
    """What people do to sources, and what they ask of documents."""
    source, second = random.choice(list(world.places)), next((s for s in world.places if s != FILES), None)
    if deed == "leave" and second is not None:
        world.apart.append(world.places.pop(second))
        world.apart[0].wanted.clear()
    elif deed == "join" and second is None:
        world.places[MORE] = world.apart.pop()
        world.expect_listed([MORE])
    elif deed == "call otherwise" and second is not None:
        rename(world, {second: ELSE if second == MORE else MORE})
    elif deed == "trade" and second is not None:
        begin(world, random)
        rename(world, {FILES: second, second: FILES})
    elif deed in ("revoke", "grant"):
        world.places[source].revoked = deed == "revoke"
    elif deed == "pause":
        SourceRows(world.journal).pause(source, world.now)
    elif deed == "resume":
        SourceRows(world.journal).resume(source)
    elif deed == "retry":
        world.journal.retry()
    elif deed == "doubt":
        serves = world.serves(world.places[source])
        rows = [entry.row for entry in of_source(world.journal, source)]
        world.journal.doubt(Editions(world.journal).live(serves).name, random.sample(rows, len(rows) // 2))
    world.configure()


def begin(world: World, random: Random) -> None:
    """Documents that were changed are read, when one of the sources wants other credentials."""
    world.engine.scanner.request_listing()
    world.engine_step()
    random.choice(list(world.places.values())).revoked = True
    world.engine_step()


def rename_half_written(world: World, random: Random) -> None:
    """A document has some of its records in the index, if nothing is in its way, when its source is renamed
    or trades its name with another."""
    second = next(source for source in world.places if source != FILES)
    world.places[second].write(random.choice(NAMES), "\n".join(random.sample(LINES, len(LINES))))
    world.engine.scanner.request_listing()
    for _ in range(10):
        world.now += 1.0
        world.engine_step()
        if world.engine.flight.documents(Phase.WRITING):
            break
    new = random.choice([FILES, *{MORE, ELSE} - {second}])
    rename(world, {second: new, **({FILES: second} if new == FILES else {})})
    world.configure()


def rename(world: World, renames: Renames) -> None:
    """Sources have other names, while listings and documents of theirs are under way."""
    world.renamed = True
    world.places |= {new: world.places.pop(old) for old, new in renames.items()}


def with_server(world: World, deed: str, random: Random) -> None:
    """The server that embeds is away, or somebody exchanges its model, and says so in the config or not."""
    if deed == "revision":
        world.revision += 1
        world.configure()
    elif deed == "exchange":
        world.server_model = random.choice(["", OTHER_MODEL])
    else:
        world.server_away = deed == "server goes"


def with_approvals(world: World, deed: str, random: Random) -> None:
    if deed == "apply":
        world.approved.approve()
    else:
        world.approved.roll_back(random.choice(world.all_readers).serves)


def with_chroma(world: World, deed: str, random: Random) -> None:
    """A collection is torn, or somebody deletes it."""
    names = random.choice(world.all_readers).names()
    world.disturbed = True
    if deed == "tear" and names:
        world.shelves.collections[names[-1]][0].torn = True
    elif deed == "wipe":
        world.shelves.collections.pop(next(iter(names), ""), None)
        world.end()
        world.start()


def with_disk(world: World, deed: str, random: Random, files: Files) -> None:
    """What can be seen, read or parsed of the documents is another thing now."""
    if deed in ("hide", "show"):
        files.see(hidden="a" if deed == "hide" else None, disk=files.disk)
    elif deed in ("lock", "unlock"):
        files.locked = files.locked.union(random.sample(NAMES, 4)) if deed == "lock" else set()
    elif deed == "spoil" and files.contents:
        files.write(random.choice(sorted(files.contents)), random.choice([UNREADABLE, UNWRITABLE]))
    elif deed == "mount":
        files.see(hidden=files.hidden, disk=random.choice(["own", "own", "empty", "other"]))
    elif deed == "restless" and files.contents:
        files.restless = {random.choice(sorted(files.contents))}
        files.logs = {random.choice(sorted(files.contents)): Log(lambda: world.now)}


def rare(world: World, random: Random, files: Files) -> None:
    more = ["reshard"] * world.resharded + ["mount"] * world.remounted + ["restless"] * 4 * world.restless
    more += ["apply", "apply", "undo"] * 2 * world.approves + [*SERVER] * 4 * world.remote
    deed = random.choice([*RARE, *more])
    world.deeds[deed] += 1
    if deed in ("unlink", "damage"):
        harm(world.words, deed)
    elif deed == "clock":
        world.now += random.choice([-1e5, -100.0, 1e5])
    elif deed == "answer":
        world.answer()
    elif deed in SERVER:
        with_server(world, deed, random)
    elif deed in ("apply", "undo"):
        with_approvals(world, deed, random)
    elif deed in ("tear", "wipe"):
        with_chroma(world, deed, random)
    elif deed in ON_DISK:
        with_disk(world, deed, random, files)
    else:
        configure(world, random, deed)


def configure(world: World, random: Random, deed: str) -> None:
    if deed == "recipe":
        world.per_chunk = random.choice([1, 2, 3])
        world.profile = ("recipe", "title") if world.per_chunk == 2 else "full"
    elif deed == "reshard":
        world.shards = random.choice([1, 2, 3])
    elif deed == "embedder":
        world.embedder = random.choice(EMBEDDERS)
    elif deed == "parser":  # another version of it, which may take nothing
        world.parser += 1
        broken = random.random() < 0.5
        for files in (*world.places.values(), *world.apart):
            files.parser_broken, files.ever_broken = broken, files.ever_broken or broken
    elif deed == "roll_back" and Editions(world.journal).of(DOCS, "previous"):
        roll_back(world)
        return
    if not world.approves:
        for readers in world.all_readers:  # whoever wants it again applies it
            Requests(world.journal).put("refused", readers.serves, None)
    world.configure()


def roll_back(world: World) -> None:
    """Readers have the old collection again, as old as it is; then the old config is put back as well."""
    world.disturbed = True  # readers ask between the renames
    try:
        retired = Editions(world.journal).of(DOCS, "previous")
        world.swaps.roll_back(max(retired, key=lambda edition: edition.since))
    except Crash:
        world.end()
        world.start()
    world.readers.forget()
    choices = Editions(world.journal).live(DOCS).choices or {}
    world.embedder = choices["embedding"]["options"]["flavour"]
    world.revision = choices["embedding"]["options"].get("revision", 0)
    for source in choices["sources"].values():
        world.per_chunk = source["chunking"]["options"]["per_chunk"]
    world.profile, world.shards = profile_of(choices), shards_of(choices)
    world.configure()


def text(random: Random) -> str:
    return "\n".join(random.choice(LINES) for _ in range(random.randrange(0, 7)))
