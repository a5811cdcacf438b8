"""The command that shows how a file is cut."""

from pathlib import Path
from typing import Annotated

import typer


def chunk(
    file: Annotated[Path, typer.Argument(help="File to chunk, in any supported format.")],
    strategy: Annotated[str | None, typer.Option(help="Chunking strategy; default: the config's.")] = None,
    option: Annotated[
        list[str], typer.Option(metavar="KEY=VALUE", help="Option of the strategy; may be repeated.")
    ] = [],  # noqa: B006
    compare: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[:KEY=VALUE...],...", help="Strategies to compare with, each with its options."
        ),
    ] = [],  # noqa: B006
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write an HTML page that shows all strategies.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="The config file; default: config.yaml, if it exists."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show how strategies cut a file into chunks.

    Indexes nothing; needs no Chroma.
    """

    from ingestor.cli.chunk_command import show

    show(file, strategy, option, compare, html, config, as_json=as_json)
