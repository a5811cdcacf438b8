"""Files and folders of a connector's own, closed to other users: they hold the text of documents."""

import logging
import stat
from functools import lru_cache
from pathlib import Path

_OTHERS = 0o077
_log = logging.getLogger(__name__)


def close(*paths: Path) -> None:
    """Remove the rights of other users, and log that. What is not there is passed over."""
    for path in paths:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & _OTHERS:
                path.chmod(mode & ~_OTHERS)
                _say("other users could read %s: it is closed to them now", path)
        except FileNotFoundError:
            continue
        except OSError as error:
            _say("other users may read %s, and it can't be closed: %s", path, error.strerror)


@lru_cache(maxsize=4096)
def _say(what: str, *about: object) -> None:
    """Log a warning once, not at each use."""
    _log.warning(what, *about)
