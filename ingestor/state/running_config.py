"""The config in force, kept in the state folder for commands that only read.

The config file may have an error while a daemon keeps the config that it read before. The kept file has the
text of the config, with references to secrets and without the secrets. Only the lock of the state folder
tells whether a program runs with it. A file with an error may not tell where the state folder is, so every
word of it that names a folder is tried. A folder counts only if its kept config names this file and that
folder. A file without an error is sought in its own state folder and the default one. Other words of it may
name folders of servers that are away.
"""

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path

from ingestor.config.file import check_text, load, read
from ingestor.config.models import Config, ConfigError, Settings
from ingestor.ports import NeedsHuman
from ingestor.state.files import is_held, open_own, write_own

NAME = "config-in-force.json"
_AT_START = ("state", "chroma", "http", "parsing", "workers")  # keys that are read once
_DEFAULT_STATE = str(Settings.model_fields["state"].default)
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class InForce:
    """The config in force. ``error``: of the config file, if that is not what runs.

    ``since``: time at which ``config`` took effect, in POSIX seconds. ``restart``: the keys of a file without
    mistakes for which it is not in force.
    """

    config: Config
    error: str | None = None
    since: float | None = None
    restart: tuple[str, ...] = ()


def keys_needing_restart(old: Config, new: Config) -> tuple[str, ...]:
    """Return the keys that differ and need a restart.

    If any differs, nothing of ``new`` takes effect.
    """
    return tuple(key for key in _AT_START if getattr(old, key) != getattr(new, key))


def keep(config: Config, now: float) -> None:
    """Store the config in force, readable by its owner only. Errors of the disk are ignored."""
    value = {"file": str(config.origin.file), "text": config.origin.text, "since": now}
    with suppress(OSError):
        for left in config.state.glob(f"{NAME}.*"):  # of writers that were killed; the state is locked
            left.unlink(missing_ok=True)
        write_own(config.state / NAME, json.dumps(value))


def in_force(path: Path, env: Mapping[str, str]) -> InForce:
    """Return the config of the file, or, if that has an error or needs a restart, of the running program.

    Raises ConfigError if the file has an error and nothing runs.
    """
    try:
        config = load(path, env)
    except ConfigError as error:
        running = _find_running(path, env, _words(path, env))
        if running is None:
            raise
        return InForce(running[0], str(error), running[1])
    running = _find_running(path, env, (str(config.state), _DEFAULT_STATE), config)
    restart = keys_needing_restart(running[0], config) if running is not None else ()
    if running is None or not restart:
        return InForce(config)
    what = f"the config file differs in {', '.join(restart)}, which takes effect at a restart"
    return InForce(running[0], f"{what}; the rest of the change waits until then", running[1], restart)


def config_file_in_use(state: Path) -> str | None:
    """Return the config file of the program that runs with this state folder; None if none runs."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if is_held(state / "lock"):
            return _read_kept(state / NAME)["file"]
    return None


def _find_running(
    path: Path, env: Mapping[str, str], words: Iterable[str], read_now: Config | None = None
) -> tuple[Config, float] | None:
    """Return the config of the program that runs with this file.

    ``words``: that may name its state folder. ``read_now``: what the file says; it is not checked twice.
    """
    for word in dict.fromkeys(words):
        with suppress(OSError, ValueError, KeyError, TypeError, RuntimeError, ConfigError, NeedsHuman):
            folder = Path(normpath(path.absolute().parent / Path(word).expanduser()))
            kept = _read_kept(folder / NAME)
            if kept["file"] != str(path.absolute()) or not is_held(folder / "lock"):
                continue
            same = read_now is not None and kept["text"] == read_now.origin.text
            config = read_now if read_now is not None and same else check_text(path, kept["text"], env)
            if config.state == folder:
                return config, float(kept["since"])
    return None


def _read_kept(file: Path) -> dict[str, str]:
    """Return the kept config. Raises OSError if it is missing, or if another user could have written it."""
    descriptor = open_own(file, os.O_RDONLY)
    with os.fdopen(descriptor) as stream:
        running = os.fstat(descriptor)
        if running.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
            raise PermissionError(f"{file} is another user's")
        if running.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{file} could be anybody's")
        value: dict[str, str] = json.load(stream)
        return value


def _words(path: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the words of the file that could name the state folder, and the default."""
    with suppress(ConfigError):
        for row in read(path).splitlines():
            value = row.partition(":")[2].partition(" #")[0].strip(" \t'\"")
            for word in (value, *re.split(r"[\s,{}\[\]'\"]+", row)):
                yield _VARIABLE.sub(lambda name: env.get(name[1], ""), word)
    yield _DEFAULT_STATE
