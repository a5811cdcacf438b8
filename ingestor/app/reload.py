"""Notices a changed config file, and reads it; a bad one is reported and the old one stays in force."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from ingestor.config.file import load
from ingestor.config.models import Config, ConfigError
from ingestor.core.events import event
from ingestor.state.running_config import settled_at_start

log = logging.getLogger("ingestor")

_AT_NEXT_START = {"log": "log", "cache.size": "cache_size"}  # by name in the file; the others do not wait
SETTLE = 1.0  # seconds without a write: half a config can be valid, with fewer sources

Stamp = tuple[int, int] | None


@dataclass(slots=True)
class ConfigState:
    """How the config file differs from the config in force, for those who watch the daemon.

    ``refused``: why it was refused; "" if it was not.
    """

    refused: str = ""
    restart_pending: bool = False


class ReloadSignal(Protocol):
    """``reload``: a signal (SIGHUP) requested it."""

    reload: bool


class Reloader:
    """Call ``changed`` regularly. ``seen``: the stamp of the file before ``config`` was read."""

    def __init__(
        self, path: Path, env: Mapping[str, str], asked: ReloadSignal, config: Config, seen: Stamp
    ) -> None:
        self._path, self._env, self._asked = path, env, asked
        self._config, self._seen = config, seen
        self.state = ConfigState()
        self._last, self._since = seen, monotonic()

    def changed(self) -> Config | None:
        """The new config, if the file changed and can be taken over while running; else None."""
        now = stamp(self._path)
        if now != self._last:
            self._last, self._since = now, monotonic()
        ripe = now != self._seen and monotonic() - self._since >= SETTLE
        if not (ripe or self._asked.reload):
            return None
        self._seen, self._asked.reload = now, False
        try:
            config = load(self._path, self._env)
        except ConfigError as error:
            log.error(
                "changed config rejected, the previous config stays in force:\n%s",
                error,
                extra=event("config_refused", reason=str(error)),
            )
            self.state.refused = str(error)
            return None
        self.state.refused = ""
        settled = settled_at_start(self._config, config)
        self.state.restart_pending = bool(settled)
        if settled:
            log.error(
                "config not reloaded, restart ingestor to apply the change of: %s",
                ", ".join(settled),
                extra=event("config_restart_needed", keys=settled),
            )
            return None
        late = [
            name for name, key in _AT_NEXT_START.items() if getattr(self._config, key) != getattr(config, key)
        ]
        log.info(
            "config reloaded%s",
            f"; {' and '.join(late)} at the next start" if late else "",
            extra=event("config_reloaded"),
        )
        self._config = config
        return config


def stamp(path: Path) -> Stamp:
    """Differs when the file was changed, replaced (also by way of a symlink) or removed."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
