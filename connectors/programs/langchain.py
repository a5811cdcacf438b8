"""Any LangChain document loader, by the name of its class.

``loader: CSVLoader`` is looked up in ``langchain_community.document_loaders``; a class of another package is
named as ``package.module:Class``. The rest is as with ``python``: the loader runs in a process of its
own, once in a scan, and a document's version is a digest of all its fields.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from ingestor.connectors.programs.loading import (
    Arguments,
    Ending,
    EntryPoint,
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
        description="class of the loader: `CSVLoader`, or `package.module:Class` if it is not in "
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
    return Loading(options, lambda: EntryPoint(options.loader, package))


PLUGIN = Plugin(kind="langchain", version=1, options=LangchainOptions, build=build)
