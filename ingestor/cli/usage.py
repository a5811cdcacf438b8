"""Shared by all commands: options, reading of the config, exit codes, and commands to paste."""

import logging
import re
import shlex
import shutil
import sys
from os import environ, umask
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ingestor.core.escape import escape_invisible
from ingestor.core.events import event

if TYPE_CHECKING:
    from ingestor.config.models import Config
    from ingestor.project import Project


DEFAULT_CONFIG = Path("config.yaml")


def command(words: str, config: Path = DEFAULT_CONFIG) -> str:
    """``.venv/bin/ingestor sync --config other.yaml``: with path and options only as needed."""
    option = "" if config == DEFAULT_CONFIG else f" --config {shlex.quote(str(config))}"
    return f"{shlex.quote(_program())} {words}{option}"


def quoted(text: str) -> str:
    """Text as one shell word, in double quotes if possible."""
    return shlex.quote(text) if re.search(r'[\\"$`!]', text) else f'"{text}"'


def _program() -> str:
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    if not called.is_file() or (found is not None and called.samefile(found)):
        return called.name
    try:
        return str(called.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(called.absolute())


ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The config file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Show more details.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show only warnings and errors.")]
CONFIG = DEFAULT_CONFIG

SETTLED, USAGE, QUARANTINED, FAILED, INTERRUPTED = 0, 2, 3, 4, 130


def fail(message: str, code: int) -> NoReturn:
    """End with a message: an object of the log, if that is JSON."""
    if "ingestor.cli.log" in sys.modules and sys.modules["ingestor.cli.log"].is_json():
        logging.getLogger("ingestor").critical(message, extra=event("ended", code=code))
    else:
        print(escape_invisible(message), file=sys.stderr)
    raise SystemExit(code)


def log_level(configured: str, verbose: bool, quiet: bool) -> str:
    """Return the level of the log. Exits if both options are given."""
    if verbose and quiet:
        fail("--verbose and --quiet exclude each other: give one", USAGE)
    if quiet:
        return configured if configured == "error" else "warning"
    return "debug" if verbose else configured


def close_to_others() -> None:
    """Keep this process's new files, memory and environment, where secrets stand, from other processes."""
    from ingestor.confinement.walls import hide

    hide()
    umask(0o077)


def read_config(path: Path, *, logged: bool = False) -> "Config":
    """The config, for commands that write. ``logged``: the caller logs its warnings."""
    from ingestor.config.file import load

    close_to_others()
    config = load(path, environ)
    for warning in () if logged else config.warnings:
        print(escape_invisible(f"{path}: warning: {warning}"), file=sys.stderr)
    return config


def to_write(path: Path, *, logged: bool = False) -> "tuple[Project, Config]":
    """Return a project for commands that write, and its config. ``logged``: the caller logs warnings."""
    from ingestor.project import Project
    from ingestor.state.running_config import InForce

    config = read_config(path, logged=logged)
    return Project.of(InForce(config)), config


def to_read(path: Path, *, shown: bool = False) -> "tuple[Project, Config]":
    """Return a project for commands that read, and the config in force.

    It is the running daemon's, if the file has an error.

    ``shown``: the command shows that error itself; else it is printed on standard error.
    """
    from ingestor.project import Project
    from ingestor.state.running_config import in_force

    close_to_others()
    found = in_force(path, environ)
    if found.error is None:
        for warning in found.config.warnings:
            print(escape_invisible(f"{path}: warning: {warning}"), file=sys.stderr)
    elif not shown:
        print(escape_invisible(found.error), file=sys.stderr)
        print("the previous config stays in force, also for this command", file=sys.stderr)
    return Project.of(found), found.config


def chosen(config: "Config", wanted: str | None) -> str:
    """Return the named collection, or the only one. Exits if there are several and none is named."""
    names = sorted({str(source.collection) for source in config.sources})
    if wanted is None and len(names) > 1:
        fail(f"name a collection: {', '.join(names)}", USAGE)
    return wanted or names[0]
