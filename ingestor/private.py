"""Folders of ours, closed to other users: what is in them quotes documents that may be secret.

The umask of the process sees to what is made from now on. What an earlier version or somebody's hand left
open is closed here. A folder that holds other things, too, stays as it is; our files in it are closed.
"""

import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger("ingestor")

UMASK = 0o077


def make(folder: Path, ours: Callable[[str], bool]) -> None:
    """Make the folder if need be, for this user alone. ``ours``: whether a name in it is one that we give.

    Raises OSError when it can't be made. What can't be closed is said, and used all the same.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        found = [path for path in _to_close(folder, ours) if _is_open(path)]
        for path in found:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~UMASK)
    except OSError as error:
        log.warning("other users may read %s, and it can't be closed to them: %s", folder, error.strerror)
        return
    if found:
        log.warning("other users could read %s: it is closed to them now", folder)


def _to_close(folder: Path, ours: Callable[[str], bool]) -> Iterator[Path]:
    paths = list(folder.iterdir())
    if all(ours(path.name) for path in paths):
        yield folder
    yield from (path for path in paths if ours(path.name) and not path.is_symlink())


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & UMASK)
