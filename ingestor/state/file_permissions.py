"""Closes our folders to other users, since their files quote documents that may be secret.

The umask closes new files. Files that an earlier version or a person left open are closed here. Of a folder
that was empty or also holds other files, only our files are closed.
"""

import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger("ingestor")

UMASK = 0o077


def make(folder: Path, ours: Callable[[str], bool]) -> None:
    """Create the folder if it does not exist, and close it. ``ours``: whether a file name is one of ours.

    Raises OSError if it cannot be created. A file that cannot be closed is logged, and used nevertheless.
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
    """The paths to close. Not an empty folder: it is new and closed, or was made for other files, too."""
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
