"""Code that all commands share: options, exit codes, opening of the config, and command lines to paste."""

import logging
import re
import shlex
import shutil
import sys
from os import environ, umask
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from typer import Argument, Option

from ingestor.core.escape import escape_invisible
from ingestor.core.events import event

if TYPE_CHECKING:
    from ingestor.config.models import Config
    from ingestor.project import Project


CONFIG = Path("config.yaml")


ConfigOption = Annotated[Path, Option("--config", "-c", help="The config file.")]
JsonOption = Annotated[bool, Option("--json", help="Print JSON, for programs.")]
VerboseOption = Annotated[bool, Option("--verbose", "-v", help="Show more details.")]
QuietOption = Annotated[bool, Option("--quiet", "-q", help="Show only warnings and errors.")]
DocumentArgument = Annotated[str | None, Argument(help="A document: its key, path or id.")]
CollectionArgument = Annotated[str | None, Argument(help="The collection; optional if there is only one.")]

SETTLED, USAGE, QUARANTINED, FAILED, INTERRUPTED = 0, 2, 3, 4, 130


def command(words: str, config: Path = CONFIG) -> str:
    """Return a command line to paste, such as ``.venv/bin/ingestor sync --config other.yaml``."""
    called = Path(sys.argv[0])
    installed, program = shutil.which(called.name), called.name
    if called.is_file() and not (installed is not None and called.samefile(installed)):
        program = str(called.absolute())
        if Path(program).is_relative_to(Path.cwd()):
            program = str(Path(program).relative_to(Path.cwd()))
    option = "" if config == CONFIG else f" --config {shlex.quote(str(config))}"
    return f"{shlex.quote(program)} {words}{option}"


def quote(text: str) -> str:
    """Quote a text as one word of a shell command, with double quotes if possible."""
    return shlex.quote(text) if re.search(r'[\\"$`!]', text) else f'"{text}"'


def at_once_or_by_sync(project: "Project", config: Path) -> str:
    """Return words that tell when requested work will be done.

    A running daemon does the work "at once". Otherwise the words are "by: " and the command to run.
    """
    return "at once" if project.is_running() else f"by: {command('sync', config)}"


def fail(message: str, code: int = USAGE) -> NoReturn:
    """Print a message on standard error, and exit with a code. If the log is JSON, the message is, too."""
    if "ingestor.cli.log" in sys.modules and sys.modules["ingestor.cli.log"].is_json():
        logging.getLogger("ingestor").critical(message, extra=event("ended", code=code))
    else:
        print(escape_invisible(message), file=sys.stderr)
    raise SystemExit(code)


def log_level(configured: str, verbose: bool, quiet: bool) -> str:
    """Return the level of the log after ``--verbose`` or ``--quiet``.

    Exit with a message if both are given.
    """
    if verbose and quiet:
        fail("--verbose and --quiet exclude each other: choose one")
    if quiet:
        return configured if configured == "error" else "warning"
    return "debug" if verbose else configured


def hide_secrets() -> None:
    """Prevent other users from reading this process's memory and environment, and the files it creates."""
    from ingestor.confinement.walls import hide

    hide()
    umask(0o077)


def open_to_write(path: Path, level: str = "", *, logged: bool = False) -> "tuple[Project, Config]":
    """Open the project for a command that needs the config of the file. Return the project and its config.

    ``level``: level of the log; "config" for that of the config; "" if the caller sets up the log.
    ``logged``: whether the caller logs the warnings about the config; otherwise they are printed. Raises
    ConfigError.
    """
    from ingestor.config.file import load
    from ingestor.project import Project
    from ingestor.state.run_status import InForce

    hide_secrets()
    config = load(path, environ)
    _set_up(config, level)
    for warning in () if logged else config.warnings:
        print(escape_invisible(f"{path}: warning: {warning}"), file=sys.stderr)
    return Project.of(InForce(config)), config


def open_to_read(path: Path, level: str = "", *, shown: bool = False) -> "tuple[Project, Config]":
    """Open the project for a command that only reads. Return the project and the config that is in force.

    If the config file has an error, the config of the running daemon is in force. ``shown``: whether the
    command itself reports that error; otherwise the error is printed. ``level``: see ``open_to_write``.
    """
    from ingestor.project import Project
    from ingestor.state.run_status import in_force

    hide_secrets()
    given = in_force(path, environ)
    _set_up(given.config, level)
    if given.error is None:
        for warning in given.config.warnings:
            print(escape_invisible(f"{path}: warning: {warning}"), file=sys.stderr)
    elif not shown:
        print(escape_invisible(given.error), file=sys.stderr)
        print("the previous config stays in force, also for this command", file=sys.stderr)
    return Project.of(given), given.config


def _set_up(config: "Config", level: str) -> None:
    if level:
        from ingestor.cli.log import set_up

        set_up(config.log.level if level == "config" else level, config.log.format)
