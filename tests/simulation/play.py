"""What people do to documents, by chance: one play is a history of a small world."""

from pathlib import Path
from random import Random

from ingestor.choices import unpacked
from ingestor.editions import Editions
from tests.simulation.world import EMBEDDERS, Crash, World

NAMES = [f"{folder}/{name}.txt" for folder in ("a", "b") for name in ("one", "two", "three", "four")]
LINES = ["alpha", "beta", "gamma", "delta words", "x", "a longer line of text", "zeta", "omega"]


def play(folder: Path, seed: int, acts: int = 12, **settings: object) -> World:
    """Act, let the program run and die, act again; at the end everything must be as from nothing."""
    random = Random(seed)
    settings = {"collective": seed % 3 == 0, "mode": ("in_place", "swap")[seed // 3 % 2], **settings}
    world = World(folder, seed, crash_rate=0.06, error_rate=0.03, **settings)
    for _ in range(acts):
        for _ in range(random.randrange(1, 4)):
            act(world, random)
        world.step(random.randrange(1, 12))
    world.settle()
    world.check()
    world.journal.close()
    return world


def act(world: World, random: Random) -> None:
    """One thing that a person, an editor or the disk does."""
    files = world.files
    existing = sorted(files.contents)
    deed = random.choice(
        ["write", "write", "edit", "edit", "delete", "rename", "swap", "touch", "folder", "rare", "rare"]
    )
    if deed == "write" or not existing:
        files.write(random.choice(NAMES), text(random))
        return
    key = random.choice(existing)
    if deed == "edit":
        lines = files.contents[key].split("\n")
        lines.insert(random.randrange(len(lines) + 1), random.choice(LINES))
        files.write(key, "\n".join(lines[random.randrange(2) :]))
    elif deed == "delete":
        files.delete(key)
    elif deed == "rename":
        files.rename(key, random.choice(NAMES))
    elif deed == "swap":
        other = random.choice(existing)
        first, second = files.contents[key], files.contents[other]
        files.write(key, second)
        files.write(other, first)
    elif deed == "touch":
        files.write(key, files.contents[key])
    elif deed == "folder":
        for old in [k for k in existing if k.startswith("a/")]:
            files.rename(old, "b/" + old[2:])
    else:
        rare(world, random)


def rare(world: World, random: Random) -> None:
    deed = random.choice(["hide", "show", "recipe", "recipe", "embedder", "roll back", "tear", "wipe"])
    if deed == "hide":
        world.files.hidden = "a"
    elif deed == "show":
        world.files.hidden = None
    elif deed == "recipe":
        world.per_chunk = random.choice([1, 2, 3])
        world.configure()
    elif deed == "embedder":
        world.embedder = random.choice(EMBEDDERS)
        world.configure()
    elif deed == "roll back" and Editions(world.journal).of("docs", "retired"):
        roll_back(world)
    elif deed == "tear" and "docs" in world.shelves.collections:
        world.shelves.collections["docs"][0].torn = True
    elif deed == "wipe":
        world.shelves.collections.pop("docs", None)
        world.journal.close()
        world.start()


def roll_back(world: World) -> None:
    """Readers have the old collection again, as old as it is; then the old config is put back as well."""
    try:
        retired = Editions(world.journal).of("docs", "retired")
        world.transitions.roll_back(max(retired, key=lambda edition: edition.since))
    except Crash:
        world.start()
    world.visible = (None, set())
    choices = unpacked(Editions(world.journal).live("docs").choices or "")
    world.embedder = choices["embedding"]["recipe"]
    world.per_chunk = choices["sources"]["files"]["chunking"]["options"]["per_chunk"]
    world.configure()


def text(random: Random) -> str:
    return "\n".join(random.choice(LINES) for _ in range(random.randrange(0, 7)))
