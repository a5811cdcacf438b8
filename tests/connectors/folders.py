"""A folder that tests change, and ways to run a piece of Python with less power than a test may have."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from ingestor.connectors.folder.connector import Folder, FolderOptions
from tests.connectors.on_disk import OnDisk

REPOSITORY = Path(__file__).resolve().parents[2]


class FolderWorld(OnDisk):
    """The ``World`` of the connector laws, as a real folder."""

    def __init__(self, root: Path, **options: object) -> None:
        self.root = root
        quick = {"settle": 0.1, "poll": 0.5}
        self.connector = Folder(FolderOptions.model_validate({"path": root, **quick, **options}))

    def keys(self, under: str = "") -> set[str]:
        return {item.key for item in self.connector.scan_under(under)}


_AS_NOBODY = """
import grp, json, os, pwd, sys
from ingestor.connectors.folder.connector import Folder, FolderOptions
from ingestor.model import Item
from ingestor.ports import PartialScan
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
"""


def run_python(code: str, *arguments: str, before: str = "", wrapper: tuple[str, ...] = ()) -> str:
    """What ``code`` prints. ``wrapper``: a command to run it under."""
    command = [*wrapper, sys.executable, "-c", before + textwrap.dedent(code), *arguments]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_as_nobody(code: str, *arguments: str) -> str:
    """As a user without rights, if the test has more."""
    return run_python(code, *arguments, before=_AS_NOBODY)


def runs(*wrapper: str) -> bool:
    """Whether a command may be run under ``wrapper`` here."""
    return (
        bool(shutil.which(wrapper[0]))
        and not subprocess.run([*wrapper, "true"], capture_output=True).returncode
    )


def plant(world: FolderWorld, *keys: str) -> None:
    for key in keys:
        world.put(key, b"x")


def selected(world: FolderWorld, **options: object) -> set[str]:
    return FolderWorld(world.root, **options).keys()
