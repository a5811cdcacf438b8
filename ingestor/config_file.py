"""Reads a config file; all that can be wrong with it becomes one ConfigError."""

from collections.abc import Mapping
from pathlib import Path

from ingestor.config import Config, ConfigError, Problem
from ingestor.config_check import check
from ingestor.config_yaml import parse


def load(path: Path, env: Mapping[str, str]) -> Config:
    """Relative paths in it are relative to its folder. Raises ConfigError with every problem by line."""
    found = check(parse(_text(path), env), path.absolute().parent)
    if isinstance(found, tuple):
        raise ConfigError(str(path), found)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        reason = "there is no such file; `ingestor init` writes a commented one, --config names another"
    except IsADirectoryError:
        reason = "is a folder; --config wants a file"
    except OSError as error:
        reason = f"can't be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "is not UTF-8 text"
    raise ConfigError(str(path), [Problem(0, "", reason)])
