"""A folder that tests change, and ways to run a piece of Python with less power than a test may have."""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from ingestor.connectors.folder.connector import Folder, FolderOptions

REPOSITORY = Path(__file__).resolve().parents[2]


class OnDisk:
    """What worlds of documents that are files below a folder have in common."""

    root: Path

    def put(self, key: str, data: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def delete(self, key: str) -> None:
        (self.root / key).unlink()

    def move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)

    def fail(self) -> None:
        """From now on there is no such folder."""
        self.root.rename(self.root.with_name("aside"))


class FolderWorld(OnDisk):
    """The ``World`` of the connector laws, as a real folder."""

    def __init__(self, root: Path, **options: object) -> None:
        self.root = root
        quick = {"settle": 0.1, "poll": 0.5}
        self.connector = Folder(FolderOptions.model_validate({"path": root, **quick, **options}))

    def keys(self, under: str = "") -> set[str]:
        return {item.key for item in self.connector.scan_under(under)}


_AS_NOBODY = """
import fcntl, grp, json, os, pwd, sys
from ingestor.connectors.folder.connector import Folder, FolderOptions
from ingestor.model import Item
from ingestor.ports import PartialScan
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
"""


def run_python(code: str, *arguments: str, before: str = "", wrapper: tuple[str, ...] = ()) -> str:
    """What ``code`` prints. ``wrapper``: a command to run it under."""
    command = [*wrapper, sys.executable, "-c", before + textwrap.dedent(code), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_as_nobody(code: str, *arguments: str) -> str:
    """As a user without rights, if the test has more."""
    return run_python(code, *arguments, before=_AS_NOBODY)


def runs(*wrapper: str) -> bool:
    """Whether a command may be run under ``wrapper`` here."""
    found = shutil.which(wrapper[0])
    return bool(found) and not subprocess.run([*wrapper, "true"], capture_output=True).returncode


def plant(world: FolderWorld, *keys: str) -> None:
    for key in keys:
        world.put(key, b"x")


def selected(world: FolderWorld, **options: object) -> set[str]:
    return FolderWorld(world.root, **options).keys()


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
