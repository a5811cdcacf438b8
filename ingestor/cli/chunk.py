"""The command that shows how a file is cut."""

from pathlib import Path
from typing import Annotated

import typer


def chunk(
    file: Annotated[Path, typer.Argument(help="Any file that a source could hold.")],
    strategy: Annotated[str | None, typer.Option(help="How to cut; else as the config says.")] = None,
    option: Annotated[
        list[str], typer.Option(metavar="KEY=VALUE", help="An option of the strategy; may be repeated.")
    ] = [],  # noqa: B006
    compare: Annotated[
        list[str],
        typer.Option(metavar="NAME[:KEY=VALUE...],...", help="More strategies, each with its own options."),
    ] = [],  # noqa: B006
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page that shows it all.")] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The config file; config.yaml if there is one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show how a file is cut into chunks.

    Nothing is indexed, and no Chroma is needed.
    """

    from ingestor.cli.chunk_command import show

    show(file, strategy, option, compare, html, config, as_json=as_json)
