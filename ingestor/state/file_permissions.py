"""Folders of ours, closed to other users: what is in them quotes documents that may be secret.

The umask of the process sees to what is made from now on. What an earlier version or somebody's hand left
open is closed here. A folder that is empty or holds other things, too, stays as it is; our files in it are
closed.
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
    closed, refused = [], []
    for path in _to_close(folder, ours):
        try:
            if _is_open(path):
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~UMASK)
                closed.append(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            refused.append((path, error.strerror))
    if refused:
        path, why = refused[0]
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        log.warning("other users may read %s%s, and it can't be closed to them: %s", path, more, why)
    if closed:
        log.warning("other users could read %s: it is closed to them now", closed[0])


def _to_close(folder: Path, ours: Callable[[str], bool]) -> Iterator[Path]:
    """Not an empty folder: it is new, and closed already, or somebody made it for more than us."""
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        log.warning(
            "%s can't be listed, so that other users may read what is in it: %s", folder, error.strerror
        )
        return
    if paths and all(ours(path.name) for path in paths):
        yield folder
    yield from (path for path in paths if ours(path.name) and not path.is_symlink())


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & UMASK)
