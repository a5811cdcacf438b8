"""Entry point of the command line: registers the commands, and prints errors without traceback.

Commands import modules inside their functions, because importing everything takes longer than many commands.
"""

import gc
import signal
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated

try:  # Ctrl-C during the imports prints no traceback
    import typer
    from typer.core import TyperGroup

    from ingestor import __version__
    from ingestor.cli.look import (
        chunk,
        evaluate,
        history,
        list_documents,
        mcp,
        plan,
        query,
        show,
        status,
        verify,
    )  # fmt: skip
    from ingestor.cli.run import accept, apply, collections, init, pause, resume, retry, rollback, run, sync
    from ingestor.cli.trial import try_folder
    from ingestor.cli.usage import FAILED, INTERRUPTED, fail
except KeyboardInterrupt:
    raise SystemExit(130) from None

_ALLOCATIONS = 20_000  # allocations between two garbage collections; Python's default slows imports down


class _Commands(TyperGroup):
    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Invoke the command.

        If typer reports a wrong argument, remove pydantic's prefix from the message.
        """
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    cls=_Commands,
    help="Keep Chroma collections in sync with your documents.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line program; the entry point of the script ``ingestor``."""
    gc.set_threshold(_ALLOCATIONS)
    # Hides httpx's own command line, whose imports (click, pygments, rich) double the time to import httpx.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # do not fail if the terminal cannot show a name
            stream.reconfigure(errors="backslashreplace")
    # Both end a command as Ctrl-C does, so that it deletes temporary folders. After nohup, SIGHUP is ignored.
    ends = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) == signal.SIG_DFL]
    for number in ends:
        signal.signal(number, signal.default_int_handler)
    try:
        app()
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)
    except Exception as error:
        _explain(error)
        raise
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


def _explain(error: Exception) -> None:
    """Print a message with a remedy, and exit, if the error is an expected one.

    Return if the error is a defect of this program, so that the caller shows the traceback.
    """
    from ingestor.config.models import ConfigError
    from ingestor.core.errors import describe
    from ingestor.ports import IngestorError, Torn
    from ingestor.queries.access import BadRequest

    match error:
        case MemoryError() | RuntimeError(args=("can't start new thread",)):
            remedy = "raise its limits (ulimit -v and -u), or set fewer `workers`"
            fail(f"the system refuses memory or threads: {remedy}", FAILED)
        case ConfigError() | BadRequest():
            fail(str(error))
        case Torn():
            fail(f"{describe(error)}; `ingestor sync` writes the collection again, without embedding", FAILED)
        case IngestorError() | OSError():
            fail(describe(error), FAILED)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(f"ingestor {__version__}")
        raise typer.Exit


@app.command(name="help", hidden=True)
def show_help(context: typer.Context, name: Annotated[str, typer.Argument(help="A command.")] = "") -> None:
    """Show all commands, or the options of one command."""
    above = context.parent
    assert above is not None
    known = above.command.get_command(above, name) if name else None  # type: ignore[attr-defined]
    if name and known is None:
        fail(f"there is no command {name!r}; `ingestor help` lists them")
    shown = above if known is None else known.make_context(name, [], above, resilient_parsing=True)
    print(shown.get_help())


_COMMANDS: tuple[Callable[..., None], ...] = (
    try_folder, init, run, sync, plan, apply, rollback, status, query, mcp, verify, retry, accept, pause,
    resume, list_documents, show, history, collections, chunk, evaluate,
)  # fmt: skip
for _command in _COMMANDS:
    app.command(name={list_documents: "ls", try_folder: "try"}.get(_command))(_command)
