"""Any LangChain document loader, by the name of its class.

``loader: CSVLoader`` is looked for in ``langchain_community.document_loaders``; one that lives elsewhere is
named as ``package.module:Class``. Everything else is as with ``python``: the loader runs in a process of its
own, once a scan, and a document's version is a digest of all that is known of it.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from ingestor.connectors.programs.loading import (
    Arguments,
    Call,
    Ending,
    Folder,
    Key,
    Loading,
    MaxSize,
    Secrets,
    Timeout,
    named,
)
from ingestor.registry import Options, Plugin

_COMMUNITY = "langchain_community.document_loaders"


def _loader(name: str) -> str:
    return named(name if ":" in name else f"{_COMMUNITY}:{name}")


class LangchainOptions(Options):
    loader: Annotated[str, AfterValidator(_loader)] = Field(
        description="its class: `CSVLoader`, or `package.module:Class` where it is not one of "
        "`langchain_community`"
    )
    arguments: Arguments
    secrets: Secrets
    folder: Folder
    key: Key = Field(default=["source", "url", "file_path", "id"])
    ending: Ending = Field(default=".txt")
    timeout: Timeout
    max_size: MaxSize


def build(options: LangchainOptions) -> Loading:
    package = options.loader.partition(":")[0].partition(".")[0].replace("_", "-")
    return Loading(options, lambda: Call(options.loader, package))


PLUGIN = Plugin(kind="langchain", version=1, options=LangchainOptions, build=build)
