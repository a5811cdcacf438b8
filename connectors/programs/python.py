"""Documents from Python code: a function that returns documents, a LangChain loader, a LlamaIndex reader.

``call`` names it as ``module:name``. Its result is iterated: mappings with ``key`` and ``text`` (or ``data``,
bytes), and optionally ``uri`` and ``metadata``; or objects with ``metadata`` and either ``page_content`` or
``get_content``. Version: a digest of all fields. Every scan runs the code to its end, in a process of its
own, and its documents are kept on disk until the next scan. If the code raises, no document is removed.
Documents that the code leaves out without raising are removed, up to ``max_loss``.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from ingestor.connectors.programs.loading import (
    Arguments,
    Ending,
    EntryPoint,
    Folder,
    Key,
    Load,
    Loading,
    MaxSize,
    Secrets,
    Timeout,
    named,
)
from ingestor.registry import Options, Plugin


class PythonOptions(Options):
    call: Annotated[str, AfterValidator(named)] = Field(
        description="`package.module:name` of a function that returns documents, or of a loader class"
    )
    arguments: Arguments
    secrets: Secrets
    load: Load
    folder: Folder
    key: Key
    ending: Ending
    timeout: Timeout
    max_size: MaxSize


def build(options: PythonOptions) -> Loading:
    call = EntryPoint(options.call, load=options.load)
    return Loading(options, lambda: call)


PLUGIN = Plugin(kind="python", version=1, options=PythonOptions, build=build)
