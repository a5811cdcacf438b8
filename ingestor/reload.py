"""Notices a changed config file, and reads it; a bad one is reported and the old one stays in force."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ingestor.config import Config, ConfigError
from ingestor.config_file import load

log = logging.getLogger("ingestor")


class Asked(Protocol):
    """``reload``: somebody asked for it (SIGHUP)."""

    reload: bool


class Reloader:
    """Ask ``changed`` now and then."""

    def __init__(self, path: Path, env: Mapping[str, str], asked: Asked) -> None:
        self._path, self._env, self._asked = path, env, asked
        self._seen = self._stamp()
        self._config = load(path, env)

    def changed(self) -> Config | None:
        """The new config, if there is one and it can be taken over while running."""
        stamp = self._stamp()
        if stamp == self._seen and not self._asked.reload:
            return None
        self._seen, self._asked.reload = stamp, False
        try:
            config = load(self._path, self._env)
        except ConfigError as error:
            log.error("the changed config is not taken over, the old one stays:\n%s", error)
            return None
        if self._needs_restart(config):
            log.error("state, chroma and parsing change only with a restart; the old config stays")
            return None
        log.info("the config is taken over")
        self._config = config
        return config

    def _needs_restart(self, new: Config) -> bool:
        old = self._config
        return (old.state, old.chroma, old.parsing) != (new.state, new.chroma, new.parsing)

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino
