"""The command that lists Chroma's collections, and deletes or adopts one."""

from typing import Annotated

import typer

from ingestor.cli.invocation import command
from ingestor.cli.usage import CONFIG, USAGE, ConfigOption, JsonOption, fail, to_write

Delete = Annotated[
    str | None, typer.Option(metavar="NAME", help="Delete an unused collection that ingestor wrote.")
]
Adopt = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Adopt a collection of another state: that of a copied state keeps its records, that of a lost "
        "state is written again.",
    ),
]
NotOurs = Annotated[
    bool, typer.Option("--not-ours", help="With --delete: delete a collection that another program wrote.")
]


def collections(
    delete: Delete = None,
    adopt: Adopt = None,
    not_ours: NotOurs = False,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """List the collections in Chroma; delete one, or adopt one.

    Lists all collections, ours or not. Without --not-ours, deletes only unused collections of ours.
    """
    from ingestor.cli.log import set_up
    from ingestor.cli.output import console
    from ingestor.units import counted

    if (delete is not None and adopt is not None) or (not_ours and delete is None):
        fail("give one of --delete NAME, --delete NAME --not-ours, --adopt NAME", USAGE)
    project, checked = to_write(config)
    set_up("error", checked.log.format)
    if delete is not None:
        gone = project.delete_collection(delete, not_ours=not_ours)
        words = f"collection {gone.name} is deleted, with {counted(gone.records or 0, 'record')}"
        console.say({"deleted": gone.name, "records": gone.records}, words, as_json)
    elif adopt is not None:
        taken = project.adopt_collection(adopt)
        when = "at once" if project.is_running() else f"by: {command('sync', config)}"
        records = counted(taken.records or 0, "record")
        words = f"collection {taken.name} is deleted, with {records}; it is written again {when}"
        if taken.elsewhere is not None:
            words = f"collection {taken.name} is adopted from {taken.elsewhere}; records are compared {when}"
        console.say({"adopted": taken.name, "records": taken.records}, words, as_json)
    else:
        console.show_collections(project.collections(), as_json)
