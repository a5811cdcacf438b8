"""Read and check the config file. No other module of this folder does I/O, except for files of secrets."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ingestor.config.check import check
from ingestor.config.models import Config, ConfigError, Origin, Problem
from ingestor.config.yaml_tree import parse


def load(path: Path, env: Mapping[str, str]) -> Config:
    """Read and check a config file, and return the config.

    ``env``: environment variables. Raises ConfigError.
    """
    return check_text(path, read(path), env)


def check_text(path: Path, text: str, env: Mapping[str, str]) -> Config:
    """Check a text as if it were the content of the config file, and return the config.

    ``env``: environment variables. Raises ConfigError.
    """
    file = path.absolute()
    result = check(parse(text, env), file.parent)
    if isinstance(result, Config):
        return replace(result, origin=Origin(file, text))
    raise ConfigError(str(path), result)


def read(path: Path) -> str:
    """Return the text of the config file. Raises ConfigError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        message = "does not exist; `ingestor init` writes one, --config names another"
        raise _unreadable(path, message) from None
    except OSError as error:
        raise _unreadable(path, f"can't be read: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            str(path), [Problem(line, "", "is not UTF-8 text: save the file as UTF-8")]
        ) from None


def _unreadable(path: Path, message: str) -> ConfigError:
    return ConfigError(str(path), [Problem(0, "", message)])
