"""Changes to a folder, fast and of every kind."""

import contextlib
import random
import shutil

from tests.connectors.folders import FolderWorld


def turmoil(world: FolderWorld, chance: random.Random, steps: int) -> None:
    """Files written, saved atomically and deleted; directories moved within, out and in, and deleted."""
    aside = world.root.with_name("aside")
    aside.mkdir(exist_ok=True)
    for step in range(steps):
        key = f"d{chance.randrange(8)}/e{chance.randrange(3)}/f{chance.randrange(40)}.md"
        folder, action = key[: chance.choice([2, 5])], chance.random()
        here, there = world.root / folder, aside / folder.replace("/", "-")
        other = world.root / f"d{chance.randrange(8)}/e{chance.randrange(3)}"
        if action < 0.6:
            world.put(key, b"%d" % step)
        elif action < 0.85:
            world.put(f"{key}.tmp", b"%d" % step)
            world.move(f"{key}.tmp", key)
        elif action < 0.9:
            with contextlib.suppress(FileNotFoundError):
                world.delete(key)
        elif action < 0.93 and here.exists() and not other.exists() and here not in other.parents:
            other.parent.mkdir(exist_ok=True)
            here.rename(other)
        elif action < 0.97 and here.exists() and not there.exists():
            here.rename(there)
        elif there.exists() and not here.exists():
            here.parent.mkdir(exist_ok=True)
            there.rename(here)
        elif action > 0.99:
            shutil.rmtree(here, ignore_errors=True)
